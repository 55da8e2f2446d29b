"""Numbers that were wrong once: directions, corrections, intervals, and what was not computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import segmeter
from segmeter.benchmarks.rclicks.statistics import CARDS as RCLICKS
from segmeter.benchmarks.tetris.statistics import STATISTICS, attacks_of
from segmeter.core.annotation_events import Timing
from segmeter.core.errors import BadInput
from segmeter.core.sections import Note, Table
from segmeter.report.result_tables import TableChoice, paper_table, sections_of
from segmeter.stats.comparisons import holm
from segmeter.stats.cost_fitting import fit_costs
from segmeter.stats.intervals import Resampling
from segmeter.stats.statistics import cards_by_name
from segmeter.store import Run

from .kept_results import RUNS, KeptRun


def table_of(run: Any, protocol: str = "corrected") -> Table:
    return paper_table(run, protocol, TableChoice())


def cards(name: str) -> dict[str, Any]:
    run = KeptRun(name)
    return cards_by_name(run.benchmark.statistics(run))  # type: ignore[arg-type]  # a kept run


def test_distances_effort_and_noise_are_better_when_lower() -> None:
    volumes = cards("volumes")
    assert {volumes[name].better for name in ("hd95", "effort-to-80", "never@80")} == {"lower"}
    assert {RCLICKS[name].better for name in ("nsr@1", "std@1", "dsb-noc")} == {"lower"}
    tetris = cards_by_name(STATISTICS)
    assert tetris["first-spread"].better == tetris["iou-d"].better == "lower"
    assert volumes["never@80"].unit == "% of objects"
    assert cards("noc")["never@90"].unit == "objects"


@pytest.mark.parametrize(
    ("run", "first"),
    [
        ("volumes", "hd95"),
        ("volumes", "effort-to-80"),
        ("noc", "noc@90"),
        ("rclicks", "nsr@1"),
        ("tetris", "first-spread"),
    ],
)
def test_a_leaderboard_puts_the_lowest_first_where_lower_is_better(
    run: str, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: Any = KeptRun(run)
    monkeypatch.setattr(type(kept.benchmark), "headline", (first,))
    title = cards(run)[first].title
    tables = [b for s in sections_of(kept) for b in s.blocks if isinstance(b, Table)]
    ranked = [table for table in tables if table.columns[1].title == title]
    assert ranked
    for table in ranked:
        values = [row[1].value for row in table.rows]  # type: ignore[union-attr]
        assert values == sorted(values)


@pytest.mark.parametrize("name", RUNS)
def test_every_benchmark_has_sessions_a_table_a_leaderboard_and_differences(name: str) -> None:
    kept: Any = KeptRun(name)
    assert Run.sessions(kept)
    assert table_of(kept, kept.plan.leading_protocol).rows
    assert any(section.blocks for section in sections_of(kept))
    assert len(kept.plan.segmenters) == 1 or kept.benchmark.differences(kept)


def test_sessions_that_ended_at_a_goal_have_no_numbers_beyond_it() -> None:
    run = KeptRun("noc-until")
    found = {row.statistic for row in run.summary()}
    assert {"noc@80", "noc@85", "noc@90", "nof@90", "seconds-to-90", "iou@1"} <= found
    for name in ("noc@95", "nof@95", "never@95", "seconds-to-95", "iou@2", "auc", "boundary-auc"):
        assert name not in found
    with pytest.raises(BadInput, match="goal '95' is not known: sessions of this run ended at 90"):
        KeptRun("noc-until", {"goal": "95"}).summary()


def test_pairs_of_a_statistic_are_corrected_over_all_data_sets_and_users() -> None:
    run = KeptRun("noc")
    found = [d for d in run.benchmark.differences(run) if d.protocol == "corrected"]
    clicks = [d for d in found if d.statistic == "noc@90"]
    assert len({(d.dataset, d.user) for d in clicks}) == 4
    assert [d.p_holm for d in clicks] == holm([d.p for d in clicks])


def test_models_are_compared_in_the_order_in_which_they_were_named() -> None:
    run = KeptRun("tetris-boxes")
    assert [str(spec) for spec in run.plan.segmenters] == ["noisy", "disc"]
    found = run.benchmark.differences(run)
    assert {(d.first, d.second) for d in found} == {("noisy", "disc")}


def test_models_attacked_by_gradient_and_by_search_are_not_compared() -> None:
    run = KeptRun("tetris")
    tried = [
        "],[".join(["0"] * (60 if model == "noisy" else 3))
        for model in run._table["model"].to_pylist()
    ]
    place = run._table.column_names.index("trials")
    run._table = run._table.set_column(place, "trials", pa.array(tried))
    assert attacks_of(run) == {"disc": "gradient", "noisy": "search"}
    corrected = [d for d in run.benchmark.differences(run) if d.protocol == "corrected"]
    assert corrected == []


@pytest.mark.parametrize("people", [3, 4, 6])
def test_intervals_of_fitted_costs_hold_the_price_about_19_times_in_20(people: int) -> None:
    """Percentiles over three people held it 70 times in 100."""
    draw = np.random.default_rng(people)
    held = 0
    for _ in range(300):
        pace = np.exp(draw.normal(0, 0.3, people))
        steps = [
            Timing(str(who), f"{who}-{k}", "click", False, float(pace[who] * draw.uniform(1, 2)))
            for who in range(people)
            for k in range(12)
        ]
        price = fit_costs(steps).prices["click"]
        held += price.low <= 1.5 * np.exp(0.3**2 / 2) <= price.high
    assert held / 300 > 0.91


def test_the_limits_of_a_ratio_are_values_of_resamples() -> None:
    draw = np.random.default_rng(3)
    for _ in range(50):
        below = draw.integers(1, 20, 6).astype(float)
        above = draw.integers(1, 20, 6).astype(float)
        drawn = Resampling(range(6))
        found = drawn.ratio(above, below)
        ratios = drawn.totals(above)[:, 0] / drawn.totals(below)[:, 0]
        assert ratios.min() - 1e-9 <= found.low <= found.value + 1e-9
        assert found.value - 1e-9 <= found.high <= ratios.max() + 1e-9


def test_the_paper_table_has_the_clicks_to_the_given_goals() -> None:
    eighty: Any = KeptRun("noc", {"goal": "80"})
    titles = [column.title for column in table_of(eighty).columns]
    assert {"NoC@80", "NoF@80"} <= set(titles)
    assert "NoC@85" not in titles
    three: Any = KeptRun("noc", {"goal": "80,85,90"})
    assert {"NoC@80", "NoC@85", "NoC@90"} <= {c.title for c in table_of(three).columns}
    assert "80 %, 85 % and 90 % IoU" in table_of(three).caption
    dice: Any = KeptRun("noc", {"goal": "dice>=0.9"})
    assert table_of(dice).caption.startswith("Clicks to dice of 0.9, failures")
    mixed: Any = KeptRun("noc", {"goal": "85,dice>=0.9"})
    assert table_of(mixed).caption.startswith("Clicks to 85 % IoU and dice of 0.9, failures")


def test_the_paper_table_counts_objects_where_models_lack_some() -> None:
    """A model that failed on most scenes looked better in its table."""
    few: Any = KeptRun("noc", where="model <> 'disc' or scene in ('astronaut', '000', '001')")
    table = table_of(few)
    counts = [k for k, column in enumerate(table.columns) if column.title == "n"]
    assert counts
    assert len({row[counts[0]] for row in table.rows}) > 1
    assert "not scored on the same objects" in table.caption
    blocks = sections_of(few)[0].blocks
    assert isinstance(blocks[0], Note)
    assert "disc has no result" in blocks[0].text
    board = next(block for block in blocks if isinstance(block, Table))
    assert board.columns[1].title == "n"
    assert "some models lack objects" in board.caption
    whole: Any = KeptRun("noc")
    assert "n" not in [column.title for column in table_of(whole).columns]


def test_a_statistic_of_a_later_round_needs_every_object() -> None:
    names = cards("noc-until")
    assert {"iou@1", "boundary-iou@1"} <= names.keys()
    assert not {"iou@2", "auc", "boundary-iou@2", "boundary-auc"} & names.keys()


def test_models_and_datasets_come_in_the_order_of_the_plan(tmp_path: Path) -> None:
    models, names = ["synthetic-noisy", "disc"], ["mini", "drawn"]
    run = segmeter.evaluate(models, names, out=tmp_path / "run", limit=1, rounds=1)
    for found in (run.summary(), run.compare()):
        assert list(dict.fromkeys(row.dataset for row in found)) == names
    assert list(dict.fromkeys(row.model for row in run.summary())) == models

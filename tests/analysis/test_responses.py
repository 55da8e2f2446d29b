"""Obedience and calibration as statistics: models of known behaviour, rows against masks."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import segmeter
from segmeter.analysis.response_section import (
    _calibration,
    by_class,
    followed_sentence,
    response_sections,
)
from segmeter.analysis.responses import STATISTICS, Responses, response_groups
from segmeter.core.benchmarks import Difference, Group, SummaryRow
from segmeter.core.rows import RESPONSES
from segmeter.core.sections import Table
from segmeter.stats.statistics import cards_by_name

CARDS = cards_by_name(STATISTICS)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("responses") / "run"
    return segmeter.evaluate(
        ["synthetic-oracle", "synthetic-stubborn", "synthetic-noisy"],
        "mini",
        out=place,
        limit=4,
        rounds=4,
        workers=0,
    )


def numbers(run: Any) -> dict[tuple[str, str], float]:
    return {(r.model, r.statistic): r.value for r in run.summary() if r.protocol == "corrected"}


def test_an_oracle_follows_every_click_and_a_mask_that_never_changes_undoes_none(run: Any) -> None:
    found = numbers(run)
    assert found["synthetic-oracle", "obeyed"] == found["synthetic-oracle", "obeyed@1"] == 100
    assert found["synthetic-oracle", "hurt"] == 0
    assert found["synthetic-stubborn", "undone"] == 0
    assert found["synthetic-stubborn", "stuck"] == 100
    assert found["synthetic-stubborn", "obeyed@2-4"] < 100
    assert found["synthetic-stubborn", "hurt"] == 0


class WithoutColumns:
    """A run whose rows lack the columns on responses."""

    def __init__(self, run: Any) -> None:
        self.run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self.run, name)

    def sql(self, query: str, parameters: Any = ()) -> Any:
        table = self.run.sql(query, parameters)
        for name in {*RESPONSES}.intersection(table.column_names):
            place, kind = table.column_names.index(name), table[name].type
            table = table.set_column(place, name, pa.nulls(len(table), kind))
        return table


def test_without_the_columns_only_what_follows_from_iou_and_score_is_reported(run: Any) -> None:
    (group, *_) = response_groups(WithoutColumns(run))  # type: ignore[arg-type]
    assert CARDS["obeyed"].estimate(group) is None
    assert CARDS["rice"].estimate(group) is not None


def test_the_report_shows_obedience_calibration_and_the_worst_sessions(run: Any) -> None:
    (section,) = response_sections(run)
    kinds = [type(block).__name__ for block in section.blocks]
    names = [block.name.partition("-")[0] for block in section.blocks if isinstance(block, Table)]
    assert names == ["obedience", "score", "stopping"]
    assert "Multiples" in kinds
    tables = [block for block in section.blocks if isinstance(block, Table)]
    assert not any(c.better for t in tables for c in t.columns), "4 images name no best model"
    replays = [block for block in section.blocks if type(block).__name__ == "Replay"]
    assert "synthetic-stubborn" in replays[0].title  # type: ignore[union-attr]
    assert "not obeyed: click 1" in {f.note for f in replays[0].frames}  # type: ignore[union-attr]


def group_of(**tables: Any) -> Responses:
    shape = np.array(next(iter(tables.values()))).shape
    names = [field.name for field in fields(Responses)[len(fields(Group)) :]]
    held = {name: np.full(shape, np.nan) for name in names}
    held["round"] = np.broadcast_to(np.arange(1.0, shape[1] + 1), shape)
    held |= {name: np.array(table, float) for name, table in tables.items()}
    keys = tuple((f"s{i}", "t") for i in range(shape[0]))
    scenes = tuple(scene for scene, _ in keys)
    return Responses("m", "d", "u", "corrected", keys, scenes, *held.values())


def test_shares_are_of_all_clicks_and_their_differences_have_the_same_mean() -> None:
    group = group_of(
        given=[[1, 1, 1], [1, np.nan, np.nan]], obeyed=[[1, 0, 0], [1, np.nan, np.nan]]
    )
    found = CARDS["obeyed"].estimate(group)
    assert found is not None
    assert found[0].value == 50  # two of four, not the mean of 1/3 and 1
    compared = CARDS["obeyed"].compared(group)
    assert compared is not None
    assert compared.mean() == pytest.approx(50)


def test_frequent_classes_have_separate_lines() -> None:
    group = group_of(obeyed=[[1, 0], [1, 1], [0, 0], [1, 1], [1, 1]], given=np.ones((5, 2)))
    named = zip(group.keys, ["cat", "cat", "dog", "dog", "cow"], strict=True)
    labels = {("d", *key): name for key, name in named}
    (table,) = by_class([group], "d", "d", labels)
    found = {row[1]: (row[2], row[3].value) for row in table.rows}  # type: ignore[union-attr]
    assert found == {"cat": (2, 75.0), "dog": (2, 50.0)}


def test_a_drop_counts_from_the_second_round_and_recovery_is_the_median() -> None:
    iou = [[0.5, 0.3, 0.4, 0.6], [0.5, 0.4, 0.5, 0.5]]
    group = group_of(iou=iou)
    assert CARDS["hurt"].estimate(group)[0].value == pytest.approx(100 * 2 / 6)  # type: ignore[index]
    assert CARDS["drop"].estimate(group)[0].value == pytest.approx(15)  # type: ignore[index]
    assert CARDS["recovery"].estimate(group)[0].value == 1  # type: ignore[index]


def test_resamples_in_which_half_never_recover_count_as_infinite() -> None:
    iou = [[0.5, 0.3, 0.6, 0.6]] * 3 + [[0.5, 0.3, 0.3, 0.3]] * 2
    found, _ = CARDS["recovery"].estimate(group_of(iou=iou))  # type: ignore[misc]
    assert (found.value, found.low, found.high) == (1, 1, np.inf)


@pytest.mark.parametrize("obeyed", [0, 1])
def test_shares_of_all_or_no_clicks_have_wilsons_limits(obeyed: int) -> None:
    """All resamples agree: 100 % of the clicks on ten images was given as (100 to 100)."""
    group = group_of(given=[[1, 1, 1]] * 10, obeyed=[[obeyed] * 3] * 10)
    found, _ = CARDS["obeyed"].estimate(group)  # type: ignore[misc]
    limits = (72.2, 100) if obeyed else (0, 27.8)
    assert (found.value, found.low, found.high) == pytest.approx((100 * obeyed, *limits), abs=0.1)
    alone, _ = CARDS["obeyed"].estimate(group.only([0]))  # type: ignore[misc]
    assert np.isnan([alone.low, alone.high]).all()


def test_rice_of_rounds_agrees_with_the_measure() -> None:
    from segmeter.measures.obedience import rice

    draws = np.random.default_rng(0).random((5, 6))
    found = group_of(iou=draws).rice
    for line, ours in zip(draws, found, strict=True):
        expected = [rice(a, b) for a, b in zip([0.0, *line], line, strict=False)]
        assert ours == pytest.approx(expected)


def test_a_score_that_is_right_has_no_error_and_ranks_perfectly() -> None:
    iou = np.linspace(0.5, 1, 40).reshape(8, 5)
    group = group_of(iou=iou, score=iou)
    for name, value in (("score-error", 0), ("score-ece", 0), ("score-auroc", 1)):
        estimate = CARDS[name].estimate(group)
        assert estimate is not None
        assert estimate[0].value == pytest.approx(value, abs=1e-12)
        assert estimate[0].low <= estimate[0].value <= estimate[0].high


def test_the_answer_names_a_difference_in_obedience_only_if_it_is_significant() -> None:
    d = Difference("a", "b", "d", "u", "corrected", "obeyed", -20, -30, -10, 0.01, 0.01, 9)
    head = ("d", "u", "corrected", "obeyed")
    rows = {
        (model, "obeyed"): SummaryRow(model, *head, share, share, share, 9)
        for model, share in (("a", 50.0), ("b", 70.0))
    }
    told = followed_sentence([d], rows)
    assert told.startswith("**b** obeys 70 % of prompts, **a** 50 %")
    assert not followed_sentence([replace(d, p_holm=0.2)], rows)


def test_the_section_is_in_the_page(run: Any, tmp_path: Path) -> None:
    assert "Does the model obey clicks?" in run.report(tmp_path / "page.html").read_text()


def test_a_reliability_diagram_spans_scores_above_one_and_no_empty_corner() -> None:
    """MobileSAM's scores reach 1.01: its points were drawn beyond the axis."""

    class Scored:
        model = "a"

        def pairs(self) -> tuple[Any, Any]:
            return np.linspace(0.85, 1.01, 40), np.linspace(0.8, 0.95, 40)

    (charts,) = _calibration([Scored()], "drawn")  # type: ignore[list-item]
    chart = charts.charts[0]  # type: ignore[union-attr]
    assert (chart.x.low, chart.x.high) == (chart.y.low, chart.y.high) == (0.8, 1.1)
    assert all(chart.x.low <= v <= chart.x.high for line in chart.marks for v in line.x)

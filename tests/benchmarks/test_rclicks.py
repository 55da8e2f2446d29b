"""The RClicks benchmark: the notebook's numbers, nulls that hold, and runs from end to end."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rclicks_paper import judge_cell, noc_cells, similarity_means
from rclicks_simulated_nulls import NULLS, retries, under_the_null
from segmeter.benchmarks.rclicks import Rclicks
from segmeter.benchmarks.rclicks.effects import EFFECTS, excess_of, interval_of, nulls, value_of
from segmeter.benchmarks.rclicks.sections import conclusions, pairwise_result
from segmeter.benchmarks.rclicks.statistics import (
    CARDS,
    STATISTICS,
    FirstClicks,
    GroupCurves,
    ModelFindings,
    findings,
    findings_of,
)
from segmeter.benchmarks.rclicks.work import simulated_sessions_of
from segmeter.clickability.click_files import ClickTarget, write_simulated
from segmeter.core import catalogue
from segmeter.core.benchmarks import SummaryRow
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.plans import Plan
from segmeter.core.sections import Answer, Gallery, Multiples, Section, Table
from segmeter.engine import run_plan
from segmeter.report.page import Page, render
from segmeter.stats.intervals import Floats, Resampling
from segmeter.stats.null_distributions import components
from segmeter.stats.statistics import differences_of, summary_of
from segmeter.store import Run

from ..forking import Interpreter

# The notebook's names of our statistics, and the factor to our units.
NOTEBOOK = {
    "NoC Mean vs Base (%)": ("dsb-noc", 1),
    "IoU Mean vs Base (D)": ("dsb-auc", 100),
    "NoF Mean vs Base (D)": ("dsb-nof", 1),
    "NoC Base@20": ("base-noc", 1),
    "Base IoU@20": ("base-auc", 100),
    "NoF Base@20": ("base-nof", 1),
    "MEAN NoC@20": ("sample-noc", 1),
    "MEAN IoU@20": ("sample-auc", 100),
    "MEAN NoF@20": ("sample-nof", 1),
    "STD NoC@20": ("std-noc", 1),
    "STD IoU@20": ("std-auc", 100),
    "STD NoF@20": ("std-nof", 1),
    "NSR PerImage IoU@20": ("nsr", 1),
    "Sample G1-G10 NoC(%)": ("dgr-noc", 1),
    "Sample G1-G10 IoU(D)": ("dgr-auc", 100),
    "Sample G1-G10 NoF(D)": ("dgr-nof", 1),
    "Sample H1-H2 NoC(%)": ("dhh-noc", 1),
    "Sample H1-H2 IoU(D)": ("dhh-auc", 100),
    "Sample H1-H2 NoF(D)": ("dhh-nof", 1),
}


def experiments(golden: Path) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = json.loads((golden / "clicks" / "groups.json").read_text())[
        "statistics"
    ]
    assert len(made) == 3
    return made


def trial_of(case: dict[str, Any]) -> GroupCurves:
    keys = tuple((str(i), "") for i in range(case["instances"]))
    groups = np.array(case["groups"])[None]
    clusters = tuple(k for k, _ in keys)
    return GroupCurves(
        "m", "d", "groups", "published", keys, clusters, np.array(case["base"]), groups
    )


def test_the_notebooks_statistics_of_groups(golden: Path) -> None:
    """The original computes most of them in float32, hence the tolerance."""
    for case in experiments(golden):
        trial = trial_of(case)
        for words, (name, scale) in NOTEBOOK.items():
            statistic = EFFECTS[name]
            value = float(value_of(statistic, trial.clickers(statistic.measure))) / scale
            assert value == pytest.approx(case["expected"][words], rel=1e-5, abs=1e-6), words


def test_the_notebooks_statistics_of_first_clicks(golden: Path) -> None:
    for case in experiments(golden):
        for field, suffix in (("user", "User"), ("sampled_like_users", "NUser")):
            keys = tuple((str(i), "") for i in range(len(case[field])))
            clicks = _first_clicks(keys, tuple(k for k, _ in keys), case[field])
            for ours, theirs in (("iou@1", "MeanIoU"), ("std@1", "StdIoU"), ("nsr@1", "SNRIoU")):
                expected = 100 * case["expected"][f"{theirs}_{suffix}@1"]
                interval, _ = CARDS[ours].estimate(clicks)
                assert interval.value == pytest.approx(expected, rel=1e-6)
        base = 100 * float(np.array(case["base"])[:, 0].mean())
        assert base == pytest.approx(100 * case["expected"]["MeanIoU_Base@1"])


@pytest.mark.parametrize("dataset", ["GrabCut", "Berkeley", "DAVIS", "COCO"])
def test_the_papers_mean_tables_follow_from_its_tables_per_image(
    golden: Path, dataset: str
) -> None:
    found = similarity_means(golden / "rclicks" / f"{dataset}_per_image.csv")
    with (golden / "rclicks" / f"{dataset}_mean.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["model_name"] for row in rows} == found.keys()
    for row in rows:
        for measure, value in found[row["model_name"]].items():
            # NSS and PDE were averaged in float32.
            assert value == pytest.approx(float(row[measure]), rel=2e-6)


def test_notes_on_the_papers_table_are_shown(golden: Path) -> None:
    cells = noc_cells(golden / "rclicks")
    assert len(cells) == 165
    assert np.mean([c.dsb for c in cells]) == pytest.approx(10.1, abs=0.05)
    assert np.mean([c.ratio for c in cells]) == pytest.approx(4.9, abs=0.05)
    assert sum(c.ratio < 0 < c.dsb for c in cells) == 16
    sam2 = next(c for c in cells if c.model == "SAM 2 Hiera-T SA-V" and c.dataset == "TETRIS")
    conclusion = judge_cell(sam2, repetitions=20)
    assert conclusion["dgr"].nothing
    assert conclusion["dhh"].nothing
    gpcis = next(c for c in cells if c.model.startswith("GPCIS") and c.dataset == "DAVIS")
    beyond = judge_cell(gpcis, repetitions=20)["dgr"]
    assert not beyond.nothing
    assert not beyond.doubtful


def test_means_of_ratios_are_above_zero_when_nothing_differs_and_ratios_of_means_are_not() -> None:
    _, targets, law = NULLS[0]
    names = ("dsb-noc", "dgr-noc", "dhh-noc", "dgr-noc-ratio", "dgr-noc-log")
    found = under_the_null(law, targets, 30, "test", names)
    for name in names[:3]:
        assert found[name].mean() == pytest.approx(0.05, abs=0.006)
    for name in names[3:]:
        assert found[name].mean() == pytest.approx(0, abs=0.006)


def without_effect(targets: int, seed: int, draws: int = 2) -> np.ndarray:
    """Players of one distribution; the second draws come from the same targets."""
    rng = np.random.default_rng(seed)
    chance = rng.beta(3, 2, size=(targets, 1)).clip(0.05)
    return np.minimum(rng.geometric(chance, size=(targets, 1 + 10 * draws)), 20).astype(float)


def with_effect(targets: int, seed: int, more: float) -> np.ndarray:
    """The first group of each draw needs so many clicks more."""
    simulated_sessions = without_effect(targets, seed)
    simulated_sessions[:, [1, 11]] += more
    return simulated_sessions


def test_a_null_separates_an_effect_from_none() -> None:
    asked = [s for s in EFFECTS.values() if s.measure == "noc"]
    for simulated_sessions, expected in (
        (without_effect(120, 1), False),
        (with_effect(120, 1, 1.0), True),
    ):
        found = nulls(asked, simulated_sessions, relabellings=500)
        assert (found["dgr-noc-ratio"].p < 0.05) is expected
        assert (found["dgr-noc"].p < 0.05) is expected
    # The mean of ratios is far above zero either way.
    assert found["dgr-noc"].mean > 0.2


def test_p_values_of_no_effect_are_spread_evenly() -> None:
    asked = [EFFECTS["dgr-noc-ratio"], EFFECTS["dsb-noc"], EFFECTS["dgr-noc"]]
    p = [
        [n.p for n in nulls(asked, without_effect(40, seed), relabellings=99).values()]
        for seed in range(120)
    ]
    share = (np.array(p) <= 0.1).mean(axis=0)
    assert (share < 0.2).all()
    assert (share > 0.02).all()


def test_the_null_of_a_mean_of_ratios_is_what_all_pairs_give() -> None:
    """Exactly: the mean of X / Y - 1 over all ordered pairs of different groups."""
    simulated_sessions = without_effect(30, 3, draws=1)
    groups = simulated_sessions[:, 1:]
    pairs = groups[:, :, None] / groups[:, None, :] - 1
    exact = pairs.sum(axis=(1, 2)).mean() / 90
    null = nulls([EFFECTS["dgr-noc"]], simulated_sessions, relabellings=20_000)["dgr-noc"]
    assert null.mean == pytest.approx(exact, abs=0.01)
    assert null.terms is not None
    assert null.terms.mean() == pytest.approx(null.mean)


def test_an_excess_is_what_was_seen_less_the_null() -> None:
    simulated_sessions = with_effect(60, 2, 2.0)
    drawn = Resampling(range(60))
    for name in ("dgr-noc", "dgr-noc-ratio", "dhh-noc"):
        statistic = EFFECTS[name]
        null = nulls([statistic], simulated_sessions, relabellings=200)[name]
        excess = excess_of(statistic, simulated_sessions, null, drawn)
        assert excess.value == pytest.approx(
            float(value_of(statistic, simulated_sessions)) - null.mean
        )
        assert excess.low < excess.value < excess.high


@pytest.mark.parametrize("name", sorted(EFFECTS))
def test_an_interval_holds_its_statistic(name: str) -> None:
    statistic = EFFECTS[name]
    simulated_sessions = without_effect(50, 5)
    if statistic.measure == "nof":
        simulated_sessions = (simulated_sessions > 3).astype(float)
    found = interval_of(statistic, simulated_sessions, Resampling(range(50)))
    assert found.value == pytest.approx(float(value_of(statistic, simulated_sessions)))
    # The spread of ten counts is never below zero, so its draws lie above it.
    assert found.low <= found.value + 1e-9 or name == "std-nof"
    assert found.value <= found.high + 1e-9


def test_ratios_of_means_are_covered_by_their_intervals() -> None:
    """Of 95 % intervals on 60 targets about as many hold the true ratio, one."""
    statistic = EFFECTS["dgr-noc-ratio"]
    held = 0
    for seed in range(200):
        found = interval_of(statistic, without_effect(60, seed), Resampling(range(60), seed=seed))
        held += found.low <= 0 <= found.high
    assert held >= 180


def by_draw(simulated_sessions: Floats) -> Floats:
    """A table of players as `(targets, draws, groups)`, the centre click left out."""
    return simulated_sessions[:, 1:].reshape(len(simulated_sessions), -1, 10)


def test_components_part_groups_from_luck() -> None:
    drawn = Resampling(range(400))
    nothing = components(by_draw(without_effect(400, 7)), drawn)
    assert nothing is not None
    assert nothing.between.low < 0 < nothing.between.high
    assert nothing.p > 0.05
    rng = np.random.default_rng(8)
    groups = rng.normal(0, 2, (400, 1, 10))
    chance_draws = rng.normal(0, 1, (400, 2, 10))
    known = components(groups + chance_draws, drawn)
    assert known is not None
    assert known.between.value == pytest.approx(4, rel=0.1)
    assert known.within.value == pytest.approx(1, rel=0.1)
    assert known.share.value == pytest.approx(0.8, abs=0.02)
    assert known.p < 0.01
    assert components(by_draw(without_effect(5, 1, draws=1)), Resampling(range(5))) is None


def test_distributions_have_their_nominal_spread() -> None:
    table = retries(2, 2.2)(np.random.default_rng(0), 4000)
    assert table.shape == (4000, 11)
    assert table.min() == 1
    assert table.max() == 20
    assert table.mean() == pytest.approx(2.87, abs=0.1)


# Runs from end to end, on drawn scenes.

PLAN = Plan(
    "rclicks",
    (Spec("disc", {"radius": 12}), Spec("synthetic-noisy")),
    (Spec("drawn"),),
    rounds=5,
    limit=3,
    protocols=("published", "corrected"),
    options={"samples": 6},
)


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lifelike file on the drawn scenes, with twelve people a target."""
    data = catalogue.datasets.make("drawn")
    scenes = [data.load(name) for name in data.scenes()[: PLAN.limit]]
    things = [ClickTarget("drawn", s.id, t.mask, t.id) for s in scenes for t in s.targets]
    path = tmp_path_factory.mktemp("clicks") / "clicks.csv"
    write_simulated(path, things, per_target=12, later=False)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, clicks: Path) -> Run:
    out = tmp_path_factory.mktemp("runs") / "rclicks"
    plan = Plan.from_json(PLAN.to_json())
    tally = run_plan(_with(plan, clicks=str(clicks)), out, workers=0)
    assert tally.failed == 0
    return Run.open(out)


def _with(plan: Plan, **options: object) -> Plan:
    return replace(plan, options={**plan.options, **options})


@pytest.fixture(scope="module")
def rows(run: Run) -> dict[tuple[str, str, str, str], SummaryRow]:
    return {(r.model, r.user, r.protocol, r.statistic): r for r in Rclicks().summary(run)}


@pytest.fixture(scope="module")
def sections(run: Run) -> list[Section]:
    return list(Rclicks().sections(run))


def test_eleven_users_per_target_in_published_and_two_draws_in_corrected(run: Run) -> None:
    scene = catalogue.datasets.make("drawn").load("000")
    simulated_sessions = simulated_sessions_of(scene, run.plan)
    target = scene.targets[0].id
    counts = {
        protocol: sum(p.target.id == target and p.protocol == protocol for p in simulated_sessions)
        for protocol in ("published", "corrected")
    }
    assert counts == {"published": 11, "corrected": 21}
    batch = run.sql(
        """select max(batch_size) as most from rows where "user" like 'clicking-group%'"""
    )
    assert batch.to_pylist()[0]["most"] > 11


def test_people_click_once_and_are_as_many_as_recorded(run: Run) -> None:
    table = run.sql("""
        select count(*) as clicks, max(round) as last, count(distinct "user") as people
        from rows where "user" like 'replay-%' and model = 'synthetic-noisy'
        and protocol = 'corrected'
    """).to_pylist()[0]
    targets = run.sql("select count(distinct scene || target) as n from rows").to_pylist()[0]["n"]
    assert table == {"clicks": 12 * targets, "last": 1, "people": 12}


def test_the_summary_holds_every_statistic_in_both_protocols(
    rows: dict[tuple[str, str, str, str], SummaryRow],
) -> None:
    for protocol in ("published", "corrected"):
        for name, statistic in EFFECTS.items():
            assert ("disc?radius=12", "groups", protocol, name) in rows
            known = ("disc?radius=12", "groups", protocol, f"{name}:null") in rows
            assert known is (statistic.relabelled != "none")
        for who in ("people", "samples"):
            for name in ("iou@1", "std@1", "nsr@1"):
                assert ("synthetic-noisy", who, protocol, name) in rows
    for name in ("between-noc", "within-noc", "share-auc"):
        assert ("synthetic-noisy", "groups", "corrected", name) in rows
        assert ("synthetic-noisy", "groups", "published", name) not in rows


def test_user_at_one_follows_from_the_rows(
    run: Run, rows: dict[tuple[str, str, str, str], SummaryRow]
) -> None:
    table = run.sql("""
        select avg(mean) as mean, avg(spread) as spread, avg(spread / (mean + 1e-9)) as noise from (
            select avg(iou) as mean, stddev_pop(iou) as spread from rows
            where "user" like 'replay-%' and model like 'disc%' and protocol = 'published'
            group by scene, target)
    """).to_pylist()[0]
    for name, value in (("iou@1", "mean"), ("std@1", "spread"), ("nsr@1", "noise")):
        row = rows["disc?radius=12", "people", "published", name]
        assert row.value == pytest.approx(100 * table[value])


def test_obedience_is_reported_over_the_clicks_of_all_users(
    run: Run, rows: dict[tuple[str, str, str, str], SummaryRow], sections: list[Section]
) -> None:
    table = run.sql("""
        select model, protocol, sum(prompts_obeyed) / sum(prompts_given) as obeyed,
               sum(earlier_kept) / sum(earlier_clicks) as kept
        from rows where prompt is not null group by all
    """).to_pylist()
    assert len(table) == 4
    for row in table:
        for name, value in (("obeyed", row["obeyed"]), ("kept", row["kept"])):
            found = rows[row["model"], "", row["protocol"], name]
            assert found.value == pytest.approx(100 * value), (row["model"], name)
    assert "Does the model obey clicks?" in [section.title for section in sections]


def test_the_robots_first_click_counts_where_people_clicked(golden: Path) -> None:
    trial = trial_of(experiments(golden)[0])
    clicks = _first_clicks(trial.keys[:3], trial.clusters[:3], [[0.5, 0.6]] * 3)
    (found,) = findings_of([trial, clicks], [])
    assert found.base_first.value == pytest.approx(100 * trial.base[:3, 0].mean())
    (alone,) = findings_of([trial], [])
    assert alone.base_first.value == pytest.approx(100 * trial.base[:, 0].mean())


def test_models_are_compared_with_peoples_clicks(run: Run) -> None:
    found = Rclicks().differences(run)
    assert {d.statistic for d in found} == {"sample-noc", "sample-auc"}
    assert {d.protocol for d in found} == {"published", "corrected"}


def test_the_report_is_complete(sections: list[Section]) -> None:
    blocks = [b for s in sections for b in s.blocks]
    answers = [b for b in blocks if isinstance(b, Answer)]
    *places, which = answers
    assert "has the lowest number of clicks by people" in which.text
    assert "not tested: 3 images, 6 needed" in which.text
    assert len(places) == 2
    for answer in places:
        assert "cannot be determined from 3 images" in answer.text
        assert "between clicks of one group" in answer.detail
    names = [b.name for b in blocks if isinstance(b, Table)]
    for start in (
        "differences",
        "table-4",
        "noc-",
        "nof-",
        "auc-",
        "first-clicks-",
        "components",
        "correlations",
        "hard-",
    ):
        assert any(name.startswith(start) for name in names), start
    charts = [c for b in blocks if isinstance(b, Multiples) for c in b.charts]
    assert [m.name for m in charts[0].marks] == ["Base", "G1", "G10"]
    assert sum(isinstance(b, Gallery) for b in blocks) >= 6
    everything = next(
        b
        for b in blocks
        if isinstance(b, Table) and b.name.startswith("nulls-") and b.name.endswith("corrected")
    )
    assert len(everything.rows) >= 24
    page = render(Page("t", "s", [], sections))
    assert "ΔGR" in page
    assert "nan" not in page


def _first_clicks(
    keys: tuple[tuple[str, str], ...], clusters: tuple[str, ...], scores: Any
) -> FirstClicks:
    lines = pa.table({"iou": scores})
    return FirstClicks("m", "d", "people", "published", keys, clusters, lines, {})


def _found(trial: GroupCurves) -> ModelFindings:
    (found,) = findings_of([trial], summary_of([trial], STATISTICS))
    return found


def test_a_conclusion_follows_from_clicks_then_from_quality() -> None:
    """Fifteen images: a model that needs more unlikely clicks, one that ends lower, one that
    does not care."""
    rng = np.random.default_rng(0)

    def found(harder: bool, lower: bool) -> ModelFindings:
        groups = np.full((2, 10, 15, 6), 0.8) + rng.uniform(0, 0.02, (2, 10, 15, 6))
        groups[..., 2:] += 0.15
        if harder:
            groups[:, :5, :, 2:4] -= 0.15
        if lower:
            groups[:, :5, :, :2] -= 0.3
        keys = tuple((f"{i:02}", "") for i in range(15))
        clusters = tuple(k for k, _ in keys)
        return _found(
            GroupCurves("m", "d", "groups", "corrected", keys, clusters, groups[0, -1], groups)
        )

    answers = [
        conclusions([found(*case)])[0] for case in ((True, True), (False, True), (False, False))
    ]
    assert "it matters where people click:" in answers[0].text
    assert "but only for the mean IoU over the rounds" in answers[1].text
    assert "has not been shown to matter" in answers[2].text


def _played(model: str, iou: float, images: int, spare: float = 0.0) -> ModelFindings:
    """Everybody reaches 90 % in round two; with `iou` above that in round one."""
    groups = np.full((2, 10, images, 4), 0.95)
    groups[..., 0] = iou
    groups[:, :, : int(spare * images), 0] = 0.5
    keys = tuple((f"{i:02}", "") for i in range(images))
    clusters = tuple(k for k, _ in keys)
    return _found(
        GroupCurves(model, "mine", "groups", "corrected", keys, clusters, groups[0, 0], groups)
    )


def _pairwise(found: Sequence[ModelFindings]) -> list[Section]:
    return pairwise_result(found, differences_of([f.trial for f in found], STATISTICS))


def _said(*found: ModelFindings) -> str:
    (section,) = _pairwise(found)
    answer = section.blocks[0]
    assert isinstance(answer, Answer)
    return answer.text


def test_models_are_set_against_each_other() -> None:
    quick, slow = _played("quick", 0.95, 12), _played("slow", 0.5, 12)
    said = _said(slow, quick)
    assert "**quick** has the lowest number of clicks by people, 1.00 clicks, on mine" in said
    assert said.endswith(", significantly ahead of slow.")
    nearly = _played("nearly", 0.95, 12, spare=0.2)
    assert "but its lead is not significant" in _said(nearly, quick)
    assert "significantly ahead of slow but not of nearly" in _said(slow, nearly, quick)
    (same,) = _pairwise([quick, _played("twin", 0.95, 12)])
    assert "not significant" in str(same.blocks[1])
    assert _pairwise([quick]) == []


def test_three_images_establish_nothing() -> None:
    said = _said(_played("quick", 0.95, 3), _played("slow", 0.5, 3))
    assert "not tested: 3 images, 6 needed" in said


def test_an_interval_of_no_width_is_not_printed_as_one() -> None:
    told = conclusions([_played("quick", 0.95, 2)])[0]
    assert "takes as many clicks as the most likely (no image differs" in told.text
    assert "+0.0 to +0.0" not in told.text + told.detail


def test_both_protocols_stand_side_by_side(sections: list[Section]) -> None:
    table = next(
        b for s in sections for b in s.blocks if isinstance(b, Table) and b.name == "noc-drawn"
    )
    titles = [column.title for column in table.columns[1:]]
    assert titles[-2:] == ["ΔHH clicks", "ΔHH clicks (ratio of means)"]
    shown = [row[0].protocol for row in table.rows]  # type: ignore[union-attr]
    assert sorted(shown) == ["corrected"] * 2 + ["published"] * 2


def test_hard_objects_come_first(run: Run, sections: list[Section]) -> None:
    """By deviation over mean of people's IoU, both averaged over the models first."""
    table = next(
        b for s in sections for b in s.blocks if isinstance(b, Table) and b.name == "hard-objects"
    )
    expected = run.sql("""
        with targets as (
            select scene, target, avg(iou) as mean, stddev_samp(iou) as spread from rows
            where "user" like 'replay-%' and protocol = 'corrected' group by model, scene, target)
        select avg(spread) / (avg(mean) + 1e-9) as noise from targets
        group by scene, target order by noise desc
    """).to_pylist()
    shown = [float(str(row[2])) for row in table.rows]
    assert shown == pytest.approx([row["noise"] for row in expected][: len(shown)])


def test_no_masks_no_images_but_all_numbers(tmp_path: Path) -> None:
    plan = replace(PLAN, segmenters=PLAN.segmenters[:1], limit=2, keep_masks=False, rounds=2)
    run_plan(plan, tmp_path / "run", workers=0)
    made = Rclicks().sections(Run.open(tmp_path / "run"))
    assert any("Masks were not kept" in str(b) for s in made for b in s.blocks)


def test_one_image_gives_numbers_without_intervals(tmp_path: Path) -> None:
    plan = replace(PLAN, segmenters=PLAN.segmenters[:1], limit=1, rounds=2)
    run_plan(plan, tmp_path / "run", workers=0)
    page = render(Page("t", "s", [], list(Rclicks().sections(Run.open(tmp_path / "run")))))
    assert "nan" not in page.lower().replace("nano", "")


def test_one_draw_leaves_luck_and_groups_apart_untold(tmp_path: Path) -> None:
    plan = replace(_with(PLAN, draws=1), segmenters=PLAN.segmenters[:1], limit=2, rounds=2)
    run_plan(plan, tmp_path / "run", workers=0)
    run = Run.open(tmp_path / "run")
    assert all("share-noc" not in f.rows for f in findings(run))
    made = Rclicks().sections(run)
    assert any("cannot be separated" in str(b) for s in made for b in s.blocks)


def test_settings_are_checked() -> None:
    for options, words in (
        ({"drows": 2}, "did you mean 'draws'"),
        ({"draws": 0}, "from 1, not 0"),
        ({"samples": 1}, "from 2, not 1"),
        ({"samples": "many"}, "a whole number, not 'many'"),
        ({"draws": True}, "a whole number"),
        ({"absent": "prediction"}, "refuse or skip"),
    ):
        with pytest.raises(BadInput, match=words):
            Rclicks().plan(replace(PLAN, options=options))
    with pytest.raises(BadInput, match="may only choose their map"):
        Rclicks().plan(_users("random-click"))
    filled = Rclicks().plan(_users("clicking-group?map=distance"))
    assert len(filled.users) == 21
    assert all(u.options["map"] == "distance" for u in filled.users[1:])
    assert Rclicks().plan(filled) == filled


def _users(text: str) -> Plan:
    return replace(PLAN, users=(Spec.parse(text),))


DAMAGE: dict[str, Callable[[list[str]], list[str]]] = {
    "Column 'device'": lambda rows: [
        rows[0].replace("device", "devise"),
        *rows[1:],
    ],
    "row 3: image 'elsewhere' is not in the dataset 'drawn'": lambda rows: [
        *rows[:2],
        rows[2].replace(",000", ",elsewhere"),
        *rows[3:],
    ],
    "Row #2: CSV conversion error to int64: invalid value 'NaN'": lambda rows: [
        rows[0],
        ",".join([*rows[1].split(",")[:-4], "NaN", "1", "2", "3"]),
        *rows[2:],
    ],
    "holds no first click on the dataset 'drawn'": lambda rows: [
        rows[0],
        *(row.replace("drawn,", "GrabCut,", 1) for row in rows[1:]),
    ],
}


@pytest.mark.parametrize("sentence", DAMAGE)
def test_a_wrong_clicks_file_is_one_sentence_and_nothing_is_written(
    sentence: str, clicks: Path, tmp_path: Path
) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join(DAMAGE[sentence](clicks.read_text().splitlines())) + "\n")
    with pytest.raises(BadInput) as caught:
        run_plan(_with(PLAN, clicks=str(path)), tmp_path / "run", workers=0)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_clicks_on_absent_images_can_be_left_out(clicks: Path, tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text(clicks.read_text() + "drawn,elsewhere,,,first,elsewhere,pc,1,1,9,9\n")
    plan = replace(PLAN, segmenters=PLAN.segmenters[:1], limit=1, rounds=1)
    with pytest.raises(BadInput, match="--absent skip"):
        run_plan(_with(plan, clicks=str(path)), tmp_path / "run", workers=0)
    tally = run_plan(_with(plan, clicks=str(path), absent="skip"), tmp_path / "run", workers=0)
    assert tally.done == 1


def test_the_command_refuses_a_wrong_clicks_file(
    clicks: Path, python: Interpreter, tmp_path: Path
) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text(clicks.read_text().replace("device", "devise", 1))
    words = ["run", "rclicks", "-m", "disc", "-d", "drawn", "--clicks", path, "-o", tmp_path / "r"]
    done = python.run("-m", "segmeter", *words)
    assert done.returncode == 2
    assert "Column 'device'" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "r").exists()


def test_a_changed_byte_anywhere_in_a_file_changes_its_digest(tmp_path: Path) -> None:
    from segmeter.benchmarks.declared import digest_of

    file = tmp_path / "clicks.csv"
    content = bytearray(3 << 20)
    digests = []
    for place in (0, 1_000_003):
        content[place] ^= 1
        file.write_bytes(content)
        digests.append(digest_of(str(file)))
    assert digests[0] != digests[1]

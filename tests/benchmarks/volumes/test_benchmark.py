"""The benchmark of volumes, from a run to its report, with models that need no weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from segmeter.analysis.report_parts import published_rows
from segmeter.benchmarks.volumes import PROMPTERS, Volumes
from segmeter.benchmarks.volumes.sections import sections
from segmeter.benchmarks.volumes.statistics import sessions, statistics
from segmeter.benchmarks.volumes.tables import lost_prompts, typed
from segmeter.benchmarks.volumes.work import fitting
from segmeter.core import catalogue
from segmeter.core.capabilities import LosesPrompts, capable
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, ModelCard, Request
from segmeter.core.plans import Plan
from segmeter.core.prompts import Box, Click, round_from_json
from segmeter.core.rows import SESSION_ROWS
from segmeter.core.scenes import Scene, Target
from segmeter.core.sections import Answer, Note, Section, Slices, Table, Value
from segmeter.engine import run_plan
from segmeter.engine.scoring import score_run
from segmeter.measures.challenges import area_over_steps
from segmeter.measures.judging import judge_by
from segmeter.measures.objects import dice
from segmeter.measures.surfaces import hd95, nsd
from segmeter.runtime.remote_files import Roots
from segmeter.store.folder import RunFolder
from segmeter.store.run import Run

PAPER = published_rows("volumes", "paper_tables.csv")
USERS = (
    "box-interpolation?n=3",
    "box-propagation",
    "points-per-slice?n=1",
    "scribble-refinement?start=box-interpolation&n=3",
    "box-3d",
)
PLAN = Plan(
    "volumes",
    (Spec("filler"), Spec("disc", {"radius": 6})),
    (Spec("mini-volumes"),),
    users=tuple(Spec.parse(name) for name in USERS),
    rounds=3,
)


@dataclass(frozen=True)
class Filler:
    """A model for images that fills boxes, and takes nothing else."""

    card: ClassVar[ModelCard] = ModelCard("filler", "fills boxes", frozenset({"box"}))

    def encode(self, scene: Scene) -> FillerEncodedScene:
        return FillerEncodedScene(scene.shape)


@dataclass(frozen=True)
class FillerEncodedScene:
    shape: tuple[int, ...]

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        return [MaskPrediction(self._filled(request)) for request in requests]

    def _filled(self, request: Request) -> Mask:
        canvas = np.zeros(self.shape, bool)
        for prompt in request.prompts:
            assert isinstance(prompt, Box)
            (y0, x0), (y1, x1) = prompt.low, prompt.high
            canvas[int(y0) : int(y1) + 1, int(x0) : int(x1) + 1] = True
        return Mask.of(canvas)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("volumes") / "run"
    tally = run_plan(PLAN, out, workers=0, objects={"filler": Filler()})
    assert tally.failed == 0
    return Run.open(out)


def test_each_model_runs_with_the_users_that_fit_it(run: Run) -> None:
    rows = run.sql('select distinct model, "user" from rows').to_pylist()
    by_model: dict[str, set[str]] = {}
    for row in rows:
        by_model.setdefault(row["model"].split("?")[0], set()).add(row["user"].split("?")[0])
    assert by_model["filler"] == {"box-interpolation", "box-propagation"}
    assert by_model["disc"] == {
        "box-interpolation",
        "box-propagation",
        "points-per-slice",
        "scribble-refinement",
    }


def test_dice_is_that_of_the_masks_that_were_kept(run: Run) -> None:
    dataset = catalogue.datasets.make("mini-volumes")
    scene = dataset.load(dataset.scenes()[0])
    rows = run.sql(
        f"select target, mask, dice, nsd from rows where scene = '{scene.id}' and round = 1"
    ).to_pylist()
    assert rows
    targets = {target.id: target for target in scene.targets}
    for row in rows[:6]:
        mask = Mask.from_coco({"size": list(scene.shape), "counts": row["mask"]})
        ground_truth = targets[row["target"]].mask
        assert row["dice"] == dice(ground_truth, mask)
        assert row["nsd"] == nsd(ground_truth, mask, scene.spacing_mm)


def test_effort_adds_up_and_stops_with_the_session(run: Run) -> None:
    for group in sessions(run):
        spent = group.interactions
        assert (np.diff(spent, axis=1) >= 0).all()
        if group.key[2].startswith("box-interpolation"):
            assert (spent == 6).all()
            assert group.paper_interactions == "6"
        if group.key[2].startswith("scribble-refinement"):
            assert (spent == [6, 9, 12]).all()
            assert group.paper_interactions == "6/3"
        if group.key[2] == "box-propagation":
            assert (spent == 4).all()


def test_summary_numbers_are_means_over_cases(run: Run) -> None:
    found = {(r.model, r.user, r.protocol, r.statistic): r for r in Volumes().summary(run)}
    for group in sessions(run):
        row = found[group.key[0], group.key[2], group.key[3], "dice"]
        cases: dict[str, dict[str, list[float]]] = {}
        for (scene, _), label, value in zip(
            group.keys, group.labels, group.dice[:, -1], strict=True
        ):
            cases.setdefault(scene, {}).setdefault(label, []).append(100 * value)
        means = [np.mean([np.mean(v) for v in case.values()]) for case in cases.values()]
        assert row.value == pytest.approx(np.mean(means))
        assert np.isnan(row.low), "three cases have no interval"
        ten = found[group.key[0], group.key[2], group.key[3], "dice@10"]
        if group.interactions.min() > 10:
            assert ten.value == 0


def test_rows_hold_what_was_declared_and_measures(run: Run) -> None:
    columns = {row["column_name"] for row in run.sql("describe rows").to_pylist()}
    own = set(Volumes.schema.names) - set(SESSION_ROWS.names)
    assert own <= columns
    assert {"dice", "nsd"} <= columns


def test_models_are_compared_on_the_objects_they_share(run: Run) -> None:
    found = Volumes().differences(run)
    assert {d.user for d in found} == {"box-interpolation?n=3", "box-propagation"}
    for d in found:
        if d.statistic == "dice":
            assert d.targets == 6


def blocks(found: Sequence[Section], kind: type) -> list[Any]:
    return [b for section in found for b in section.blocks if isinstance(b, kind)]


def test_the_report_has_the_papers_tables_effort_classes_and_slices(run: Run) -> None:
    found = sections(run)
    titles = [section.title for section in found]
    for title in (
        "Results",
        "Quality against effort",
        "Dice at equal effort",
        "Significant differences",
        "Comparison with the paper's tables",
        "Hardest objects",
        "Sessions",
    ):
        assert title in titles
    told = " ".join(str(answer.text) for answer in blocks(found, Answer))
    assert "Dice within 10 interactions, " in told
    assert "final Dice" in told
    assert "last round" not in told
    tables = {table.name: table for table in blocks(found, Table)}
    assert len(tables) == len(blocks(found, Table))  # each is exported under its own name
    third = tables["paper-table-3-corrected"]
    printed = [row for row in third.rows if getattr(row[1], "protocol", "") == "paper"]
    assert {row[1].text for row in printed} == {"3B Inter", "B Prop"}
    wanted = next(
        r for r in PAPER if (r["table"], r["prompter"], r["model"]) == ("3", "B Prop", "SAM2")
    )
    assert any(row[-1] == float(wanted["average"]) for row in printed)
    assert {row[0] for row in tables["paper-table-5-published"].rows} >= {0, 1, 2}
    shown = blocks(found, Slices)
    assert 1 <= len(shown) <= 3
    assert all(step.mask.shape == shown[0].voxels.shape for step in shown[0].frames)


def test_the_papers_rows_are_those_of_the_golden_tables(golden: Path) -> None:
    import csv

    with (golden / "volumes" / "tables" / "table4_static_3d.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    mine = [row for row in PAPER if row["table"] == "4"]
    assert len(mine) == len(rows)
    for row, own in zip(rows, mine, strict=True):
        assert (own["prompter"], own["model"]) == (row["prompter"], row["model"])
        for column in ("average", *(f"D{i}" for i in range(1, 9))):
            assert float(own[column]) == float(row[column])


def test_an_empty_mask_has_the_scores_of_the_cards() -> None:
    target = Target("t", Mask.box((6, 6, 6), (1, 1, 1), (4, 4, 4)))
    judge = judge_by(("dice", "nsd", "hd95"), (2.0, 1.0, 1.0))
    assert judge(target, Mask.empty((6, 6, 6))) == {"dice": 0.0, "nsd": 0.0, "hd95": float("inf")}
    half = Mask.box((6, 6, 6), (1, 1, 1), (3, 4, 4))
    found = judge(target, half)
    assert found["hd95"] == hd95(target.mask, half, (2.0, 1.0, 1.0))


def test_a_row_next_to_the_papers_has_no_average_without_its_data_sets(run: Run) -> None:
    tables = [t for t in blocks(sections(run), Table) if t.name.startswith("paper-table-")]
    printed = [[getattr(row[1], "protocol", "") == "paper" for row in t.rows] for t in tables]
    mine = [
        row[-1]
        for table, paper in zip(tables, printed, strict=True)
        for row, theirs in zip(table.rows, paper, strict=True)
        if any(paper) and not theirs
    ]
    assert mine
    assert set(mine) == {None}


def test_the_tolerance_of_nsd_is_that_of_the_organ() -> None:
    truth, mask = (
        Mask.box((8, 8, 8), (1, 1, 1), (6, 6, 6)),
        Mask.box((8, 8, 8), (1, 1, 1), (7, 6, 6)),
    )
    options = {"nsd_mm": "1,spleen=3"}
    judge = judge_by(("nsd",), (2.0, 1.0, 1.0), options)
    scores = {
        organ: judge(Target(organ, truth, label=organ), mask) for organ in ("liver", "spleen")
    }
    assert scores["spleen"]["nsd"] == nsd(truth, mask, (2.0, 1.0, 1.0), 3.0) == 1.0
    assert scores["liver"]["nsd"] == nsd(truth, mask, (2.0, 1.0, 1.0), 1.0) < 1.0


def test_default_users_fit_some_model_of_each_kind() -> None:
    made = [catalogue.users.make(name) for name in PROMPTERS]
    whole = replace(Filler.card, abilities=frozenset({"click", "box", "volume"}))

    @dataclass(frozen=True)
    class Whole(Filler):
        card: ClassVar[ModelCard] = whole

    assert [u.name for u in fitting(Whole(), made)] == [
        "centre-points-per-volume?n=1",
        "box-3d",
        "point-per-volume-refinement?earlier=keep&n=1&start=centre-points-per-volume",
    ]
    assert all("box" in user.name for user in fitting(Filler(), made))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"kind": "method"}, "tests models, not methods"),
        ({"measures": ("boundary-iou",)}, "does not score volumes"),
        ({"rounds": -1}, "whole number from 1"),
        ({"options": {"stride": 3}}, "no option"),
    ],
)
def test_wrong_plans_are_refused_in_one_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        catalogue.benchmarks.make("volumes").plan(replace(PLAN, **change))


def test_a_model_that_fits_no_user_is_refused_before_the_run(tmp_path: Path) -> None:
    plan = replace(PLAN, segmenters=(Spec("filler"),), users=(Spec("points-per-slice"),))
    with pytest.raises(BadInput, match=r"takes box prompts only.*these do: box-propagation"):
        run_plan(plan, tmp_path / "run", workers=0, objects={"filler": Filler()})


def test_challenge_scores_leave_out_the_box_and_cases_of_low_dice(
    tmp_path: Path,
) -> None:
    plan = replace(
        PLAN,
        segmenters=(Spec("disc", {"radius": 6}),),
        users=(Spec("cvpr25-clicks"),),
        rounds=6,
        limit=1,
    )
    run_plan(plan, tmp_path / "run", workers=0)
    opened = Run.open(tmp_path / "run")
    published, group = sessions(opened)
    cards = {card.name: card for card in statistics(opened)}
    dsc = group.dice
    expected = [area_over_steps(row.tolist()[1:]) for row in dsc]
    np.testing.assert_allclose(cards["dsc-auc"].compared(group), expected)
    np.testing.assert_allclose(cards["nsd-final"].compared(group), group.others["nsd"][:, -1])
    poor = replace(published, dice=np.full(dsc.shape, [[0.1], [0.25]]))
    np.testing.assert_allclose(cards["nsd-final"].compared(poor), 0)
    rich = replace(published, dice=np.full(dsc.shape, [[0.1], [0.35]]))
    np.testing.assert_allclose(cards["nsd-final"].compared(rich), rich.others["nsd"][:, -1])


def test_an_image_leaves_an_error_row_and_the_rest_is_run(tmp_path: Path) -> None:
    plan = replace(
        PLAN,
        segmenters=(Spec("disc", {"radius": 6}),),
        datasets=(Spec("drawn"), Spec("mini-volumes")),
        users=(Spec("box-propagation"),),
        protocols=("corrected",),
        limit=1,
    )
    run_plan(plan, tmp_path / "run", workers=0)
    found = Run.open(tmp_path / "run")
    (lost,) = found.sql("select dataset, error from errors").to_pylist()
    assert lost["dataset"] == "drawn"
    assert "needs volumes" in lost["error"]
    assert found.sql("select count(*) as n from rows").to_pylist()[0]["n"] > 0


def test_surfaces_that_are_scored_later_stand_in_the_summary(tmp_path: Path) -> None:
    user = (Spec.parse("box-interpolation?n=3"),)
    plan = replace(PLAN, segmenters=PLAN.segmenters[1:], users=user, rounds=1, limit=2)
    plan = replace(plan, measures=("dice",))
    run_plan(plan, tmp_path / "run", workers=0)
    score_run(tmp_path / "run", "hd95", Roots())
    found = {row.statistic: row.value for row in Volumes().summary(Run.open(tmp_path / "run"))}
    asked = replace(plan, measures=("dice", "hd95"))
    run_plan(asked, tmp_path / "other", workers=0)
    at_once = {row.statistic: row.value for row in Volumes().summary(Run.open(tmp_path / "other"))}
    assert found["hd95"] == at_once["hd95"] > 0

    folder = RunFolder(tmp_path / "run")
    job = min(folder.finished())
    folder.put_rows(job, folder.rows(job).drop_columns(["hd95"]))
    assert "hd95" not in {row.statistic for row in Volumes().summary(Run.open(tmp_path / "run"))}


class Cropper:
    """A model for volumes that sees the lower half only and loses small targets."""

    card = ModelCard("cropper", "sees half of a volume", frozenset({"click", "volume"}))

    def encode(self, scene: Scene) -> CropperEncodedScene:
        return CropperEncodedScene(scene.shape)


@dataclass(frozen=True)
@capable(LosesPrompts)
class CropperEncodedScene:
    shape: tuple[int, ...]

    def predict(self, requests: Sequence[Request]) -> list[MaskPrediction]:
        return [MaskPrediction(Mask.empty(self.shape)) for _ in requests]

    def lost_prompts(self, rounds: Sequence[Sequence[Any]]) -> list[int]:
        half = self.shape[0] / 2
        return [sum(prompt.point[0] >= half for prompt in prompts) for prompts in rounds]

    def vanishes(self, target: Mask) -> bool:
        return target.area < 1500


def test_prompts_and_targets_that_never_reach_a_network_are_reported(
    tmp_path: Path, run: Run
) -> None:
    users = (Spec.parse("points-per-volume?n=5"),)
    plan = replace(
        PLAN, segmenters=(Spec("cropper"),), users=users, rounds=1, protocols=("corrected",),
        options={"draws": 1},
    )  # fmt: skip
    run_plan(plan, tmp_path / "run", workers=0, objects={"cropper": Cropper()})
    half = Run.open(tmp_path / "run")
    rows = half.sql("select prompt, shape, area, prompts_outside_input, target_vanished from rows")
    for row in rows.to_pylist():
        clicks = round_from_json(row["prompt"])
        beyond = [c for c in clicks if isinstance(c, Click) and c.point[0] >= row["shape"][0] / 2]
        assert row["prompts_outside_input"] == len(beyond)
        assert row["target_vanished"] == (row["area"] < 1500)
    (table,) = lost_prompts(half)
    assert isinstance(table, Table)
    ((model, protocol, user, lost, rounds, gone),) = table.rows
    assert (model, protocol, user) == ("cropper", "corrected", "points-per-volume?n=5")
    assert lost == sum(row["prompts_outside_input"] for row in rows.to_pylist()) > 0
    assert rounds == rows.num_rows
    assert gone == sum(row["target_vanished"] for row in rows.to_pylist()) > 0
    assert any(table in section.blocks for section in sections(half))
    assert lost_prompts(run) == [], "nothing is lost slice by slice"


def test_users_that_draw_at_random_are_run_five_times_and_are_one_row(tmp_path: Path) -> None:
    users = (Spec.parse("points-per-slice?n=1"), Spec.parse("box-per-slice"))
    plan = replace(PLAN, segmenters=(Spec("disc"),), users=users, rounds=1)
    run_plan(replace(plan, protocols=("published", "corrected")), tmp_path / "run", workers=0)
    made = Run.open(tmp_path / "run")
    counted = made.sql(
        'select protocol, "user" as name, count(*) as n from rows group by all order by all'
    ).to_pylist()
    per_target = next(row["n"] for row in counted if row["name"] == "box-per-slice")
    assert all(row["n"] == per_target for row in counted)
    random = [row["protocol"] for row in counted if row["name"].startswith("points")]
    assert random == ["corrected"] * 5 + ["published"]
    rows = [row for row in made.summary() if row.statistic == "dice"]
    assert {(r.user, r.protocol) for r in rows if r.user.startswith("points")} == {
        ("points-per-slice?n=1", "corrected"),
        ("points-per-slice?n=1", "published"),
    }
    assert len(rows) == 4
    mean = made.sql("select avg(dice) as d from rows where protocol = 'corrected' and target ="
                    " (select min(target) from rows) and \"user\" like 'points%'")  # fmt: skip
    assert 0 < mean.to_pylist()[0]["d"] < 1


def test_rows_have_the_window_and_the_sizes(run: Run) -> None:
    rows = run.sql("select * from rows").to_pylist()
    assert {row["modality"] for row in rows} == {"MR"}
    assert all(row["window_low"] < row["window_high"] for row in rows)
    for row in rows:
        assert row["volume_ml"] == pytest.approx(row["area"] / 1000)  # voxels of 1 mm


def test_users_that_a_model_cannot_take_are_named(tmp_path: Path) -> None:
    users = (Spec.parse("points-per-slice?n=1"), Spec.parse("box-per-slice"))
    plan = replace(PLAN, segmenters=(Spec("filler"),), users=users, rounds=1)
    run_plan(plan, tmp_path / "run", workers=0, objects={"filler": Filler()})
    made = Run.open(tmp_path / "run")
    (said,) = made.benchmark.left_out(made)
    assert said == "filler does not take the prompts of: points-per-slice?n=1; not run"
    text = " ".join(b.text for s in sections(made) for b in s.blocks if isinstance(b, Note))
    assert said in text


class Picky(Filler):
    """Fails on one volume, as a run that was interrupted lacks it."""

    def encode(self, scene: Scene) -> FillerEncodedScene:
        if scene.id == "hippocampus_001":
            raise BadInput("not this one")
        return FillerEncodedScene(scene.shape)


def test_a_run_in_which_a_model_lacks_a_volume_has_a_report(tmp_path: Path) -> None:
    plan = replace(PLAN, users=(Spec.parse("box-interpolation?n=3"),), rounds=1, limit=2)
    run_plan(plan, tmp_path / "run", workers=0, objects={"filler": Picky()})
    found = {section.title: section for section in sections(Run.open(tmp_path / "run"))}
    assert len(found["Hardest objects"].blocks[0].rows) == 4  # type: ignore[union-attr]  # a table
    assert found["Sessions"].blocks


def test_until_is_refused_with_the_way_that_there_is() -> None:
    with pytest.raises(BadInput, match=r"--until is not for .*until_dice=0.9"):
        catalogue.benchmarks.make("volumes").plan(replace(PLAN, options={"until": "dice>=0.9"}))


def test_sessions_on_volumes_can_be_browsed_by_their_dice(run: Run) -> None:
    from segmeter.report.browsing import Sessions

    sessions = Sessions(run)
    many, rows = sessions.found({})
    assert many > 0
    assert "best Dice, %" in sessions.page({})
    asked = {k: rows[0][k] for k in ("model", "dataset", "scene", "target", "user", "protocol")}
    page = sessions.session(asked)
    assert "replay slices" in page
    assert "MR, shown to networks from" in page
    assert '"numbers":[["k",0,1]' in page.replace("&#34;", '"')
    assert "data-level" in page


def test_the_cost_of_many_objects_is_shown_for_every_prompter(run: Run) -> None:
    from segmeter.stats.annotation_time import CostModel

    section = run.benchmark.cost_section(run, 3600, 10.0)
    assert section is not None
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    heads = [column.title for column in table.columns]
    assert heads == ["way", "time", "waiting", "with waiting", "money", "saved", "conclusion"]
    found = [g for g in sessions(run) if g.protocol == "corrected"]
    ways = sorted(f"{g.model}, {typed(g.user)}" for g in found)
    assert sorted(str(row[0]) for row in table.rows[:-1]) == ways
    assert table.rows[-1][0] == "all by hand"
    hand = float(found[0].by_hand.mean()) + CostModel().per_object
    by_hand = table.rows[-1]
    assert by_hand[1] == Value(pytest.approx(hand))  # type: ignore[arg-type]  # compares by value
    assert by_hand[4] == Value(pytest.approx(10 * hand))  # type: ignore[arg-type]
    (answer,) = (block for block in section.blocks if isinstance(block, Answer))
    assert not re.search(r"\(\S+ to ", answer.text), "three scans have no intervals"
    other = re.search(r"this ranks by time, .*; by Dice alone \*\*(.*)\*\* is first", answer.text)
    assert other is not None
    assert other[1] in ways
    assert other[1] != table.rows[0][0]
    few = "not tested: 3 scans, 6 needed"
    assert all(row[-1] == few for row in table.rows[:-1])

"""TETRIS: the order of worst, centre and best clicks, its numbers, its pages."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from segmeter.benchmarks.tetris import Tetris
from segmeter.benchmarks.tetris.sections import compared_with_the_paper, paper_rows
from segmeter.benchmarks.tetris.statistics import (
    STATISTICS,
    AttackedSessions,
    attacked_sessions,
    from_curves,
)
from segmeter.benchmarks.tetris.work import simulated_sessions
from segmeter.core import catalogue
from segmeter.core.benchmarks import SummaryRow
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import SimulatedSession, simulate
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction
from segmeter.core.plans import Plan
from segmeter.core.prompts import Click
from segmeter.core.scenes import Image, Target
from segmeter.core.sections import Answer, Chart, Gallery, Multiples, Note, Replay, Section, Table
from segmeter.engine import run_plan
from segmeter.measures.objects import iou
from segmeter.report.page import Page, render
from segmeter.stats.comparisons import spearman
from segmeter.stats.statistics import summary_of
from segmeter.store import Run
from segmeter.users.adversary import Adversary, SearchGrid
from segmeter.users.box_prompts import search_boxes
from segmeter.users.error_prompts import CentreClick

PLAN = Plan(
    "tetris",
    (Spec("disc"), Spec("synthetic-noisy"), Spec("disc", {"radius": 35})),
    (Spec("drawn"),),
    rounds=3,
    limit=3,
    protocols=("published", "corrected"),
    options={"exhaustive": 1.0, "stride": 8},
)


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two people's first clicks on every object of the drawn scenes."""
    file = tmp_path_factory.mktemp("people") / "clicks.csv"
    data = catalogue.datasets.make("drawn")
    columns = ("dataset", "image_stem", "object_stem", "model_type", "click_type", "full_stem",
               "device", "x", "y", "w", "h")  # fmt: skip
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(columns)
        for name in data.scenes()[:3]:
            scene = data.load(name)
            height, width = scene.shape
            for target in scene.targets:
                places = np.argwhere(target.mask.dense())
                for y, x in (places[0], places[len(places) // 2]):
                    stem = f"{name}_______{target.id}"
                    writer.writerow(["drawn", name, target.id, "", "first", stem, "pc", x, y,
                                     width, height])  # fmt: skip
    return file


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, clicks: Path) -> Run:
    out = tmp_path_factory.mktemp("runs") / "tetris"
    plan = replace(PLAN, options={**PLAN.options, "clicks": str(clicks)})
    run_plan(plan, out, workers=0)
    return Run.open(out)


@pytest.fixture(scope="module")
def rows(run: Run) -> dict[tuple[str, str, str], SummaryRow]:
    return {(r.model, r.protocol, r.statistic): r for r in Tetris().summary(run)}


@pytest.fixture(scope="module")
def sections(run: Run) -> list[Section]:
    return list(Tetris().sections(run))


def test_worst_centre_and_best_keep_their_order_after_every_click(run: Run) -> None:
    table = run.sql("""
        with by_role as (
            select model, scene, target, round,
                   max(case when "user" = 'centre-click' then iou end) as base,
                   max(case when "user" = 'worst-click' then iou end) as low,
                   max(case when "user" = 'best-click' then iou end) as high
            from rows where protocol = 'corrected' group by all)
        select count(*) as clicks, sum((low > base or base > high)::int) as broken,
               avg(high - low) as d from by_role where base is not null
    """).to_pylist()[0]
    assert table["clicks"] >= 3 * 3 * 3
    assert table["broken"] == 0
    assert table["d"] > 0


class Spiteful:
    """A view that rewards a bad first click: greedy attacks fall behind the centre click."""

    def __init__(self, target: Mask, centre: tuple[int, int]) -> None:
        self.target, self.centre = target, centre

    def predict(self, requests):
        return [MaskPrediction(self._mask(request.prompts)) for request in requests]

    def _mask(self, prompts) -> Mask:
        first = tuple(round(c) for c in prompts[0].point)
        away = abs(first[0] - self.centre[0]) + abs(first[1] - self.centre[1])
        share = 0.6 - 0.004 * away
        if len(prompts) > 1:
            # From the second click on everything is the other way round.
            share = 0.5 + 0.004 * away
        bits = self.target.dense()
        bits[: round(bits.shape[0] * (1 - share))] = False
        return Mask.of(bits)


def test_a_greedy_attack_that_falls_behind_takes_over_the_centre_clicks_session() -> None:
    shape = (80, 80)
    target = Target("a", Mask.box(shape, (0, 0), shape))
    scene = Image("drawn", "spite", np.zeros((*shape, 3), np.uint8), (target,))
    encoded = Spiteful(target.mask, (39, 39))
    effort = SearchGrid(25, 2, 4)
    users = [CentreClick(), Adversary("worst", "search", effort=effort),
             Adversary("best", "search", effort=effort)]  # fmt: skip

    def judge(thing: Target, mask: Mask) -> dict[str, float]:
        return {"iou": iou(thing.mask, mask)}

    free = [SimulatedSession(target, user, "corrected") for user in users]
    base, worst, _ = simulate(scene, encoded, free, 3, judge)
    assert worst.rounds[1].scores["iou"] > base.rounds[1].scores["iou"]  # it does fall behind
    bound = simulated_sessions(scene, encoded, users, ("corrected",), {})
    base, worst, best = simulate(scene, encoded, bound, 3, judge)
    for low, middle, high in zip(worst.rounds, base.rounds, best.rounds, strict=True):
        assert low.scores["iou"] <= middle.scores["iou"] <= high.scores["iou"]
    taken = [r.inherited for r in worst.rounds]
    assert taken[0] is False
    assert taken[1] is True
    assert worst.rounds[1].mask == base.rounds[1].mask


def test_areas_follow_from_the_rows(run: Run, rows: dict[tuple[str, str, str], SummaryRow]) -> None:
    table = run.sql("""
        with curves as (
            select scene, target, list(iou order by round) as c from rows
            where model = 'disc' and protocol = 'corrected' and "user" = 'worst-click' group by all)
        select avg((c[1] / 2 + c[2] + c[3] / 2) / 2) as area from curves
    """).to_pylist()[0]
    assert rows["disc", "corrected", "iou-min"].value == pytest.approx(100 * table["area"])
    d = rows["disc", "corrected", "iou-max"].value - rows["disc", "corrected", "iou-min"].value
    assert rows["disc", "corrected", "iou-d"].value == pytest.approx(d)
    assert (
        rows["synthetic-noisy", "corrected", "iou-d"].value == 0
    )  # it does not encode where one clicks


def test_models_without_a_gradient_have_no_published_attack(
    rows: dict[tuple[str, str, str], SummaryRow],
) -> None:
    assert ("disc", "published", "iou-base") in rows
    assert ("disc", "published", "iou-min") not in rows


def test_the_search_is_held_against_every_click(
    rows: dict[tuple[str, str, str], SummaryRow],
) -> None:
    assert (
        rows["disc", "corrected", "all-min"].value <= rows["disc", "corrected", "first-base"].value
    )
    assert rows["disc", "corrected", "search-found-min"].value >= 90
    assert rows["disc", "corrected", "search-gap-min"].value < 5


def test_real_peoples_range_is_measured(
    run: Run, rows: dict[tuple[str, str, str], SummaryRow]
) -> None:
    row = rows["disc", "corrected", "coverage"]
    assert 0 <= row.value <= 100
    assert row.targets == rows["disc", "corrected", "iou-d"].targets
    group = next(
        g for g in attacked_sessions(run) if g.model == "disc" and g.protocol == "corrected"
    )
    spread = group.values["people-max"] - group.values["people-min"]
    np.testing.assert_allclose(group.values["people-spread"], spread)
    held = run.sql("select people from rows where people is not null limit 1").to_pylist()
    assert len(json.loads(held[0]["people"])) == 2


def test_every_trial_is_kept(run: Run) -> None:
    table = run.sql("""
        select trials, start_y, start_x, y, x, inherited, iou, start_iou from rows
        where "user" = 'worst-click' and trials is not null
    """).to_pylist()
    assert table
    for row in table:
        trials = json.loads(row["trials"])
        assert trials[0][:2] == [row["start_y"], row["start_x"]]
        if not row["inherited"]:
            chosen = [t for t in trials if t[5]][-1]
            assert chosen[:2] == pytest.approx([row["y"], row["x"]])
            assert row["iou"] <= row["start_iou"] + 1e-9


def test_differences_are_paired(run: Run) -> None:
    found = Tetris().differences(run)
    assert {d.statistic for d in found} >= {"iou-d", "iou-min"}
    for d in found:
        assert d.p <= d.p_holm <= 1


def test_spearman_is_scipys() -> None:
    from scipy.stats import spearmanr

    table = np.random.default_rng(0).integers(0, 6, (9, 4)).astype(float)
    np.testing.assert_allclose(spearman(table), spearmanr(table).statistic, atol=1e-12)
    assert np.isnan(spearman(np.array([[1.0, 2.0], [1.0, 3.0]]))[0, 1])


def test_printed_rows_are_those_of_the_reference(golden: Path) -> None:
    for file, measure in (("paper_table1_iou_auc10", "iou"), ("paper_table2_biou_auc10",
                          "boundary-iou")):  # fmt: skip
        with (golden / "tetris" / f"{file}.csv").open() as text:
            held = {(r["method"], r["backbone"], r["train_data"], r["dataset"]): r
                    for r in csv.DictReader(text)}  # fmt: skip
        for dataset, printed in (("grabcut", "GrabCut"), ("berkeley", "Berkeley")):
            row = held["MobileSAM", "ViT-Tiny", "SA-1B", printed]
            own = paper_rows(dataset, "mobile-sam", measure)
            assert {k: own[k] for k in row if k in own} == {
                k: float(row[k]) for k in ("min", "max", "d")
            }
    assert paper_rows("grabcut", "eiseg-hrnet18-ocr64", "iou")["d"] == 1.54
    assert not paper_rows("drawn", "mobile-sam", "iou")


def test_the_page_holds_tables_trajectories_galleries_and_sessions(
    run: Run, sections: list[Section]
) -> None:
    blocks = [b for s in sections for b in s.blocks]
    names = {b.name for b in blocks if isinstance(b, Table)}
    assert {"table-1-iou", "table-2-biou", "first-click", "extremes", "people",
            "spearman-metrics-drawn"} <= names  # fmt: skip
    charts = [c for b in blocks if isinstance(b, Multiples) for c in b.charts]
    assert [mark.name for mark in charts[0].marks] == [
        "best clicks", "centre clicks", "worst clicks"
    ]  # fmt: skip
    assert any(isinstance(b, Chart) for b in blocks)
    assert sum(isinstance(b, Gallery) for b in blocks) == 2
    assert sum(isinstance(b, Replay) for b in blocks) >= 2
    (answer,) = [b for b in blocks if isinstance(b, Answer)]
    group = next(g for g in attacked_sessions(run) if g.protocol == "corrected")
    held = 3 * group.role("base").size
    assert f"holds after {held} of {held} prompts" in answer.detail
    page = render(Page("tetris", "", [], sections))
    assert "Worst click positions" in page


def test_bad_settings_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    for options, said in (
        ({"exhaustiv": 1}, "did you mean 'exhaustive'"),
        ({"exhaustive": 2}, "from 0 to 1, not 2"),
        ({"stride": 0}, "from 1, not 0"),
        ({"stride": 1.5}, "a whole number, not '1.5'"),
        ({"exhaustive": "all"}, "a number, not 'all'"),
        ({"clicks": "nowhere.csv"}, "no clicks file"),
    ):
        with pytest.raises(BadInput, match=said):
            run_plan(replace(PLAN, options=options), tmp_path / "out", workers=0)
    assert not (tmp_path / "out").exists()


def test_the_plan_always_holds_the_centre_click() -> None:
    plan = Tetris().plan(replace(PLAN, users=(Spec("worst-click-search"),)))
    assert [spec.name for spec in plan.users] == ["centre-click", "worst-click-search"]
    assert plan.options["exhaustive"] == 1.0


def test_another_file_of_clicks_is_another_plan(clicks: Path, tmp_path: Path) -> None:
    """So a run is resumed only with the same clicks."""
    file = tmp_path / "clicks.csv"
    file.write_bytes(clicks.read_bytes())
    asked = replace(PLAN, options={"clicks": str(file)})
    first = Tetris().plan(asked)
    assert Tetris().plan(first) == first
    file.write_bytes(clicks.read_bytes().replace(b"pc", b"mobile", 1))
    assert Tetris().plan(asked) != first


def test_a_group_names_its_statistics() -> None:
    curves = {
        (kind, role): np.array([values])
        for kind in ("iou", "biou")
        for role, values in (("base", [0.5, 0.7]), ("min", [0.1, 0.5]), ("max", [0.6, 0.8]))
    }
    group = AttackedSessions("m", "d", "", "corrected", (("s", "t"),), ("s",), curves)
    group.values.update(from_curves(group))
    assert group.each("iou-min") == pytest.approx([30.0])
    assert group.each("iou-d") == pytest.approx([40.0])
    assert group.each("first-max") == pytest.approx([60.0])


class Sides:
    """A view that likes boxes the less the farther their left side lies from the ground truth's."""

    def __init__(self, ground_truth: Mask) -> None:
        self.ground_truth = ground_truth

    def predict(self, requests):
        return [MaskPrediction(self._mask(request.prompts[-1])) for request in requests]

    def _mask(self, box) -> Mask:
        bits = self.ground_truth.dense()
        bits[:, : round(box.low[1]) + 20] = False
        return Mask.of(bits)


def test_the_box_search_finds_both_ends_within_reach() -> None:
    target = Target("a", Mask.box((120, 160), (20, 40), (100, 120)))
    found = search_boxes(Sides(target.mask), target)
    assert found.best.box.low[1] == 32  # a tenth of 80 pixels outwards
    assert found.worst.box.low[1] == 48
    assert found.worst.iou < found.tight.iou < found.best.iou
    assert found.tried < 400


def test_boxes_as_a_benchmark(tmp_path: Path) -> None:
    plan = Plan("tetris-boxes", (Spec("disc"), Spec("synthetic-noisy")), (Spec("drawn"),), limit=2)
    run_plan(plan, tmp_path / "boxes", workers=0)
    run = Run.open(tmp_path / "boxes")
    for group in attacked_sessions(run):
        assert (group.role("min") <= group.role("base")).all()
        assert (group.role("base") <= group.role("max")).all()
    values = {
        (r.model, r.statistic): r.value for r in Tetris().summary(run) if r.protocol == "corrected"
    }
    assert values["disc", "iou-d"] > 0
    made = catalogue.benchmarks.make("tetris-boxes").sections(run)
    assert "Moving the whole box" in render(Page("boxes", "", [], made))
    (answer,) = [b for s in made for b in s.blocks if isinstance(b, Answer)]
    assert re.search(r"[\d.]+ points of IoU apart \(95 % interval [\d.]+ to [\d.]+\)", answer.text)
    captions = [b.caption for s in made for b in s.blocks if isinstance(b, Gallery)]
    assert any("dark blue 0 %" in caption for caption in captions)
    with pytest.raises(BadInput, match="has no option 'a'; it has none"):
        run_plan(replace(plan, options={"a": 1}), tmp_path / "other", workers=0)


def test_both_directions_of_four_objects_take_every_step_in_one_batch() -> None:
    """One softened batch a round, whatever the number of objects, directions and protocols."""
    pytest.importorskip("torch")
    import torch

    from segmeter.models.clicknets._encoded import ClickNetEncodedScene
    from segmeter.models.clicknets._encoded import Settings as Use
    from segmeter.models.clicknets._networks import RitmNetwork
    from segmeter.models.clicknets._zoom import Zoom
    from segmeter.models.clicknets.containers import RITM

    torch.manual_seed(1)
    shape = (48, 48)
    things = tuple(
        Target(str(i), Mask.box(shape, (4 + 24 * (i // 2), 4 + 24 * (i % 2)),
                                (20 + 24 * (i // 2), 20 + 24 * (i % 2)))) for i in range(4)
    )  # fmt: skip
    scene = Image("drawn", "four", np.zeros((*shape, 3), np.uint8), things)
    encoded = ClickNetEncodedScene(RitmNetwork(RITM["ritm-h18s"]).eval(), scene, Use(Zoom(48, 1)))
    asked: list[int] = []
    steps: list[int] = []
    movable_clicks = encoded.movable_clicks

    def counted(requests):
        asked.append(len(requests))
        soft = movable_clicks(requests)
        inner = soft.logits
        soft.logits = lambda points: (steps.append(len(points)), inner(points))[1]
        return soft

    encoded.movable_clicks = counted  # type: ignore[method-assign]
    users = [CentreClick(), Adversary("worst", steps=1), Adversary("best", steps=1)]
    playing = simulated_sessions(scene, encoded, users, ("corrected",), {})
    simulate(scene, encoded, playing, 1, lambda t, m: {"iou": iou(t.mask, m)})
    assert asked == [8]
    assert steps == [8] * 2


@pytest.mark.long
@pytest.mark.usefixtures("encoded_once")
def test_a_run_with_real_weights_keeps_the_order(
    real_weights: Path, real_data: Path, tmp_path: Path
) -> None:
    from segmeter.runtime.remote_files import Roots

    plan = Plan(
        "tetris", (Spec("mobile-sam", {"device": "cpu"}),), (Spec("grabcut"),),
        users=(Spec("worst-click", {"steps": 2}), Spec("best-click", {"steps": 2})),
        rounds=1, sample=1, seed=61, protocols=("published", "corrected"),
        options={"exhaustive": 0},
    )  # fmt: skip
    scenes = catalogue.datasets.make("grabcut", data=real_data).scenes()
    assert plan.scenes_of("grabcut", scenes) == ["llama"]  # other tests have it encoded
    run_plan(plan, tmp_path / "run", roots=Roots(real_data, real_weights), workers=0)
    run = Run.open(tmp_path / "run", Roots(real_data, real_weights))
    assert not run.sql("select * from errors").num_rows
    for group in attacked_sessions(run):
        assert group.complete
        if group.protocol == "corrected":
            assert (group.role("min") <= group.role("base")).all()
            assert (group.role("base") <= group.role("max")).all()
    blocks = [b for s in Tetris().sections(run) for b in s.blocks]
    assert not [b for b in blocks if isinstance(b, Table) and b.name == "compared-with-paper"]
    said = [b.text for b in blocks if isinstance(b, Note)]
    assert any("50 targets and 10 clicks, these of 1 and 1" in text for text in said)


def test_the_papers_numbers_are_shown_for_the_same_targets_and_clicks_only() -> None:
    def compared(targets: int, rounds: int) -> Table | None:
        curves = {
            (m, role): np.full((targets, rounds), 0.9)
            for m in ("iou", "biou")
            for role in ("base", "min", "max")
        }
        keys = tuple((str(i), "0") for i in range(targets))
        places = tuple(str(i) for i in range(targets))
        group = AttackedSessions("mobile-sam", "grabcut", "", "corrected", keys, places, curves)
        group.values.update(from_curves(group))
        found = summary_of([group], STATISTICS)
        return compared_with_the_paper([group], {(r.key, r.statistic): r for r in found})

    like = compared(50, 10)
    assert like is not None
    assert len(like.rows) == 2
    assert compared(49, 10) is None
    assert compared(50, 3) is None


def test_clicks_of_the_attack_are_fair(run: Run) -> None:
    data = catalogue.datasets.make("drawn")
    first = run.sql("""
        select scene, target, prompt from rows where round = 1 and protocol = 'corrected'
        and "user" in ('worst-click', 'best-click')
    """).to_pylist()
    from segmeter.core.prompts import round_from_json

    for row in first:
        scene = data.load(row["scene"])
        target = next(t for t in scene.targets if t.id == row["target"])
        (click,) = round_from_json(row["prompt"])
        assert isinstance(click, Click)
        assert target.mask[tuple(int(c) for c in click.point)]


def test_a_run_needs_no_database(tmp_path: Path) -> None:
    """Where duckdb is missing the rows are written all the same, and that is said."""
    program = (
        "import sys; sys.modules['duckdb'] = None; from segmeter.cli.app import run_app; run_app()"
    )
    out = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-c", program, "run", "tetris", "-m", "synthetic-noisy", "-d", "drawn",
         "--limit", "1", "--rounds", "1", "--exhaustive", "0", "--workers", "0", "--out", str(out)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "summaries need duckdb" in done.stderr
    assert list((out / "jobs").glob("*.parquet"))
    assert not (out / "errors").exists()

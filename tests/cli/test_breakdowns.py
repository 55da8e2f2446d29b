"""Results by class, size, shape and boundary, and object by object."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

import segmeter
from segmeter.analysis.breakdown import shape_group, splits
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.plans import Plan
from segmeter.engine import run_plan
from segmeter.store import Run

from .conftest import Typed


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs") / "run"
    plan = Plan("noc", (Spec("synthetic-noisy"), Spec("disc")), (Spec("drawn"),), rounds=3, limit=8)
    run_plan(plan, place, workers=0)
    return place


@pytest.mark.parametrize("by", ["class", "size", "shape", "boundary"])
def test_every_target_falls_in_one_group(run: Path, by: str) -> None:
    opened = Run.open(run)
    (one, *_) = splits(opened.benchmark, opened, by)
    assert len(one.means) > 1
    (many,) = opened.sql("select count(distinct (scene, target)) as n from rows").to_pylist()
    assert sum(mean.targets for mean in one.means) == many["n"]


def test_shapes_are_those_of_the_targets(run: Path) -> None:
    opened = Run.open(run)
    (one, *_) = splits(opened.benchmark, opened, "shape")
    counted = {mean.group: mean.targets for mean in one.means}
    wanted: dict[str, int] = {}
    for scene in opened.scenes("drawn"):
        for target in opened.scene("drawn", scene).targets:
            group = shape_group(target.mask)
            wanted[group] = wanted.get(group, 0) + 1
    assert counted == wanted


def test_the_page_shows_the_split_and_a_mistake_is_reported(run: Path, typed: Typed) -> None:
    to = run.parent / "page.html"
    assert typed("report", run, "--by", "boundary", "--out", to)[0] == 0
    assert "Results by boundary" in to.read_text()
    with pytest.raises(BadInput, match=r"available: .*shape"):
        splits(Run.open(run).benchmark, Run.open(run), "colour")


def test_groups_have_clicks_hours_and_money_that_add_up_to_those_of_all(
    run: Path, typed: Typed
) -> None:
    opened = segmeter.open_run(run, goal="85")
    costs = opened.cost(3600, 12, by="size")
    for model in ("synthetic-noisy", "disc"):
        here = [c for c in costs if c.get("model") == model]
        (whole,) = (c for c in costs if c.get("way") == model)
        many = [int(c["objects"]) for c in here]
        assert len(here) > 1
        rows = {r.statistic: r for r in opened.summary()
                if (r.model, r.protocol) == (model, "corrected")}  # fmt: skip
        for key, all_objects in (
            ("hours", whole["hours"]["value"]),
            ("total_hours", whole["total_hours"]["value"]),
            ("money", whole["money"]["value"]),
            ("clicks", rows["noc@85"].value),
        ):
            mean = sum(n * c[key]["value"] for n, c in zip(many, here, strict=True)) / sum(many)
            assert mean == pytest.approx(all_objects), key
        assert all(c["money"]["low"] == pytest.approx(12 * c["total_hours"]["low"]) for c in here)
    code, text, err = typed("report", run, "--goal", "85", "--by", "size", "--objects", 3600,
                            "--hourly-rate", 12, "--json")  # fmt: skip
    assert code == 0, err
    assert json.loads(text)["cost"] == json.loads(json.dumps(costs).replace("NaN", "null"))


def test_organs_have_hours_that_add_up_to_those_of_all(tmp_path: Path) -> None:
    """They were of the prompts alone: 2.4 hours for an organ, 197 for all, mostly by hand."""
    run = segmeter.evaluate(
        "disc", "mini-volumes", benchmark="volumes", users="box-interpolation?n=3",
        rounds=1, limit=2, protocols="corrected", out=tmp_path / "run", progress=False,
    )  # fmt: skip
    costs = run.cost(3600, 12, by="organ")
    (whole,) = (c for c in costs if c.get("way", "").startswith("disc"))
    here = [c for c in costs if c.get("model") == "disc"]
    assert len(here) == 2
    for key in ("hours", "total_hours", "money"):
        many = [int(c["objects"]) for c in here]
        mean = sum(n * c[key]["value"] for n, c in zip(many, here, strict=True)) / sum(many)
        assert mean == pytest.approx(whole[key]["value"]), key


def test_every_session_has_a_line_whose_numbers_are_those_of_the_rows(
    run: Path, typed: Typed
) -> None:
    _, out, _ = typed("report", run, "--format", "csv")
    assert "objects.csv" in out
    lines = list(csv.DictReader(io.StringIO((run / "tables" / "objects.csv").read_text())))
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in lines[0])
    opened = Run.open(run)
    for line in lines[:: max(1, len(lines) // 7)]:
        rows = opened.sql(
            'select * from rows where model = ? and scene = ? and target = ? and "user" = ? '
            "and protocol = ? order by round",
            [line[name] for name in ("model", "scene", "target", "user", "protocol")],
        ).to_pylist()
        assert float(line["iou_1"]) == rows[0]["iou"]
        assert float(line["iou_last"]) == rows[-1]["iou"]
        assert float(line["iou_best"]) == max(row["iou"] for row in rows)
        first = next((row["round"] for row in rows if row["iou"] >= 0.9), "")
        assert line["noc_90"] == str(first)
        assert int(line["area"]) == rows[0]["area"]
    (many,) = opened.sql(
        'select count(distinct (model, scene, target, "user", protocol)) as n from rows'
    ).to_pylist()
    assert len(lines) == many["n"]
    for file in (run / "tables").glob("*.csv"):
        heads = next(csv.reader(io.StringIO(file.read_text())))
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in heads), file
        assert len(set(heads)) == len(heads), file


def test_volumes_are_split_by_their_dice(tmp_path: Path, typed: Typed) -> None:
    users = (Spec("box-per-slice"),)
    plan = Plan("volumes", (Spec("disc"),), (Spec("mini-volumes"),), users=users, limit=1)
    run_plan(plan, tmp_path / "run", workers=0)
    code, _, err = typed("report", tmp_path / "run", "--by", "class", "--format", "csv")
    assert code == 0, err
    code, out, err = typed("report", tmp_path / "run", "--by", "class", "--objects", 500,
                           "--hourly-rate", 90, "--json")  # fmt: skip
    assert code == 0, err
    hours = {c["class"]: c["hours"]["value"] for c in json.loads(out)["cost"] if "class" in c}
    seconds = (tmp_path / "run" / "tables" / "by-class.csv").read_text()
    timed = [x for x in csv.DictReader(io.StringIO(seconds)) if x["statistic"].startswith("annot")]
    wanted_hours = {x["class"]: float(x["mean_95_percent_interval"]) * 500 / 3600 for x in timed}
    assert hours == pytest.approx(wanted_hours, rel=1e-3)
    assert typed("report", tmp_path / "run", "--objects", 500)[0] == 0
    lines = csv.DictReader(io.StringIO((tmp_path / "run" / "tables" / "by-class.csv").read_text()))
    rows = (
        Run.open(tmp_path / "run")
        .sql("select label, avg(dice) as dice from rows where round = 1 group by label")
        .to_pylist()
    )
    wanted = {row["label"]: pytest.approx(100 * row["dice"]) for row in rows}
    first = [line for line in lines if line["statistic"] == "Dice, first round, %"]
    assert {line["class"]: float(line["mean_95_percent_interval"]) for line in first} == wanted

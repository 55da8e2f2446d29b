"""A toy model on small volumes through the same engine, store and report as images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.plans import Plan
from segmeter.engine import run_plan
from segmeter.engine.scoring import score_run
from segmeter.measures.surfaces import hd95, mean_surface_distance, nsd
from segmeter.report.writing import sections_of, write_sections
from segmeter.runtime.remote_files import Roots
from segmeter.store import Run

PLAN = Plan("noc", (Spec("disc"),), (Spec("mini-volumes"),), rounds=2, limit=2)
TIMES = ("seconds_encode", "seconds_predict", "seconds_user")


def rows(path: Path) -> list[dict[str, Any]]:
    table = Run.open(path).sql("select * from rows order by all")
    return [{k: v for k, v in row.items() if k not in TIMES} for row in table.to_pylist()]


def test_a_volume_is_run_stopped_resumed_scored_and_reported(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run_plan(PLAN, out, workers=0).done == 2
    whole = rows(out)
    assert {len(row["shape"]) for row in whole} == {3}
    assert all(row["z"] is not None for row in whole if row["prompt"] is not None)

    lost = sorted((out / "jobs").rglob("*.parquet"))[0]
    lost.unlink()  # a job that was cut off leaves no part
    assert run_plan(PLAN, out, workers=0).done == 1
    assert rows(out) == whole

    assert score_run(out, "dice", Roots()) == 2
    scored = Run.open(out).sql("select iou, dice from rows").to_pylist()
    for row in scored:
        assert abs(row["dice"] - 2 * row["iou"] / (1 + row["iou"])) < 1e-9

    (page,) = write_sections(opened := Run.open(out), sections_of(opened), tmp_path / "page.html")
    assert "mini-volumes" in Path(page).read_text()


def test_surfaces_are_scored_later_in_the_millimetres_of_each_header(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run_plan(PLAN, out, workers=0)
    for measure in (nsd, hd95, mean_surface_distance):
        assert score_run(out, measure.id, Roots()) == 2
    volumes = catalogue.datasets.make("mini-volumes")
    for row in rows(out):
        scene = volumes.load(row["scene"])
        (target,) = (t for t in scene.targets if t.id == row["target"])
        prediction = Mask.decoded(row["mask"], scene.shape)
        for measure in (nsd, hd95, mean_surface_distance):
            wanted = measure(target.mask, prediction, scene.spacing_mm)
            assert row[measure.id.replace("-", "_")] == wanted


def test_surfaces_of_images_are_refused_before_and_after_a_run(tmp_path: Path) -> None:
    plan = Plan(
        "noc", (Spec("disc"),), (Spec("mini"),), rounds=1, limit=1, protocols=("corrected",)
    )
    run_plan(plan, tmp_path / "run", workers=0)
    with pytest.raises(BadInput, match="'hd95' is not defined for images"):
        score_run(tmp_path / "run", "hd95", Roots())
    asked = Plan("noc", (Spec("disc"),), (Spec("mini"),), measures=("nsd",), limit=1)
    with pytest.raises(BadInput, match="'nsd' is not defined for the data of dataset 'mini'"):
        run_plan(asked, tmp_path / "other", workers=0)


def test_a_benchmark_of_images_scores_surfaces_of_volumes_in_millimetres(tmp_path: Path) -> None:
    plan = Plan(
        "noc", (Spec("disc"),), (Spec("mini-volumes"),), rounds=1, measures=("hd95",), limit=1
    )
    run_plan(plan, tmp_path / "run", workers=0)
    scored = Run.open(tmp_path / "run").sql("select hd95 from rows").to_pylist()
    assert all(row["hd95"] >= 0 for row in scored)

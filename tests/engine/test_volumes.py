"""A toy model on small volumes through the same engine, store and report as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan, Roots
from segmeter.engine import run_plan
from segmeter.engine.scoring import score_run
from segmeter.report.writing import write_report
from segmeter.store import Run

PLAN = Plan("noc", (Spec("disc"),), (Spec("mini-volumes"),), rounds=2, limit=2)
TIMES = ("seconds_look", "seconds_answer", "seconds_user")


def rows(path: Path) -> list[dict[str, Any]]:
    table = Run.open(path).sql("select * from rows order by all")
    return [{k: v for k, v in row.items() if k not in TIMES} for row in table.to_pylist()]


def test_a_volume_is_run_stopped_resumed_scored_and_reported(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run_plan(PLAN, out, workers=0).done == 2
    whole = rows(out)
    assert {len(row["shape"]) for row in whole} == {3}
    assert all(row["z"] is not None for row in whole if row["prompt"] is not None)

    lost = sorted((out / "parts").rglob("*.parquet"))[0]
    lost.unlink()  # a job that was cut off leaves no part
    assert run_plan(PLAN, out, workers=0).done == 1
    assert rows(out) == whole

    assert score_run(out, "dice", Roots()) == 2
    scored = Run.open(out).sql("select iou, dice from rows").to_pylist()
    for row in scored:
        assert abs(row["dice"] - 2 * row["iou"] / (1 + row["iou"])) < 1e-9

    (page,) = write_report(Run.open(out), tmp_path / "page.html")
    assert "mini-volumes" in Path(page).read_text()

"""The whole engine on `memory://`: run, go on, score, report, compare; and executors by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound, RunConflict
from segmeter.core.plans import Plan, Roots
from segmeter.engine import Tally, run_plan
from segmeter.engine.executors import executor_names
from segmeter.engine.scoring import score_run
from segmeter.report.writing import write_report
from segmeter.store import Run, RunFolder

PLAN = Plan("noc", (Spec("disc"), Spec("noisy")), (Spec("drawn"),), rounds=2, limit=2)
fsspec = pytest.importorskip("fsspec", reason="needs the extra 'remote'")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    yield f"memory://{tmp_path.name}/run"
    fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)


def facts(address: object) -> list[dict[str, object]]:
    query = 'select model, scene, target, "user", reading, round, iou, mask from rows order by all'
    found: list[dict[str, object]] = Run.open(str(address)).sql(query).to_pylist()
    return found


def test_the_whole_engine_works_in_memory(address: str, played: Path) -> None:
    assert run_plan(PLAN, address) == Tally(done=4, before=0, failed=0)
    assert facts(address) == facts(played)
    folder = RunFolder(address)
    folder.place.remove(f"parts/{min(folder.finished())}.parquet")
    assert run_plan(PLAN, address) == Tally(done=1, before=3, failed=0)
    assert facts(address) == facts(played)
    assert score_run(address, "dice", Roots()) == 4
    run = Run.open(address)
    assert run.sql("select count(dice) as n from rows").to_pylist()[0]["n"] == len(facts(address))
    assert run.summary() == Run.open(address).summary()
    assert run.differences()
    assert write_report(run) == [f"{address}/report.html"]
    assert folder.place.read("report.html").startswith(b"<!doctype html")


def test_another_plan_is_refused_in_memory_too(address: str) -> None:
    run_plan(replace(PLAN, limit=1), address)
    with pytest.raises(RunConflict, match="different rounds"):
        run_plan(replace(PLAN, limit=1, rounds=3), address)


def test_a_damaged_part_in_memory_is_set_aside(address: str) -> None:
    run_plan(PLAN, address)
    folder = RunFolder(address)
    name = f"parts/{min(folder.finished())}.parquet"
    folder.place.put(name, folder.place.read(name)[:-30])
    assert list(Run.open(address).damaged) == [name]
    assert run_plan(PLAN, address) == Tally(done=1, before=3, failed=0)


def test_executors_go_by_name(played: Path, tmp_path: Path, address: str) -> None:
    assert {"inline", "local"} <= set(executor_names())
    small = replace(PLAN, limit=1)
    assert run_plan(small, tmp_path / "a", executor="inline", workers=2).done == 2
    assert run_plan(small, tmp_path / "b", executor="local", workers=1).done == 2
    assert facts(tmp_path / "a") == facts(tmp_path / "b")
    with pytest.raises(NotFound, match="did you mean 'inline'"):
        run_plan(small, tmp_path / "c", executor="inlin")
    with pytest.raises(BadInput, match="memory of one process"):
        run_plan(small, address, executor="local", workers=1)

"""The whole engine on `memory://` and S3: run, kill, resume, score, report; executors by name."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import segmeter
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound, RunConflict
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene
from segmeter.engine import Tally, run_plan
from segmeter.engine.executors import executor_names
from segmeter.engine.jobs import Outcome
from segmeter.engine.scoring import score_run
from segmeter.models.synthetic import Disc
from segmeter.report.writing import sections_of, write_sections
from segmeter.runtime.remote_files import Roots
from segmeter.store import Run, RunFolder, write_lock
from segmeter.store.storage import RemotePlace

from ..forking import Interpreter

PLAN = Plan("noc", (Spec("disc"), Spec("synthetic-noisy")), (Spec("drawn"),), rounds=2, limit=2)


def facts(address: object) -> list[dict[str, object]]:
    query = 'select model, scene, target, "user", protocol, round, iou, mask from rows order by all'
    found: list[dict[str, object]] = Run.open(str(address)).sql(query).to_pylist()
    return found


def test_the_whole_engine_works_without_a_disk(address: str, played: Path) -> None:
    assert run_plan(PLAN, address, executor="inline") == Tally(done=4, before=0, failed=0)
    assert facts(address) == facts(played)
    folder = RunFolder(address)
    folder.place.remove(f"jobs/{min(folder.finished())}.parquet")
    assert run_plan(PLAN, address, executor="inline") == Tally(done=1, before=3, failed=0)
    assert facts(address) == facts(played)
    assert score_run(address, "dice", Roots()) == 4
    run = Run.open(address)
    assert run.sql("select count(dice) as n from rows").to_pylist()[0]["n"] == len(facts(address))
    assert str(run.summary()) == str(Run.open(address).summary())  # nan is not nan


def test_a_report_is_written_to_an_address() -> None:
    """Only in memory: on S3 it is written where credentials are looked for."""
    address = f"memory://{uuid.uuid4().hex}"
    run_plan(PLAN, address, executor="inline")
    run = Run.open(address)
    assert run.differences()
    assert write_sections(run, sections_of(run)) == [f"{address}/report.html"]
    segmeter.open_run(address).cost_sheet(objects=100)
    for page in ("report.html", "cost.html"):
        assert RunFolder(address).place.read(page).startswith(b"<!doctype html")


def test_another_plan_is_refused_there_too(address: str) -> None:
    run_plan(replace(PLAN, limit=1), address, workers=0)
    with pytest.raises(RunConflict, match=r"rounds 2 \(not 3\)"):
        run_plan(replace(PLAN, limit=1, rounds=3), address, workers=0)


def test_a_damaged_job_file_there_is_quarantined(address: str) -> None:
    run_plan(PLAN, address, executor="inline")
    folder = RunFolder(address)
    name = f"jobs/{min(folder.finished())}.parquet"
    folder.place.put(name, folder.place.read(name)[:-30])
    assert list(Run.open(address).damaged) == [name]
    assert run_plan(PLAN, address, executor="inline") == Tally(done=1, before=3, failed=0)


def test_a_failed_job_leaves_an_error_row_there_and_the_rest_is_run(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cause lies outside of the model, which stays the same: another would be refused."""

    class Falling(Disc):
        def encode(self, scene: Scene) -> Any:
            if scene.id.endswith("1") and "TEST_FALLS" in os.environ:
                raise ValueError("fell")
            return super().encode(scene)

    plan = replace(PLAN, segmenters=(Spec("mine"),))
    monkeypatch.setenv("TEST_FALLS", "1")
    assert run_plan(plan, address, objects={"mine": Falling()}) == Tally(1, 0, 1)
    (error,) = Run.open(address).sql("select scene, error from errors").to_pylist()
    assert error["error"].startswith("ValueError: fell")
    with pytest.raises(RunConflict, match="other code or state"):
        run_plan(plan, address, objects={"mine": Disc()})
    monkeypatch.delenv("TEST_FALLS")
    assert run_plan(plan, address, objects={"mine": Falling()}) == Tally(1, 1, 0)
    assert not Run.open(address).sql("from errors").num_rows


def test_a_run_killed_on_s3_resumes_with_the_same_rows(
    s3: str, played: Path, python: Interpreter
) -> None:
    """It is killed once a job file is there; the dead one's lease bars nobody."""
    out = f"{s3}/{uuid.uuid4().hex}"
    words = ["run", "noc", "-m", "disc", "-m", "synthetic-noisy", "-d", "drawn", "--rounds", "2",
             "--limit", "2", "--workers", "0", "--out", out]  # fmt: skip
    process = python.start("-m", "segmeter", *words)
    folder, pause = RunFolder(out), threading.Event()
    while len(folder.finished()) < 1 and process.poll() is None:
        pause.wait(0.1)
    process.kill()
    before = len(folder.finished())
    tally = run_plan(PLAN, out, workers=0)
    assert tally.failed == 0
    assert tally.done + tally.before == 4
    assert tally.before >= before >= 1
    assert facts(out) == facts(played)
    assert not folder.place.exists("lease.json")


def test_a_write_that_is_broken_off_loses_one_job_at_most(
    address: str, played: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, left = RemotePlace.put, [2, 5, 9]

    def breaking(place: RemotePlace, name: str, data: bytes, *, leased: bool = True) -> None:
        left[:] = [n - 1 for n in left]
        if 0 in left:
            raise KeyboardInterrupt
        put(place, name, data, leased=leased)

    monkeypatch.setattr(RemotePlace, "put", breaking)
    for _ in range(3):
        with suppress(KeyboardInterrupt):
            run_plan(PLAN, address, executor="inline")
    monkeypatch.undo()
    assert run_plan(PLAN, address, executor="inline").failed == 0
    assert facts(address) == facts(played)


def test_remains_of_a_removed_run_do_not_block_its_address(address: str) -> None:
    run_plan(PLAN, address, executor="inline")
    RunFolder(address).place.remove("plan.json")
    assert run_plan(PLAN, address, executor="inline") == Tally(done=4, before=0, failed=0)


def test_two_commands_cannot_write_to_one_address(address: str) -> None:
    with (
        RunFolder.claimed(address, PLAN),
        pytest.raises(RunConflict, match="another command"),
        RunFolder.claimed(address, PLAN),
    ):
        pass


def test_executors_go_by_name(tmp_path: Path) -> None:
    assert {"inline", "local"} <= set(executor_names())
    small = replace(PLAN, limit=1)
    assert run_plan(small, tmp_path / "a", executor="inline", workers=2).done == 2
    assert run_plan(small, tmp_path / "b", executor="local", workers=1).done == 2
    assert facts(tmp_path / "a") == facts(tmp_path / "b")
    with pytest.raises(NotFound, match="did you mean 'inline'"):
        run_plan(small, tmp_path / "c", executor="inlin")
    with pytest.raises(BadInput, match="memory of one process"):
        run_plan(small, "memory://nowhere", executor="local", workers=1)


def test_a_run_stops_when_another_command_has_taken_it_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_lock, "_SECONDS", 0.02)
    address = f"memory://{uuid.uuid4().hex}"
    place = RemotePlace(address)

    class TakenOver:
        """Another command takes the lease after the first job, as if this one had slept."""

        def begin(self, total: int, done: int) -> None: ...

        def step(self, outcome: Outcome) -> None:
            other = {"holder": "other", "until": time.time() + 100}
            holder = json.loads(place.read(write_lock.LEASE))["holder"]
            (renewing,) = (t for t in threading.enumerate() if t.name == f"lease of {holder}")
            while renewing.is_alive():  # it may be writing its own just now
                place.put(write_lock.LEASE, json.dumps(other).encode())
                renewing.join(0.05)

        def end(self) -> None: ...

    with pytest.raises(RunConflict, match="another command has taken over 'memory://"):
        run_plan(PLAN, address, executor="inline", progress=TakenOver())
    assert len(RunFolder(address).finished()) in (1, 2)
    assert json.loads(place.read(write_lock.LEASE))["holder"] == "other"

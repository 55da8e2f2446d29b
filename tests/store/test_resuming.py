"""Going on with a run: by the same weights and source, alone, in the very same folder."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from segmeter.core.catalogue import Spec
from segmeter.core.errors import RunConflict, SegmeterError
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene
from segmeter.engine import Tally, run_plan
from segmeter.models.synthetic import Disc
from segmeter.store import Run, RunFolder
from segmeter.store.local import RunRemoved

from ..forking import Interpreter

Typed = Callable[..., tuple[int, str, str]]
PLAN = Plan("noc", (Spec("disc"),), (Spec("drawn"),), rounds=1, limit=2)
MINE = """
from segmeter.models.synthetic import Disc
class Mine(Disc):
    def __init__(self):
        super().__init__(radius={radius})
"""


def with_file(place: Path, radius: int) -> Plan:
    file = place / "mine.py"
    file.write_text(MINE.format(radius=radius))
    return replace(PLAN, segmenters=(Spec(f"{file}:Mine"),))


def weighted(fingerprint: str) -> Disc:
    class Weighted(Disc):
        card = replace(Disc.card, name="weighted", fingerprint=fingerprint)

    return Weighted()


def lose_a_part(out: str) -> None:
    folder = RunFolder(out)
    folder.place.remove(f"jobs/{min(folder.finished())}.parquet")


def test_a_changed_source_is_refused_and_rerun_on_request(tmp_path: Path, storage: str) -> None:
    plan, out = with_file(tmp_path, 5), storage
    run_plan(plan, out, workers=0)
    first = Run.open(out).sql("select avg(iou) as iou from rows").to_pylist()
    lose_a_part(out)
    plan = with_file(tmp_path, 9)
    with pytest.raises(RunConflict, match=r"1 of 2 jobs .* other code or state .* --rerun-changed"):
        run_plan(plan, out, workers=0)
    assert run_plan(plan, out, workers=0, again=True) == Tally(done=2, before=0, failed=0)
    assert Run.open(out).sql("select avg(iou) as iou from rows").to_pylist() != first
    assert run_plan(plan, out, workers=0) == Tally(done=0, before=2, failed=0)


def test_changed_weights_are_refused_before_the_first_job(storage: str) -> None:
    plan, out = replace(PLAN, segmenters=(Spec("weighted"),)), storage
    run_plan(plan, out, objects={"weighted": weighted("a" * 32)})
    lose_a_part(out)
    with pytest.raises(RunConflict, match="other weights"):
        run_plan(plan, out, objects={"weighted": weighted("b" * 32)})
    assert len(RunFolder(out).finished()) == 1
    again = run_plan(plan, out, objects={"weighted": weighted("b" * 32)}, again=True)
    assert again == Tally(done=2, before=0, failed=0)


def test_a_rerun_job_drops_its_scores(storage: str) -> None:
    from segmeter.engine.scoring import score_run
    from segmeter.runtime.remote_files import Roots

    plan, out = replace(PLAN, segmenters=(Spec("weighted"),)), storage
    run_plan(plan, out, objects={"weighted": weighted("a")})
    assert score_run(out, "dice", Roots()) == 2
    run_plan(plan, out, objects={"weighted": weighted("b")}, again=True)
    assert Run.open(out).sql("from rows").num_rows > 0
    assert score_run(out, "dice", Roots()) == 2


def test_one_of_two_plans_for_one_folder_is_refused(tmp_path: Path) -> None:
    """The plan is written under the lock: no pair of plans is accepted by chance."""
    for attempt in range(20):
        out, plans = tmp_path / str(attempt), [PLAN, replace(PLAN, seed=1)]
        gate, results = threading.Barrier(2), []

        def claim(plan: Plan, out: Path = out, gate: Any = gate, results: Any = results) -> None:
            gate.wait()
            try:
                with RunFolder.claimed(out, plan):
                    results.append("taken")
            except RunConflict:
                results.append("refused")

        threads = [threading.Thread(target=claim, args=(plan,)) for plan in plans]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == ["refused", "taken"]


def test_a_folder_removed_in_mid_run_stops_it_and_can_be_used_again(tmp_path: Path) -> None:
    out = tmp_path / "run"

    class Removing(Disc):
        def encode(self, scene: Scene) -> Any:
            if scene.id.endswith("1"):
                shutil.rmtree(out)
            return super().encode(scene)

    plan = replace(PLAN, segmenters=(Spec("disc2"),))
    with pytest.raises(SegmeterError, match="was removed"):
        run_plan(plan, out, objects={"disc2": Removing()})
    assert not out.exists()
    assert run_plan(plan, out, objects={"disc2": Disc()}).done == 2


def test_remains_of_a_removed_run_do_not_block_its_folder(tmp_path: Path) -> None:
    run_plan(PLAN, tmp_path / "run", workers=0)
    (tmp_path / "run" / "plan.json").unlink()
    assert run_plan(PLAN, tmp_path / "run", workers=0) == Tally(done=2, before=0, failed=0)


def test_nothing_is_put_into_a_folder_that_took_the_place(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run_plan(PLAN, out, workers=0)
    folder = RunFolder(out)
    assert folder.begun
    shutil.rmtree(out)
    out.mkdir()
    with pytest.raises(RunRemoved):
        folder.place.put("jobs/x", b"x")
    assert not list(out.iterdir())


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="the system has no process groups")
def test_a_doubled_interrupt_ends_like_a_single_one(python: Interpreter, tmp_path: Path) -> None:
    """No trace of a worker, and the exit code of an interrupt."""
    command = ["-m", "segmeter", "run", "noc", "-m", "grabcut", "-d", "mini",
               "--rounds", "20", "--workers", "2", "--out", str(tmp_path / "run")]  # fmt: skip
    process = python.start(*command)
    pause = threading.Event()
    while not (tmp_path / "run" / "provenance.json").exists() and process.poll() is None:
        pause.wait(0.01)
    for _ in range(3):
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(process.pid, signal.SIGINT)
        pause.wait(0.02)
    ended = process.wait()
    said = ended.stderr
    assert ended.returncode == 130
    assert "Traceback" not in said
    (line,) = said.strip().splitlines()
    assert line.startswith("segmeter: interrupted; nothing that was finished is lost. To resume: ")

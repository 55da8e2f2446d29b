"""The `ray` executor on a real cluster of two nodes: the rows of `local`, whoever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.plans import Plan
from segmeter.engine import Tally, run_plan
from segmeter.engine.jobs import Outcome
from segmeter.store import Run

pytest.importorskip("ray", reason="needs the extra 'ray'")
pytestmark = pytest.mark.long

QUICK_TO_NOTICE = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 300,
    "health_check_timeout_ms": 600,
    "health_check_failure_threshold": 3,
    "enable_worker_prestart": False,
    "prestart_worker_first_driver": False,
}

# A model in a file of one's own: it lets a moment pass, and dies once if it is told where to
# note that it did.
OWN = """
import os, signal, time
from pathlib import Path

def predict(image, clicks):
    time.sleep(0.05)
    note = Path({note!r})
    if {note!r} and not note.exists():
        note.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return image[..., 0] > 127
"""


@dataclass
class Watch:
    """Counts what a run did, and does something after the first job."""

    then: Any = lambda: None
    outcomes: list[Outcome] = field(default_factory=list)

    def begin(self, total: int, done: int) -> None:
        """Nothing to show."""

    def step(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if len(self.outcomes) == 1:
            self.then()

    def end(self) -> None:
        """Nothing to close."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two nodes with a core each, as far as Ray knows.

    Tests of this file that another process runs wait until these are over: two clusters at once
    starve each other on a small machine.
    """
    from filelock import FileLock  # Ray needs it too
    from ray.cluster_utils import Cluster

    with FileLock(tmp_path_factory.getbasetemp().parent / "ray.lock"):
        head = {"num_cpus": 1, "include_dashboard": False, "_system_config": QUICK_TO_NOTICE}
        made = Cluster(initialize_head=True, head_node_args=head)
        made.add_node(num_cpus=1)
        made.wait_for_nodes()
        yield made
        made.shutdown()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def own_model(folder: Path, note: str = "") -> Plan:
    (folder / "mine.py").write_text(OWN.format(note=note), "utf-8")
    return Plan(
        "noc",
        (Spec("mine.py:predict"),),
        (Spec("drawn", {"count": 6}),),
        users=(Spec("centre-click"),),
        rounds=3,
    )


def rows(run: Path) -> list[tuple[str, ...]]:
    """All rows but their times, in an order of their own."""
    found = Run.open(run).sql("SELECT * FROM rows").to_pylist()
    lasting = [{k: v for k, v in row.items() if not k.startswith("seconds")} for row in found]
    return sorted(tuple(str(v) for _, v in sorted(row.items())) for row in lasting)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, ...]]:
    """The rows of the model of one's own when `local` plays it."""
    folder = tmp_path_factory.mktemp("local")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run_plan(own_model(folder), folder / "run", workers=1)
    return rows(folder / "run")


def test_partitions_give_the_rows_of_local(cluster: Any, folder: Path) -> None:
    (folder / "own.py").write_text(PARTITIONS, "utf-8")
    plan = Plan("seism", (Spec("quadtree"),), (Spec("own.py:Squares"),), kind="method")
    assert run_plan(plan, folder / "ray", executor="ray", address=cluster.address) == Tally(8, 0, 0)
    run_plan(plan, folder / "local", workers=1)
    assert rows(folder / "ray") == rows(folder / "local")


def test_videos_give_the_rows_of_local(cluster: Any, folder: Path) -> None:
    trackers = (Spec("flow", {"model": "disc"}), Spec("hand-over", {"model": "disc"}))
    plan = Plan("video", trackers, (Spec("mini-video"),), rounds=2)
    assert run_plan(plan, folder / "ray", executor="ray", address=cluster.address) == Tally(2, 0, 0)
    run_plan(plan, folder / "local", workers=0)
    assert rows(folder / "ray") == rows(folder / "local")


def test_an_actor_and_a_node_that_die_lose_nothing(
    cluster: Any, folder: Path, local: list[tuple[str, ...]]
) -> None:
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    plan = own_model(folder, note=str(folder / "died"))
    watch = Watch(then=lambda: cluster.remove_node(node, allow_graceful=False))
    tally = run_plan(plan, folder / "run", address=cluster.address, progress=watch)
    assert (folder / "died").exists()
    assert tally == Tally(6, 0, 0)
    assert len({outcome.job.id for outcome in watch.outcomes}) == len(watch.outcomes)
    assert rows(folder / "run") == local


def test_a_killed_driver_resumes(cluster: Any, folder: Path, local: list[tuple[str, ...]]) -> None:
    plan = own_model(folder)
    words = ["run", "noc", "--model", "mine.py:predict", "--dataset", "drawn?count=6"]
    words += ["--user", "centre-click", "--rounds", "3", "--out", "run"]
    words += ["--ray-address", cluster.address]
    driver = subprocess.Popen([sys.executable, "-m", "segmeter", *words], start_new_session=True)
    while driver.poll() is None and not any((folder / "run").glob("jobs/**/*.parquet")):
        time.sleep(0.02)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    tally = run_plan(plan, folder / "run", address=cluster.address)
    assert tally.before >= 1
    assert tally.before + tally.done == 6
    assert rows(folder / "run") == local


def test_impossible_plans_are_refused_in_a_sentence(cluster: Any, folder: Path) -> None:
    plan = own_model(folder)
    with pytest.raises(BadInput, match="memory of one process"):
        run_plan(plan, "memory://ray", address=cluster.address)
    with pytest.raises(BadInput, match="works on this machine; leave --ray-address out"):
        run_plan(plan, folder / "x", executor="local", address=cluster.address)


def test_a_job_at_which_actors_keep_dying_becomes_an_error(
    cluster: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("segmeter.engine.ray_executor._LOSSES", 1)
    plan = replace(own_model(folder, note=str(folder / "no" / "such" / "note")), limit=1)
    source = (folder / "mine.py").read_text("utf-8").replace("note.touch()", "pass")
    (folder / "mine.py").write_text(source, "utf-8")
    watch = Watch()
    assert run_plan(plan, folder / "run", address=cluster.address, progress=watch).failed == 1
    assert "actors that tried it died, 1 in all" in str(watch.outcomes[0].error)


def test_a_node_without_the_folder_gets_the_files(folder: Path) -> None:
    from segmeter.engine.ray_executor import Workplace

    plan = own_model(folder)
    place = Workplace.of(plan)
    assert list(place.files) == ["mine.py"]
    (folder / "mine.py").write_text("another = 1", "utf-8")  # what this node has is not it
    place.enter()
    assert Path.cwd() != folder
    assert Path("mine.py").read_bytes() == place.files["mine.py"]
    elsewhere = Workplace("/no/such/folder", {"/abs/mine.py": b""})
    with pytest.raises(BadInput, match="not every node has /abs/mine"):
        elsewhere.enter()
    with pytest.raises(SegmeterError):
        Workplace("/no/such/folder", {"../mine.py": b""}).enter()


PARTITIONS = '''
import numpy as np
from segmeter.core.scenes import DatasetCard, Image


class Squares:
    """Four images of two halves, with a partition drawn by one person."""

    card = DatasetCard("squares", "halves", "none", "none")

    def scenes(self):
        return ["0", "1", "2", "3"]

    def fingerprint(self):
        return "squares"

    def load(self, scene):
        pixels = np.zeros((24, 32, 3), np.uint8)
        pixels[:, 8 + 4 * int(scene) :] = 200
        halves = (pixels[..., 0] > 0).astype(np.int32)
        return Image("squares", scene, pixels, (), partitions=lambda: [halves, halves])
'''

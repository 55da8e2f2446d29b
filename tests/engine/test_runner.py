"""The runner: resume, retry, error rows, kills; the same rows whoever did the work."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput, NotFound, RunConflict, SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.models import Prediction, Request
from segmeter.core.plans import Plan
from segmeter.core.scenes import DatasetCard, Image, Scene, Target
from segmeter.engine import Tally, executors, run_plan
from segmeter.engine.jobs import Outcome
from segmeter.kernels import threads
from segmeter.models.synthetic import Disc, Oracle
from segmeter.report.provenance import missing
from segmeter.runtime.remote_files import Roots
from segmeter.store import Run, RunFolder
from segmeter.store.storage import DiskFull

from ..forking import Interpreter

PLAN = Plan(
    "noc",
    (Spec("disc"), Spec("synthetic-noisy")),
    (Spec("drawn"),),
    users=(Spec("centre-click"), Spec("random-click")),
    rounds=3,
    limit=4,
)
TIMES = {"seconds_encode", "seconds_predict", "seconds_user"}


def rows(run: Path) -> list[tuple[Any, ...]]:
    """All rows of a run but their times, in an order that does not depend on the parts'."""
    found: list[tuple[Any, ...]] = []
    for part in sorted((run / "jobs").glob("*.parquet")):
        table = pq.read_table(part).to_pylist()
        found += [tuple(str(v) for k, v in sorted(r.items()) if k not in TIMES) for r in table]
    return sorted(found)


@dataclass
class Watch:
    """Counts what a run did."""

    outcomes: list[Outcome] = field(default_factory=list)
    before: int = -1

    def begin(self, total: int, done: int) -> None:
        self.before = done

    def step(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def end(self) -> None:
        """Nothing to close."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run to compare with."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    run_plan(PLAN, out, workers=0)
    return out


def test_the_same_rows_with_one_and_three_workers(whole: Path, tmp_path: Path) -> None:
    for workers in (1, 3):
        out = tmp_path / str(workers)
        assert run_plan(PLAN, out, workers=workers).done == 8
        assert rows(out) == rows(whole)


def test_the_provenance_has_the_citation_of_a_model(tmp_path: Path) -> None:
    plan = replace(PLAN, segmenters=(Spec("grabcut"),), limit=1, rounds=1)
    run_plan(plan, tmp_path / "run", workers=0)
    provenance = Run.open(tmp_path / "run").provenance["segmenters"]["grabcut"]
    assert provenance["citation"] == "rother2004"


def test_the_provenance_has_the_place_of_the_weights(tmp_path: Path, real_weights: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra 'models'")
    from segmeter.models.weights import fingerprint

    plan = replace(PLAN, segmenters=(Spec("mobile-sam"),), limit=1, rounds=1)
    run_plan(plan, tmp_path / "run", workers=0, roots=Roots(None, real_weights))
    provenance = Run.open(tmp_path / "run").provenance["segmenters"]["mobile-sam"]
    assert provenance["weights"] == str(real_weights / "mobile-sam")
    assert provenance["fingerprint"] == fingerprint(real_weights / "mobile-sam")


def test_the_order_of_options_changes_nothing(tmp_path: Path) -> None:
    """A run is gone on with, and its report complete, however its model was spelled."""
    for spelled, made in (("grabcut?side=64&rounds=1", 2), ("grabcut?rounds=1&side=64", 0)):
        plan = replace(PLAN, segmenters=(Spec.parse(spelled),), limit=2, rounds=1)
        watch = Watch()
        run_plan(plan, tmp_path, workers=0, progress=watch)
        assert len(watch.outcomes) == made
    assert missing(Run.open(tmp_path)).text.startswith("None: every scene")


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("box", "box prompts, which user 'tight-box'"),
        ("worst-box", "box prompts, which user 'worst-box'"),
        ("best-box", "box prompts, which user 'best-box'"),
        ("scribble", "scribble prompts, which user 'scribble'"),
    ],
)
def test_a_model_that_takes_clicks_only_is_refused_before_anything_is_written(
    user: str, words: str, tmp_path: Path
) -> None:
    class Clicks(Disc):
        card = replace(Disc.card, name="clicks", abilities=frozenset({"click"}))

    plan = replace(PLAN, segmenters=(Spec("clicks"),), users=(Spec("centre-click"), Spec(user)))
    with pytest.raises(BadInput, match=f"'clicks' takes no {words} gives"):
        run_plan(plan, tmp_path / "run", objects={"clicks": Clicks()})
    assert not (tmp_path / "run").exists()


def test_a_model_that_takes_boxes_only_is_not_clicked_at(tmp_path: Path) -> None:
    """Its answers to clicks would be numbers like any other, and mean nothing."""

    class Boxes(Disc):
        card = replace(Disc.card, name="boxes", abilities=frozenset({"box"}))

    plan = replace(PLAN, segmenters=(Spec("boxes"),), rounds=1)
    with pytest.raises(BadInput, match="'boxes' takes no click prompts, which user 'centre-click'"):
        run_plan(plan, tmp_path / "run", objects={"boxes": Boxes()})
    boxed = replace(plan, users=(Spec("box"),), limit=1)
    assert run_plan(boxed, tmp_path / "run", objects={"boxes": Boxes()}, workers=0).done == 1


def test_kernels_use_the_available_cores_and_the_rows_are_the_same(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("segmeter.kernels._count", 1)
    monkeypatch.setattr("segmeter.engine.executors.usable_cores", lambda: 3)
    run_plan(PLAN, tmp_path / "run", workers=0)
    assert threads() == 3
    assert rows(tmp_path / "run") == rows(whole)


@pytest.mark.parametrize("how", [{"executor": "ray"}, {"address": "auto"}])
def test_a_cluster_without_a_number_of_workers_has_one_for_each_job(
    how: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With none, a run waited for ever."""
    asked: list[int] = []
    monkeypatch.setitem(
        executors._OWN, "ray", lambda spec: asked.append(spec.workers) or executors.Inline(spec)
    )
    for workers in (0, None, 1):
        run_plan(replace(PLAN, limit=2), tmp_path / str(workers), workers=workers, **how)
    jobs = 2 * len(PLAN.segmenters)
    assert asked == [jobs, jobs, 1]


def test_a_finished_run_is_not_done_again(whole: Path) -> None:
    assert run_plan(PLAN, whole, workers=0) == Tally(done=0, before=8, failed=0)


def test_a_lost_part_is_done_again_and_nothing_else(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run_plan(PLAN, out, workers=0)
    next((out / "jobs").glob("*.parquet")).unlink()
    assert run_plan(PLAN, out, workers=0) == Tally(done=1, before=7, failed=0)
    assert rows(out) == rows(whole)


def test_another_plan_is_refused_with_the_difference(whole: Path) -> None:
    with pytest.raises(RunConflict, match=r"rounds 3 \(not 4\)"):
        run_plan(replace(PLAN, rounds=4), whole, workers=0)
    with pytest.raises(
        RunConflict, match=r"models or methods 'disc', 'synthetic-noisy' \(not 'disc'\)"
    ):
        run_plan(replace(PLAN, segmenters=(Spec("disc"),)), whole, workers=0)


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(RunConflict, match="is not a run"):
        run_plan(PLAN, tmp_path, workers=0)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_run_that_is_being_written_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run_plan(PLAN, out, workers=0)
    with RunFolder(out).locked(), pytest.raises(RunConflict, match="another command"):
        run_plan(PLAN, out, workers=0)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"segmenters": (Spec("dics"),)}, NotFound, "did you mean 'disc'"),
        ({"datasets": (Spec("drown"),)}, NotFound, "did you mean 'drawn'"),
        ({"users": (Spec("centre-clik"),)}, NotFound, "did you mean 'centre-click'"),
        ({"measures": ("iuo",)}, NotFound, "did you mean 'iou'"),
        ({"benchmark": "nocs"}, NotFound, "did you mean 'noc'"),
        ({"segmenters": ()}, BadInput, "at least one model"),
        ({"datasets": ()}, BadInput, "at least one dataset"),
        ({"rounds": -1}, BadInput, "whole number from 1"),
    ],
)
def test_a_wrong_request_writes_nothing(
    change: dict[str, Any], error: type[SegmeterError], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        run_plan(replace(PLAN, **change), tmp_path / "run", workers=0)
    assert not (tmp_path / "run").exists()


class Moody(Oracle):
    """Fails on one scene, the first so many times."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    def encode(self, scene: Scene) -> Any:
        if scene.id.endswith("1") and self.left:
            self.left -= 1
            raise ZeroDivisionError("moody")
        return super().encode(scene)


def moody_run(model: Moody, out: Path) -> Tally:
    plan = replace(PLAN, segmenters=(Spec("moody"),))
    return run_plan(plan, out, objects={"moody": model})


def test_a_job_that_fails_once_is_tried_again(tmp_path: Path) -> None:
    assert moody_run(Moody(1), tmp_path / "run") == Tally(done=4, before=0, failed=0)


def test_a_failed_job_leaves_an_error_row_and_the_rest_is_run(tmp_path: Path) -> None:
    model = Moody(2)
    assert moody_run(model, tmp_path / "run") == Tally(done=3, before=0, failed=1)
    (error,) = Run.open(tmp_path / "run").sql("select * from errors").to_pylist()
    assert error["error"].startswith("ZeroDivisionError: moody (test_runner.py, line ")
    assert "encode" in error["detail"]
    assert moody_run(model, tmp_path / "run") == Tally(done=1, before=3, failed=0)
    assert Run.open(tmp_path / "run").sql("select * from errors").num_rows == 0


def test_a_worker_that_dies_loses_one_job_at_most(tmp_path: Path) -> None:
    file = tmp_path / "deadly.py"
    file.write_text(
        "import os\n"
        "from segmeter.models.synthetic import Oracle\n"
        "class Deadly(Oracle):\n"
        "    def encode(self, scene):\n"
        "        if scene.id.endswith('1'):\n"
        "            os._exit(9)\n"
        "        return super().encode(scene)\n"
    )
    plan = replace(PLAN, segmenters=(Spec(f"{file}:Deadly"),))
    watch = Watch()
    tally = run_plan(plan, tmp_path / "run", workers=2, progress=watch)
    assert tally == Tally(done=3, before=0, failed=1)
    (failed,) = [o for o in watch.outcomes if o.error]
    assert "exit code 9" in str(failed.error)


def test_a_full_disk_stops_the_run_and_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, finish, room = tmp_path / "run", RunFolder.finish, iter((True, True, False))

    def until_full(folder: RunFolder, *args: Any) -> None:
        if not next(room):
            raise DiskFull("the disk is full")
        finish(folder, *args)

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "finish", until_full)
        with pytest.raises(SegmeterError, match="disk is full"):
            run_plan(PLAN, out, workers=0)
    assert run_plan(PLAN, out, workers=0).before == 2


class Recorder(Disc):
    """Counts looks."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[str] = []

    def encode(self, scene: Scene) -> Any:
        self.looks.append(scene.id)
        return super().encode(scene)


def test_every_scene_is_encoded_once_for_all_targets_users_and_protocols(tmp_path: Path) -> None:
    model = Recorder()
    plan = replace(PLAN, segmenters=(Spec("recorder"),))
    run_plan(plan, tmp_path / "run", objects={"recorder": model})
    assert len(model.looks) == len(set(model.looks)) == 4


KILLED = """
import sys
from pathlib import Path
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.engine import run_plan
if __name__ == "__main__":  # workers import this file too
    plan = Plan.from_json(Path(sys.argv[1]).read_text())
    run_plan(plan, Path(sys.argv[2]), workers=int(sys.argv[3]))
"""


class Killer:
    """Kills a run with SIGKILL as soon as so many parts lie in its folder."""

    def __init__(self, python: Interpreter, plan: Path, out: Path, workers: int) -> None:
        script = plan.with_name("killed.py")
        script.write_text(KILLED)
        self.process = python.start(script, plan, out, workers)
        self.parts = out / "jobs"

    def kill_after(self, parts: int) -> None:
        pause = threading.Event()
        while len(list(self.parts.glob("*.parquet"))) < parts and self.process.poll() is None:
            pause.wait(0.002)
        self.process.kill()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_killed_run_loses_only_the_open_jobs(
    whole: Path, python: Interpreter, tmp_path: Path, workers: int
) -> None:
    plan, out = tmp_path / "plan.json", tmp_path / "run"
    plan.write_text(PLAN.to_json())
    finished: set[str] = set()
    for parts in (1, 4):
        Killer(python, plan, out, workers).kill_after(parts)
        now = {p.name for p in (out / "jobs").glob("*.parquet")}
        assert finished <= now
        assert len(now) >= parts
        finished = now
    tally = run_plan(PLAN, out, workers=0)
    assert tally.done + tally.before == 8
    assert rows(out) == rows(whole)


class Interrupting(Oracle):
    """Stops at the third scene, once, as a person would with Ctrl-C."""

    stopped = False

    def encode(self, scene: Scene) -> Any:
        if scene.id.endswith("2") and not self.stopped:
            self.stopped = True
            raise KeyboardInterrupt
        return super().encode(scene)


def test_an_interrupt_keeps_what_is_finished(tmp_path: Path) -> None:
    plan = replace(PLAN, segmenters=(Spec("mine"),))
    objects = {"mine": Interrupting()}
    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, tmp_path / "run", objects=objects)
    assert run_plan(plan, tmp_path / "run", objects=objects).before == 2


class Answering(Oracle):
    """Answers as the oracle does; used to see that asks arrive in one call a round."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def encode(self, scene: Scene) -> Any:
        encoded, calls = super().encode(scene), self.calls

        class Counting:
            def predict(self, requests: Sequence[Request]) -> Sequence[Prediction]:
                calls.append(len(requests))
                answers: Sequence[Prediction] = encoded.predict(requests)
                return answers

        return Counting()


def test_one_call_a_round_serves_all_players(tmp_path: Path) -> None:
    model = Answering()
    plan = replace(PLAN, segmenters=(Spec("mine"),), limit=1, protocols=("published",))
    run_plan(plan, tmp_path / "run", objects={"mine": model})
    assert len(model.calls) <= PLAN.rounds


@dataclass
class Bare:
    """A dataset whose scenes have what is given."""

    targets: dict[str, Sequence[Any]]
    partitions: Any = None
    card: DatasetCard = field(default_factory=lambda: DatasetCard("bare", "bare", "none", "none"))

    def scenes(self) -> list[str]:
        return list(self.targets)

    def load(self, scene: str) -> Scene:
        pixels = np.zeros((8, 8, 3), np.uint8)
        return Image("bare", scene, pixels, self.targets[scene], partitions=self.partitions)

    def fingerprint(self) -> str:
        return "1"


def test_a_scene_without_targets_is_an_error_row_and_the_rest_is_run(tmp_path: Path) -> None:
    target = Target("box", Mask.box((8, 8), (2, 2), (6, 6)))
    plan = Plan("noc", (Spec("synthetic-oracle"),), (Spec("bare"),), rounds=1)
    tally = run_plan(plan, tmp_path / "run", objects={"bare": Bare({"a": [], "b": [target]})})
    assert (tally.done, tally.failed) == (1, 1)
    run = Run.open(tmp_path / "run")
    (error,) = run.sql("select scene, error from errors").to_pylist()
    assert error == {"scene": "a", "error": "bare/a has no target; there is nothing to segment"}
    assert run.sql("select min(iou) as least from rows").to_pylist() == [{"least": 1.0}]


@pytest.mark.parametrize(
    ("plan", "data", "sentence"),
    [
        (
            Plan("noc", (Spec("synthetic-oracle"),), (Spec("bare"),)),
            Bare({"a": []}, partitions=lambda: [np.ones((8, 8), np.int32)]),
            "'bare' has partitions and no targets",
        ),
        (
            Plan("seism", (Spec("quadtree"),), (Spec("bare"),), kind="method"),
            Bare({"a": [Target("box", Mask.box((8, 8), (2, 2), (6, 6)))]}),
            "'bare' has no human partitions",
        ),
    ],
)
def test_a_data_set_of_the_wrong_sort_is_refused(
    plan: Plan, data: Bare, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=sentence):
        run_plan(plan, tmp_path / "run", objects={"bare": data})
    assert not (tmp_path / "run").exists()


def test_measures_of_images_are_left_out_for_volumes_and_refused_if_requested(
    tmp_path: Path,
) -> None:
    plan = Plan("noc", (Spec("synthetic-oracle"),), (Spec("mini-volumes"),), rounds=1, limit=1)
    run_plan(plan, tmp_path / "run", workers=0)
    assert "boundary_iou" not in Run.open(tmp_path / "run").sql("select * from rows").column_names
    with pytest.raises(BadInput, match="'boundary-iou' is not defined for the data of dataset"):
        run_plan(replace(plan, measures=("boundary-iou",)), tmp_path / "other", workers=0)
    assert not (tmp_path / "other").exists()


def test_models_and_data_sets_are_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, str]] = []
    make = catalogue.Registry.make

    def counted(self: Any, spec: Any, **options: Any) -> Any:
        made.append((self.kind, str(spec)))
        return make(self, spec, **options)

    monkeypatch.setattr(catalogue.Registry, "make", counted)
    for _ in range(2):  # the second resumes, and compares fingerprints
        made.clear()
        assert run_plan(PLAN, tmp_path / "run", workers=0).failed == 0
        built = sorted(one for one in made if one[0] in ("model", catalogue.datasets.kind))
        assert built == sorted({*built})
        assert {name for _, name in built} == {"disc", "synthetic-noisy", "drawn"}

"""The `ray` executor: the same jobs as actors of a Ray cluster, one loaded model each.

Any actor, node or driver may die: a lost job goes to another actor, and a job file that was written
twice holds the same rows under the same name. Jobs go to running actors, never to one that waits
for resources, so a cluster that shrinks slows a run down and does not stop it.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from segmeter import __version__
from segmeter.core.errors import BadInput, SegmeterError, first_line
from segmeter.core.plans import Job, Plan
from segmeter.engine.executors import AHEAD, ExecutorSpec, check_shared
from segmeter.engine.jobs import Built, Outcome, Worker
from segmeter.runtime.remote_files import Roots
from segmeter.store.storage import Place

_LOSSES = 3  # actors that may die at a job before it is the job's fault
_PER_GPU = 2  # actors: one finds clicks while the other's network works


@dataclass(frozen=True, slots=True)
class Workplace:
    """The working directory of an actor: the driver's folder, or a copy of the files it needs.

    Names in a plan are relative to where the command was typed. A node that has that folder
    works in it; any other gets the plan's Python files in a folder of its own.
    """

    folder: str
    files: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan) -> Workplace:
        """The folder this process is in, with the Python files that the plan names."""
        specs = (*plan.segmenters, *plan.datasets, *plan.users)
        names = [spec.name for spec in specs] + [plan.benchmark, *plan.measures]
        paths = sorted({name.rpartition(":")[0] for name in names if ".py:" in name})
        return cls(os.getcwd(), {path: Path(path).read_bytes() for path in paths})

    def enter(self) -> None:
        """Go where every file of the plan is what it was at the driver's."""
        if Path(self.folder).is_dir():
            os.chdir(self.folder)
            here = {path: Path(path).read_bytes() for path in self.files if Path(path).is_file()}
            if here == self.files:
                return
        if any(Path(path).is_absolute() or ".." in Path(path).parts for path in self.files):
            raise BadInput(
                f"not every node has {', '.join(self.files)}; name files relative to your folder"
            )
        # A new folder: files in it will be executed.
        os.chdir(tempfile.mkdtemp(prefix="segmeter-"))
        for path, source in self.files.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(source)


class _Actor:
    """A worker on a node; `begin` starts it and returns a message."""

    def __init__(self, plan: Plan, run: Place, roots: Roots, place: Workplace) -> None:
        self._given = (plan, run, roots)
        self._place = place
        self._worker: Worker | None = None

    def begin(self, version: str) -> str:
        """Get ready; returns an empty text, or why this node cannot work."""
        try:
            if version != __version__:
                raise BadInput(f"it has segmeter {__version__}, the driver {version}")
            self._place.enter()
            plan, run, roots = self._given
            if not run.exists("plan.json"):
                seen = f"it does not see '{run.address}'"
                raise BadInput(f"{seen}; take a shared folder or an address")
            self._worker = Worker(plan, run, Built(roots), plan.threads)
        except SegmeterError as error:
            return f"node '{os.uname().nodename}' cannot work: {error}"
        return ""

    def read_ahead(self, job: Job) -> None:
        if self._worker is not None:
            self._worker.read_ahead(job)

    def do(self, job: Job) -> Outcome:
        if self._worker is None:
            raise RuntimeError("an actor was given a job before it was set up")
        return self._worker.do(job)


@dataclass(slots=True, eq=False)
class _Slot:
    """The driver's record of an actor: whether it is up, and its jobs."""

    actor: Any
    starting: Any  # reference to the answer of `begin`; None once it is up
    jobs: deque[tuple[Job, Any]] = field(default_factory=deque)

    def awaited(self) -> Any:
        """The next reference that is ready, if any."""
        if self.starting is not None:
            return self.starting
        return self.jobs[0][1] if self.jobs else None


class RayExecutor:
    """Actors on all nodes of a cluster: two for each GPU, or one for every `threads` cores.

    At most as many as `spec` has workers; the cluster's own room is the other limit.
    """

    def __init__(self, spec: ExecutorSpec) -> None:
        check_shared(spec)
        self._ours = _connect(spec.address)
        plan = spec.plan
        self._given = (plan, spec.run, spec.built.roots, Workplace.of(plan))
        places, share = _places(plan)
        self._make = ray.remote(concurrency_groups={"protocol": 1}, **share)(_Actor)
        self._losses: Counter[str] = Counter()
        self._again: deque[Job] = deque()
        self._slots = [self._start() for _ in range(min(places, spec.workers))]

    @property
    def room(self) -> int:
        up = sum(AHEAD - len(slot.jobs) for slot in self._slots if slot.starting is None)
        return max(0, up - len(self._again))

    def submit(self, job: Job) -> None:
        """To the actor with the fewest jobs, of those that are up."""
        slot = min((s for s in self._slots if s.starting is None), key=lambda s: len(s.jobs))
        slot.actor.read_ahead.options(concurrency_group="protocol").remote(job)
        slot.jobs.append((job, slot.actor.do.remote(job)))

    def finished(self) -> list[Outcome]:
        """Jobs that ended; none where an actor came up or was lost instead."""
        awaited = {ref: slot for slot in self._slots if (ref := slot.awaited()) is not None}
        ready, _ = ray.wait(list(awaited), num_returns=1)
        outcomes = [o for ref in ready for o in self._outcomes(awaited[ref], ref)]
        while self._again and any(s.starting is None for s in self._slots):
            self.submit(self._again.popleft())
        return outcomes

    def stop(self) -> None:
        """End our actors; the cluster stays unless this process started it."""
        for slot in self._slots:
            ray.kill(slot.actor)
        self._slots = []
        if self._ours:
            ray.shutdown()

    def _start(self) -> _Slot:
        actor = self._make.remote(*self._given)
        return _Slot(actor, actor.begin.remote(__version__))

    def _outcomes(self, slot: _Slot, ref: Any) -> list[Outcome]:
        try:
            answer = ray.get(ref)
        except RayError as error:
            return self._lost(slot, error)
        if slot.starting is None:
            slot.jobs.popleft()
            return [answer]
        if answer:
            raise SegmeterError(answer)
        slot.starting = None
        return []

    def _lost(self, slot: _Slot, error: RayError) -> list[Outcome]:
        """Replace a dead actor; its jobs go to others, the one it was at a few times only."""
        with suppress(RayError):
            ray.kill(slot.actor)
        jobs = [job for job, _ in slot.jobs]
        self._slots[self._slots.index(slot)] = self._start()
        if not jobs:
            return []
        self._losses[jobs[0].id] += 1
        if self._losses[jobs[0].id] < _LOSSES:
            self._again.extend(jobs)
            return []
        self._again.extend(jobs[1:])
        why = f"actors that tried it died, {_LOSSES} in all: {first_line(error)}"
        return [Outcome(jobs[0], why, str(error))]


def _connect(address: str | None) -> bool:
    """Join the cluster at an address, or start one here; whether it is ours to end."""
    if ray.is_initialized():
        return False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = f"no Ray cluster answers at '{address}'" if address else "Ray cannot be started"
        raise BadInput(f"{where}: {first_line(error)}") from error
    return True


def _places(plan: Plan) -> tuple[int, dict[str, float]]:
    """How many actors fit on the cluster, and the resources of each."""
    have = ray.cluster_resources()
    gpus = int(have.get("GPU", 0)) if plan.kind == "model" else 0
    if gpus:
        return _PER_GPU * gpus, {"num_gpus": 1 / _PER_GPU, "num_cpus": 0}
    return max(1, int(have.get("CPU", 0)) // plan.threads), {"num_cpus": plan.threads}

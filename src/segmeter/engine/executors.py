"""Executors: run jobs in this process, in worker processes or on a Ray cluster."""

from __future__ import annotations

import importlib.metadata
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Protocol

from segmeter.core.errors import BadInput, NotFound, suggestion
from segmeter.core.plans import Job, Plan
from segmeter.engine.jobs import Built, Outcome, Worker
from segmeter.runtime.remote_files import Roots
from segmeter.runtime.workers_and_devices import PrewarmedWorkers, Process, end_all, usable_cores
from segmeter.store.storage import Address, Place

_GROUP = "segmeter.executors"
AHEAD = 2  # jobs at a worker: one being done, one whose image is being read


class Executor(Protocol):
    @property
    def room(self) -> int:
        """How many more jobs may be submitted now."""

    def submit(self, job: Job) -> None:
        """Take a job; only where there is room."""

    def finished(self) -> list[Outcome]:
        """Wait for at least one job to end."""

    def stop(self) -> None:
        """End all work at once; finished work is kept."""


@dataclass(frozen=True, slots=True)
class ExecutorSpec:
    """The arguments of an executor: a plan, the place of its rows, the number of workers.

    `prewarmed` are processes that were started before the plan was whole; local workers are among
    them as long as there are any.
    """

    plan: Plan
    run: Place
    built: Built
    workers: int = 0
    address: str | None = None  # of a cluster, for executors that work on one
    prewarmed: PrewarmedWorkers | None = None


def executor_names() -> list[str]:
    """All executors that can be named: our own, and those that are installed."""
    installed = importlib.metadata.entry_points(group=_GROUP)
    return sorted({*_OWN, *(point.name for point in installed)})


def executor_named(name: str | None, spec: ExecutorSpec) -> Executor:
    """The executor of a name; without one `local` where there are workers, else `inline`.

    An address of a cluster without a name is one of Ray's.

    Another package offers its own as an entry point of the group `segmeter.executors`: a
    function from `ExecutorSpec` to an executor.
    """
    if spec.address and name in ("inline", "local"):
        raise BadInput(f"executor '{name}' works on this machine; leave --ray-address out")
    name = name or ("ray" if spec.address else None)
    chosen = name or ("local" if spec.workers and spec.run.shared else "inline")
    if chosen in _OWN:
        return _OWN[chosen](spec)
    for point in importlib.metadata.entry_points(group=_GROUP, name=chosen):
        made: Executor = point.load()(spec)
        return made
    hint, known = suggestion(chosen, executor_names()), ", ".join(executor_names())
    raise NotFound(f"no executor '{chosen}';{hint} there are {known}")


def check_shared(spec: ExecutorSpec) -> None:
    """Refuse a run in memory and objects of the caller, which cannot leave this process."""
    if not spec.run.shared:
        raise BadInput(
            f"'{spec.run.address}' is in the memory of one process; use --executor inline"
        )
    if spec.built.own:
        raise BadInput("your own objects cannot be sent to workers; use executor inline")


class Inline:
    """Runs jobs in this process: for tests, notebooks and objects that cannot be pickled."""

    def __init__(self, spec: ExecutorSpec) -> None:
        self._worker = Worker(spec.plan, spec.run, spec.built, usable_cores())
        self._waiting: deque[Job] = deque()

    @property
    def room(self) -> int:
        return AHEAD - len(self._waiting)

    def submit(self, job: Job) -> None:
        self._worker.read_ahead(job)
        self._waiting.append(job)

    def finished(self) -> list[Outcome]:
        return [self._worker.do(self._waiting.popleft())]

    def stop(self) -> None:
        self._waiting.clear()


@dataclass(slots=True)
class _Worker:
    own: Process
    jobs: deque[Job] = field(default_factory=deque)


class Local:
    """Worker processes on this machine, each with its own model."""

    def __init__(self, spec: ExecutorSpec) -> None:
        check_shared(spec)
        workers = max(1, spec.workers)
        self._given = (spec.plan, spec.run, spec.built.roots, max(1, usable_cores() // workers))
        self._waiting = spec.prewarmed or PrewarmedWorkers(0)
        self._workers = [self._start(slot) for slot in range(workers)]

    def _start(self, slot: int) -> _Worker:
        process = self._waiting.taken(slot)
        process.assign(_work, *self._given)
        return _Worker(process)

    @property
    def room(self) -> int:
        return sum(AHEAD - len(worker.jobs) for worker in self._workers)

    def submit(self, job: Job) -> None:
        """To the worker with the fewest jobs."""
        worker = min(self._workers, key=lambda w: len(w.jobs))
        worker.jobs.append(job)
        # A dead worker cannot take it; `finished` notices and names the job.
        with suppress(BrokenPipeError, ConnectionResetError):
            worker.own.pipe.send(job)

    def finished(self) -> list[Outcome]:
        busy = [worker for worker in self._workers if worker.jobs]
        ready = wait([worker.own.pipe for worker in busy])
        return [self._receive(worker) for worker in busy if worker.own.pipe in ready]

    def stop(self) -> None:
        end_all([worker.own for worker in self._workers])

    def _receive(self, worker: _Worker) -> Outcome:
        """The outcome that a worker sent, or, if it died, the failure of its current job."""
        with suppress(EOFError, ConnectionResetError):
            outcome: Outcome = worker.own.pipe.recv()
            worker.jobs.remove(outcome.job)
            return outcome
        worker.own.process.join()
        worker.own.pipe.close()
        lost, *unbegun = worker.jobs
        slot = self._workers.index(worker)
        self._workers[slot] = self._start(slot)
        for job in unbegun:
            self.submit(job)
        code = worker.own.process.exitcode
        return Outcome(lost, f"the worker died (exit code {code})", retryable=True)


def _work(pipe: Connection, plan: Plan, run: Address | Place, roots: Roots, cores: int) -> None:
    """The loop of a worker process: receive jobs, read their scenes ahead, send outcomes."""
    worker = Worker(plan, run, Built(roots), cores)
    jobs: deque[Job] = deque()
    while True:
        while not jobs or pipe.poll():
            try:
                jobs.append(pipe.recv())
            except EOFError:
                return
            worker.read_ahead(jobs[-1])
        pipe.send(worker.do(jobs.popleft()))


def _ray(spec: ExecutorSpec) -> Executor:
    """Actors of a Ray cluster; Ray is imported only when needed."""
    try:
        from segmeter.engine.ray_executor import RayExecutor
    except ModuleNotFoundError as error:
        raise NotFound("executor 'ray' needs Ray: pip install 'segmeter[ray]'") from error
    return RayExecutor(spec)


_OWN: dict[str, Callable[[ExecutorSpec], Executor]] = {
    "inline": Inline,
    "local": Local,
    "ray": _ray,
}

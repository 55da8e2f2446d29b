"""Executors: where jobs are done. Three verbs: submit a job, take finished ones, stop."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Protocol

from segmeter.core.errors import BadInput, NotFound, suggestion
from segmeter.core.plans import Job, Plan, Roots
from segmeter.core.threads import usable_cores
from segmeter.engine.jobs import Objects, Outcome, Worker
from segmeter.store.places import Address, Place

__all__ = ["Executor", "Inline", "Local", "Seats", "executor_named", "executor_names"]

_GROUP = "segmeter.executors"
_PATIENCE_S = 10.0  # for a worker that was told to stop
_AHEAD = 2  # jobs at a worker: one being done, one whose picture is being read


class Executor(Protocol):
    """What the engine needs of a place to work."""

    @property
    def room(self) -> int:
        """How many more jobs may be submitted now."""
        ...

    def submit(self, job: Job) -> None: ...

    def finished(self) -> list[Outcome]:
        """Wait for at least one job to end."""
        ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Seats:
    """What an executor is made for: a plan, where its rows go, and how many may work at it."""

    plan: Plan
    run: Place
    roots: Roots
    objects: Objects | None = None
    workers: int = 0
    address: str | None = None  # of a cluster, for executors that work on one


def executor_names() -> list[str]:
    """All executors that can be named: our own, and those that are installed."""
    installed = importlib.metadata.entry_points(group=_GROUP)
    return sorted({*_OWN, *(point.name for point in installed)})


def executor_named(name: str | None, seats: Seats) -> Executor:
    """The executor of a name; without one `local` where there are workers, else `inline`.

    An address of a cluster without a name is one of Ray's.

    Another package offers its own as an entry point of the group `segmeter.executors`: a
    function from `Seats` to an executor.
    """
    if seats.address and name in ("inline", "local"):
        raise BadInput(f"executor '{name}' works on this machine; leave --address out")
    name = name or ("ray" if seats.address else None)
    chosen = name or ("local" if seats.workers and seats.run.shared else "inline")
    if chosen in _OWN:
        return _OWN[chosen](seats)
    for point in importlib.metadata.entry_points(group=_GROUP):
        if point.name == chosen:
            made: Executor = point.load()(seats)
            return made
    hint, known = suggestion(chosen, executor_names()), ", ".join(executor_names())
    raise NotFound(f"no executor '{chosen}';{hint} there are {known}")


class Inline:
    """Works in this very process: for tests, notebooks and objects that cannot travel."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._waiting: deque[Job] = deque()

    @classmethod
    def of(cls, seats: Seats) -> Inline:
        return cls(Worker(seats.plan, seats.run, seats.roots, seats.objects, usable_cores()))

    @property
    def room(self) -> int:
        return _AHEAD - len(self._waiting)

    def submit(self, job: Job) -> None:
        self._worker.read_ahead(job)
        self._waiting.append(job)

    def finished(self) -> list[Outcome]:
        return [self._worker.do(self._waiting.popleft())]

    def stop(self) -> None:
        self._waiting.clear()


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    jobs: deque[Job] = field(default_factory=deque)


class Local:
    """Worker processes on this machine, each with its own model."""

    def __init__(self, plan: Plan, run: Address | Place, roots: Roots, workers: int) -> None:
        share = max(1, usable_cores() // workers)
        self._start: Callable[[int], _Worker] = lambda seat: _start_worker(
            plan, run, roots, seat, share
        )
        self._workers = [self._start(seat) for seat in range(workers)]

    @classmethod
    def of(cls, seats: Seats) -> Local:
        if not seats.run.shared:
            raise BadInput(
                f"'{seats.run.address}' lies in the memory of one process; take --executor inline"
            )
        if seats.objects:
            raise BadInput("objects of your own cannot travel to workers; take executor inline")
        return cls(seats.plan, seats.run, seats.roots, max(1, seats.workers))

    @property
    def room(self) -> int:
        return sum(_AHEAD - len(worker.jobs) for worker in self._workers)

    def submit(self, job: Job) -> None:
        """To the worker with the fewest jobs."""
        worker = min(self._workers, key=lambda w: len(w.jobs))
        worker.jobs.append(job)
        # A dead worker cannot take it; `finished` notices and names the job.
        with suppress(BrokenPipeError, ConnectionResetError):
            worker.pipe.send(job)

    def finished(self) -> list[Outcome]:
        busy = [worker for worker in self._workers if worker.jobs]
        ready = wait([worker.pipe for worker in busy])
        return [o for worker in busy if worker.pipe in ready for o in self._receive(worker)]

    def stop(self) -> None:
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(_PATIENCE_S)
            if worker.process.is_alive():  # deep in a library that does not hear
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()

    def _receive(self, worker: _Worker) -> list[Outcome]:
        """A worker's report, or, if it died, the loss of the job it was at."""
        try:
            outcome: Outcome = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            return self._replace(worker)
        worker.jobs.remove(outcome.job)
        return [outcome]

    def _replace(self, dead: _Worker) -> list[Outcome]:
        dead.process.join()
        dead.pipe.close()
        lost, *unbegun = dead.jobs
        seat = self._workers.index(dead)
        self._workers[seat] = self._start(seat)
        for job in unbegun:
            self.submit(job)
        code = dead.process.exitcode
        return [Outcome(lost, f"the worker died (exit code {code})", retryable=True)]


def _start_worker(plan: Plan, run: Address | Place, roots: Roots, seat: int, cores: int) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    given = (plan, run, roots, seat, cores, theirs)
    process = context.Process(target=_work, args=given, daemon=True)
    with _interrupts_held():
        process.start()
    theirs.close()
    return _Worker(process, ours)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits: a worker born now never hears it, whatever it is still importing."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(
    plan: Plan, run: Address | Place, roots: Roots, seat: int, cores: int, pipe: Connection
) -> None:
    """A worker's life: take jobs, read ahead, report."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    _die_with_parent()
    _take_gpu(seat)
    worker = Worker(plan, run, roots, cores=cores)
    jobs: deque[Job] = deque()
    while True:
        while not jobs or pipe.poll():
            try:
                jobs.append(pipe.recv())
            except EOFError:
                return
            worker.read_ahead(jobs[-1])
        pipe.send(worker.do(jobs.popleft()))


def _take_gpu(seat: int) -> None:
    """Share the GPUs out among the workers, in turn."""
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    if torch.cuda.is_available():
        torch.cuda.set_device(seat % torch.cuda.device_count())


def _die_with_parent() -> None:
    """Leave at once when the parent is killed, so that no job is done twice."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _ray(seats: Seats) -> Executor:
    """Actors of a Ray cluster; Ray is imported only when it is asked for."""
    try:
        from segmeter.engine.ray_executor import ray_executor
    except ModuleNotFoundError as error:
        raise NotFound("executor 'ray' needs Ray: pip install 'segmeter[ray]'") from error
    return ray_executor(seats)


_OWN: dict[str, Callable[[Seats], Executor]] = {
    "inline": Inline.of,
    "local": Local.of,
    "ray": _ray,
}

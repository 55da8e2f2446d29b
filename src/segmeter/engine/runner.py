"""The runner: submits the remaining jobs of a plan to an executor."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from segmeter.core.errors import SegmeterError
from segmeter.core.plans import Job, Plan
from segmeter.core.scenes import Dataset
from segmeter.engine.executors import Executor, ExecutorSpec, executor_named
from segmeter.engine.jobs import Built, Objects, Outcome, jobs_of
from segmeter.engine.provenance import command_entry
from segmeter.engine.resuming import finished_before
from segmeter.engine.validation import check_received, complete, wider_plan
from segmeter.runtime.fingerprints import fingerprinted
from segmeter.runtime.remote_files import Roots
from segmeter.runtime.workers_and_devices import PrewarmedWorkers, gpu_names, usable_cores
from segmeter.store.compaction import LOOSE, compact, drop_copies, extract
from segmeter.store.folder import RunFolder
from segmeter.store.storage import Address, Place

_TRIES = 2
_COMPACTED = ("jobs", "errors")


class Progress(Protocol):
    """Receives progress: how many jobs there are and were done before, then each that ends."""

    def begin(self, total: int, done: int) -> None: ...

    def step(self, outcome: Outcome) -> None: ...

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of a command: jobs done now, done before, failed."""

    done: int
    before: int
    failed: int


def run_plan(
    plan: Plan,
    out: Address | Place,
    *,
    roots: Roots | None = None,
    workers: int | None = None,
    objects: Objects | None = None,
    progress: Progress | None = None,
    again: bool = False,
    add: bool = False,
    trust: bool = False,
    executor: str | None = None,
    address: str | None = None,
    shard: tuple[int, int] = (1, 1),
    tell: Callable[[str], None] = lambda sentence: None,
    prewarmed: PrewarmedWorkers | None = None,
) -> Tally:
    """Run a plan into a folder or an address, or resume where an earlier command stopped.

    Parameters
    ----------
    workers, objects
        Processes, which have no influence on the results; 0 works in this one (on a cluster, in
        as many as fit), as do models, methods and datasets of your own, by the names that the plan
        uses.
    again
        Re-run jobs whose model has other weights or other code now.
    add, trust
        Widen an existing run by what the plan names, and run that; only with `trust` may that run
        name Python files and addresses which the plan does not.
    executor, address
        Who does the jobs, by name, and the Ray cluster that does; by default `workers` decide.
    shard
        Which of how many shards of the jobs to run, for several machines with a run each.
    prewarmed
        Processes started already, to be used as workers.
    """
    built, added = Built(roots, objects), plan if add else None
    with _claimed(plan, out, built, add, trust) as (folder, plan, datasets):
        jobs = jobs_of(plan, datasets)
        finished = finished_before(folder, jobs, plan, built, tell, again, added, trust)
        ours = jobs[shard[0] - 1 :: shard[1]]
        left = [job for job in ours if job.id not in finished]
        if executor == "ray" or address:
            workers = workers or len(left)  # a cluster's own room is the limit
        elif workers is None:
            workers = default_workers(plan)
        count = 0 if objects else min(workers, len(left))
        spec = ExecutorSpec(plan, folder.place, built, count, address, prewarmed)
        working = executor_named(executor, spec)
        before = len(ours) - len(left)
        try:  # from here on nothing is refused
            if add:
                folder.place.put("plan.json", plan.to_json().encode())
            folder.sign({**command_entry(), "jobs": len(jobs), "jobs_left": len(left)})
            done, failed = _run_jobs(left, before, folder, working, progress, tell)
        finally:
            working.stop()
    return Tally(done, before, failed)


@contextmanager
def _claimed(
    plan: Plan, out: Address | Place, built: Built, add: bool, trust: bool
) -> Iterator[tuple[RunFolder, Plan, dict[str, Dataset]]]:
    """The folder to write to, its complete plan and datasets; locked until the jobs are done."""
    data = {spec.name for spec in plan.datasets}
    own = [thing for name, thing in built.own.items() if name not in data]
    if not add:
        with fingerprinted(own):
            plan, datasets = complete(plan, built)
            with RunFolder.claimed(out, plan) as folder:
                yield folder, plan, datasets
        return
    folder = RunFolder.existing(out)
    # Locked from reading the plan on: two commands at once would lose one's models.
    with fingerprinted(own), folder.locked():
        held = folder.plan
        if not trust:  # models of the run are checked once it is known which have jobs left
            models = () if plan.segmenters else held.segmenters
            check_received(replace(held, segmenters=models), plan)
        plan, datasets = wider_plan(held, plan, built, folder.address)
        yield folder, plan, datasets


def free_folder(plan: Plan, roots: Roots, objects: Objects | None) -> Path:
    """The default run folder: `runs/<benchmark>-<n>`.

    The newest of them is resumed if it has the same plan, else the next number is used.
    """
    base, stem = Path("runs"), f"{plan.benchmark}-"
    numbers = [
        int(tail) for p in base.glob(f"{stem}*") if (tail := p.name.removeprefix(stem)).isdecimal()
    ]
    if not numbers:
        return base / f"{stem}1"
    newest = base / f"{stem}{max(numbers)}"
    if (newest / "plan.json").is_file():
        filled, _ = complete(plan, Built(roots, objects))
        if RunFolder.existing(newest).plan == filled:
            return newest
    return base / f"{stem}{max(numbers) + 1}"


def default_workers(plan: Plan) -> int:
    """Two processes per GPU, so that one finds clicks while the other's network works; else one
    for every `threads` cores, at most four."""
    if plan.kind == "model" and gpu_names():
        return 2 * len(gpu_names())
    return max(1, min(4, usable_cores() // plan.threads))


def _run_jobs(
    left: list[Job],
    before: int,
    folder: RunFolder,
    executor: Executor,
    progress: Progress | None,
    tell: Callable[[str], None],
) -> tuple[int, int]:
    """Submit and collect jobs, retry those that may succeed; done and failed jobs."""
    if progress is not None:
        progress.begin(before + len(left), before)
    jobs = frozenset(job.id for job in left)
    drop_copies(folder)
    for where in _COMPACTED:  # workers replace jobs: their rows and errors go to job files
        extract(folder, jobs, where)
    compaction = BackgroundCompaction(folder, jobs, tell)
    waiting, tries = deque(left), Counter[str]()
    running = done = failed = 0
    try:
        while waiting or running:
            while waiting and executor.room > 0:
                executor.submit(waiting.popleft())
                running += 1
            finished = executor.finished()
            folder.check_lease()
            for outcome in finished:
                running -= 1
                if outcome.fatal:
                    raise SegmeterError(outcome.error)
                job = outcome.job
                tries[job.id] += 1
                if outcome.error and outcome.retryable and tries[job.id] < _TRIES:
                    waiting.append(job)
                    continue
                if outcome.error:
                    folder.fail(job, outcome.error, outcome.detail)
                    failed += 1
                else:
                    done += 1
                compaction.settled(job.id)
                if progress is not None:
                    progress.step(outcome)
        compaction.finish()
    finally:
        compaction.stop()
        if progress is not None:
            progress.end()
    return done, failed


class BackgroundCompaction:
    """A thread that compacts finished jobs; the process holds the lock of the run."""

    def __init__(
        self, folder: RunFolder, open_jobs: Iterable[str], tell: Callable[[str], None]
    ) -> None:
        self._folder, self._tell = folder, tell
        self._open, self._loose = set(open_jobs), 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="compaction")
        self._last = self._thread.submit(self._compact)

    def settled(self, job: str) -> None:
        """Note that a job is done or has failed twice, so that its files can be compacted."""
        self._open.discard(job)
        self._loose += 1
        if self._loose >= LOOSE and self._last.done() and self._last.result():
            self._last = self._thread.submit(self._compact)

    def finish(self) -> None:
        """Compact the rest, if it is much, after the last job."""
        self.stop()
        self._compact(closing=True)

    def stop(self) -> None:
        """End after the current compaction."""
        self._thread.shutdown()

    def _compact(self, closing: bool = False) -> bool:
        """Compact; if that fails, report it and let the run continue."""
        self._loose = 0
        try:
            self._folder.check_lease()
            for where in _COMPACTED:
                compact(self._folder, where, set(self._open), closing=closing)
        except (SegmeterError, OSError) as error:
            self._tell(f"jobs could not be compacted and stay in files of their own: {error}")
            return False
        return True

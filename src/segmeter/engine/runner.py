"""The runner: what is left of a plan goes to an executor until nothing is."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from segmeter.core import catalogue
from segmeter.core.capabilities import ChecksData, ChoosesUsers, prompts_given_by
from segmeter.core.devices import gpu_names
from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.measures import Measure
from segmeter.core.plans import Job, Plan, Roots
from segmeter.core.processes import Early
from segmeter.core.redaction import refuse_credentials
from segmeter.core.scenes import Dataset, Volume
from segmeter.core.threads import usable_cores
from segmeter.core.users import User
from segmeter.engine.executors import Executor, Seats, executor_named
from segmeter.engine.jobs import Objects, Outcome, jobs_of
from segmeter.engine.packing import Packing, make_ready
from segmeter.engine.provenance import command_entry
from segmeter.engine.resuming import finished_before, subject_prints
from segmeter.store.folder import RunFolder
from segmeter.store.places import Address, Place

__all__ = ["Progress", "Tally", "complete", "default_workers", "run_plan"]

_TRIES = 2


class Progress(Protocol):
    """Somebody who wants to know how far a run is."""

    def begin(self, total: int, done: int) -> None: ...

    def step(self, outcome: Outcome) -> None: ...

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Tally:
    """What a command did: jobs done now, done before, failed."""

    done: int
    before: int
    failed: int


def complete(
    plan: Plan, roots: Roots, objects: Objects | None = None, *, to_play: bool = True
) -> tuple[Plan, dict[str, Dataset]]:
    """A request with the benchmark's own settings filled in, and its data sets.

    Makes everything that can be wrong go wrong now, before anything is written. What is
    tested has to be at hand only where it is `to_play`.
    """
    own = objects or {}
    _refuse_secrets(plan)
    benchmark = catalogue.benchmarks.make(plan.benchmark)
    asked = plan.measures
    plan = benchmark.plan(plan)
    if not plan.subjects:
        raise BadInput(f"nothing to test: name at least one {plan.kind} with --{plan.kind}")
    if not plan.datasets:
        raise BadInput("no data: name at least one data set with --dataset")
    users = [catalogue.users.make(spec, **roots.options()) for spec in plan.users]
    if to_play:
        _check_subjects(plan, roots, own, users)
    for kind, names in (
        (plan.kind, [str(spec) for spec in plan.subjects]),
        ("data set", [str(spec) for spec in plan.datasets]),
        ("user", [user.name for user in users]),
    ):
        _refuse_twins(kind, names)
    for name in plan.measures:
        catalogue.measures.entry(name)
    datasets = {
        str(spec): own.get(spec.name) or catalogue.datasets.make(spec, **roots.options())
        for spec in plan.datasets
    }
    if to_play:
        _check_truths(plan, datasets)
        plan = replace(plan, measures=_measures_that_fit(plan, asked, datasets))
    if isinstance(benchmark, ChecksData):
        benchmark.check(plan, datasets)
    prints = {name: dataset.fingerprint() for name, dataset in datasets.items()}
    return replace(plan, fingerprints=prints), datasets


def _refuse_secrets(plan: Plan) -> None:
    """A plan is kept and sent to others: no address in it may hold credentials."""
    given = (spec for specs in (plan.subjects, plan.datasets, plan.users) for spec in specs)
    values = (v for spec in given for v in (spec.name, *spec.options.values()))
    for value in (*values, *plan.options.values()):
        if isinstance(value, str):
            refuse_credentials(value)


def _check_subjects(plan: Plan, roots: Roots, own: Objects, users: Sequence[User]) -> None:
    """Refuse a model or method that cannot be had, before anything is written.

    Our own are made, which finds their weights and looks at no more than their headers. Those
    of other people's code may be dear to make: their name, options and verbs are looked at.
    """
    shelf = catalogue.models if plan.kind == "model" else catalogue.methods
    verb = "look" if plan.kind == "model" else "segment"
    for spec in plan.subjects:
        if spec.name in own:
            _check_prompts(plan, own[spec.name], users)
            continue
        entry, options = shelf.check(spec, **roots.options())
        if entry.source.startswith("segmeter."):
            _check_prompts(plan, entry.make(**options), users)
        elif isinstance(entry.make, type) and not hasattr(entry.make, verb):
            raise BadInput(f"'{spec.name}' is no {plan.kind}: it has no '{verb}(scene)'")


def _check_prompts(plan: Plan, subject: Any, users: Sequence[User]) -> None:
    """Refuse a model that does not take what a user gives, or what any of them gives."""
    benchmark = catalogue.benchmarks.make(plan.benchmark)
    if isinstance(benchmark, ChoosesUsers):
        users = benchmark.users_for(subject, users)
        if not users:
            raise BadInput(
                f"model '{subject.card.name}' takes nothing that the users of "
                f"'{plan.benchmark}' give; name one that fits with --user"
            )
    for user in users:
        strange = prompts_given_by(user) - subject.card.abilities
        if strange:
            kinds = "no " + " and no ".join(f"{kind} prompts" for kind in sorted(strange))
            raise BadInput(
                f"model '{subject.card.name}' takes {kinds}, which user '{user.name}' gives; "
                "leave one of them out"
            )


def _check_truths(plan: Plan, datasets: Mapping[str, Dataset]) -> None:
    """Refuse partitions where targets are wanted, and targets where partitions are.

    The first scene tells, if it can be read.
    """
    for name, dataset in datasets.items():
        try:
            scene = dataset.load(dataset.scenes()[0])
            targets, partitions = bool(scene.targets), bool(scene.partitions)
        except Exception:  # noqa: BLE001  its job will fail, and say why
            continue
        if plan.kind == "model" and partitions and not targets:
            raise BadInput(f"data set '{name}' has partitions and no targets; run seism on it")
        if plan.kind == "method" and targets and not partitions:
            raise BadInput(
                f"data set '{name}' has no partitions drawn by people; take one that has, "
                "such as bsds500"
            )


def _measures_that_fit(
    plan: Plan, asked: Sequence[str], datasets: Mapping[str, Dataset]
) -> tuple[str, ...]:
    """The plan's measures that are defined for its data.

    One that was asked for and is not defined is refused; a benchmark's own default is left out.
    """
    kept = []
    for measure in plan.measures:
        found = catalogue.measures.make(measure)
        misfit = next((name for name, d in datasets.items() if not _defined(found, d)), None)
        if misfit is None:
            kept.append(measure)
        elif measure in asked:
            raise BadInput(
                f"measure '{measure}' is not defined for what data set '{misfit}' holds; "
                "leave one of them out"
            )
    return tuple(kept)


def _defined(measure: Any, dataset: Dataset) -> bool:
    """Whether a measure is defined for a data set's scenes, of which the first tells."""
    if not isinstance(measure, Measure) or len(measure.dimensions) > 1:
        return True
    try:
        volume = isinstance(dataset.load(dataset.scenes()[0]), Volume)
    except Exception:  # noqa: BLE001  its job will fail, and say why
        return True
    return (3 if volume else 2) in measure.dimensions


def _refuse_twins(kind: str, names: Sequence[str]) -> None:
    """Rows are told apart by these names, so each may come once."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise BadInput(f"two {kind}s are called '{twice[0]}'; name each {kind} once")


def run_plan(
    plan: Plan,
    out: Address | Place,
    *,
    roots: Roots | None = None,
    workers: int | None = None,
    objects: Objects | None = None,
    progress: Progress | None = None,
    command: Mapping[str, Any] | None = None,
    again: bool = False,
    executor: str | None = None,
    address: str | None = None,
    share: tuple[int, int] = (1, 1),
    tell: Callable[[str], None] = lambda sentence: None,
    early: Early | None = None,
    soonest: Sequence[str] = (),
) -> Tally:
    """Run a plan into a folder or an address, or go on where an earlier command stopped.

    Parameters
    ----------
    workers
        Processes; 0 works in this one. Has no influence on the results.
    objects
        Models, methods or data sets of your own by the name the plan uses; implies 0 workers.
    again
        Play jobs anew that were played with other weights or another source than are here now.
    executor
        Who does the jobs, by name; chosen by the number of workers unless given.
    address
        Of the Ray cluster that does them.
    share
        Which of how many shares of the jobs to play, for several machines with a run each.
    tell
        Told what a person should know, such as which parts were damaged.
    early
        Processes that wake already; local workers are among them.
    soonest
        Scenes that are played before the others, so that somebody who waits sees rows.
    """
    roots = roots or Roots()
    plan, datasets = complete(plan, roots, objects)
    with RunFolder.claimed(out, plan) as folder:
        jobs = jobs_of(plan, datasets)
        prints = subject_prints(plan, roots, objects)
        done_before = finished_before(folder, jobs, prints, plan, again)
        for sentence in done_before.said:
            tell(sentence)
        folder.sign({**(command or command_entry()), "jobs": len(jobs)})
        ours = jobs[share[0] - 1 :: share[1]]
        left = [job for job in ours if job.id not in done_before.ids]
        left.sort(key=lambda job: job.scene not in soonest)
        if progress:
            progress.begin(len(ours), len(ours) - len(left))
        own = len(left) if executor == "ray" or address else default_workers(plan)
        count = 0 if objects else own if workers is None else workers
        seats = Seats(plan, folder.place, roots, objects, min(count, len(left)), address, early)
        make_ready(folder, (job.id for job in left))
        working = executor_named(executor, seats)
        packing = Packing(folder, (job.id for job in left), tell)
        try:
            done, failed = _drive(left, working, folder, progress, packing)
            packing.finish()
        finally:
            working.stop()
            packing.stop()
            if progress:
                progress.end()
    return Tally(done, len(ours) - len(left), failed)


def default_workers(plan: Plan) -> int:
    """Two processes per GPU, so that one finds clicks while the other's network works; else one
    for every `threads` cores, at most four."""
    if plan.kind == "model" and gpu_names():
        return 2 * len(gpu_names())
    return max(1, min(4, usable_cores() // plan.threads))


def _drive(
    left: list[Job],
    executor: Executor,
    folder: RunFolder,
    progress: Progress | None,
    packing: Packing,
) -> tuple[int, int]:
    """Submit, take back, try once more what may be mended; done and failed jobs."""
    waiting = deque(left)
    tries: dict[str, int] = {}
    running = done = failed = 0
    settle: Callable[[Outcome], None] = progress.step if progress else lambda outcome: None
    while waiting or running:
        while waiting and executor.room > 0:
            executor.submit(waiting.popleft())
            running += 1
        for outcome in executor.finished():
            running -= 1
            if outcome.fatal:
                raise SegmeterError(outcome.error)
            job = outcome.job
            tries[job.id] = tries.get(job.id, 0) + 1
            if outcome.error and outcome.retryable and tries[job.id] < _TRIES:
                waiting.append(job)
                continue
            if outcome.error:
                folder.fail(job, outcome.error, outcome.detail)
                failed += 1
            else:
                done += 1
                packing.settled(job.id)
            settle(outcome)
    return done, failed

"""Resuming: which jobs of a run are finished, and with which weights and source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import RunConflict
from segmeter.core.plans import Job, Plan
from segmeter.engine.jobs import Built, lacking_users, rows_schema, source_of
from segmeter.engine.validation import check_received
from segmeter.runtime.fingerprints import UNKNOWN
from segmeter.runtime.workers_and_devices import usable_cores
from segmeter.store.compacted_files import whole
from segmeter.store.compaction import salvage
from segmeter.store.folder import RunFolder
from segmeter.store.job_index import made_by
from segmeter.store.validated_rows import verified_files


def finished_before(
    folder: RunFolder,
    jobs: Sequence[Job],
    plan: Plan,
    built: Built,
    tell: Callable[[str], None],
    again: bool = False,
    added: Plan | None = None,
    trust: bool = False,
) -> frozenset[str]:
    """Check the files of a run before the first job; ids of the jobs that need not be run.

    A file that cannot be read, or holds other rows than those of its job, is moved to quarantine
    and the job is run again. Jobs that were run with other weights or another source are refused,
    or run again with `again`. Jobs that lack users of the plan are run for those users only.
    Where a plan is `added` to the run, a model that it does not name and that has no jobs left is
    not opened or compared; without `trust`, one that only the run names is not run.
    """
    _salvage(folder, tell)
    schema = rows_schema(catalogue.benchmarks.make(plan.benchmark), plan)
    alone = {job.id for job in jobs}.intersection(folder.layout().loose)
    found, _ = verified_files(folder, schema, only=alone)
    for job in jobs:
        name = f"{job.id}.parquet"
        if why := found.damaged.get(f"jobs/{name}"):
            folder.quarantine(name)
            tell(
                f"{folder.address}/jobs/{name} ({job}) is damaged: {why}; it was moved to "
                "'quarantine' and the job is run again"
            )
    # There may be copies of jobs that were moved to quarantine.
    held = [made for file in folder.layout().files for made in made_by(folder.place, file)]
    lacks = {
        key: bool(lacking_users(provenance, columns, plan))
        for key, (_, provenance, columns) in {id(made[1]): made for made in held}.items()
    }
    provenances = {job: provenance for job, provenance, _ in held}
    good = [(job, provenances[job.id]) for job in jobs if job.id in provenances]
    done = {job.id for job, provenance in good if not lacks[id(provenance)]}
    left = {str(job.segmenter): job.segmenter for job in jobs if job.id not in done}
    if added is not None and not again:
        compared = {*map(str, added.segmenters), *left}
        good = [(job, made) for job, made in good if str(job.segmenter) in compared]
    stale = _stale(good, plan, built)
    if stale and not again:
        raise RunConflict(_conflict(folder, stale, len(jobs)))
    left |= {str(job.segmenter): job.segmenter for job, _ in stale}
    if added is not None and not trust:
        check_received(replace(plan, segmenters=tuple(left.values())), added)
    return frozenset(done.difference(job.id for job, _ in stale))


def _salvage(folder: RunFolder, tell: Callable[[str], None]) -> None:
    """Check every compacted file as a whole, and save the readable jobs of damaged ones."""
    layout = folder.layout()
    jobs = {compacted.name: len(compacted.jobs) for compacted in layout.compacted_files}
    with ThreadPoolExecutor(usable_cores()) as pool:
        intact = pool.map(lambda name: whole(name, folder.place.read(f"jobs/{name}")), jobs)
        broken = [name for name, good in zip(jobs, intact, strict=True) if not good]
    for name in (*broken, *layout.damaged):
        lost = len(salvage(folder, name))
        many = f"{lost} of its {jobs[name]} jobs are" if name in jobs else "its jobs are"
        tell(
            f"{folder.address}/jobs/{name} is damaged; it was moved to 'quarantine' and {many} "
            "run again"
        )


def _stale(
    finished: Sequence[tuple[Job, Mapping[str, str]]], plan: Plan, built: Built
) -> list[tuple[Job, tuple[str, str, str]]]:
    """Job files made with other weights or code: what differs, then, now."""
    now: dict[int, dict[str, str]] = {}  # by model, of which all jobs share one
    found = []
    for job, provenance in finished:
        if id(job.segmenter) not in now:
            now[id(job.segmenter)] = _made_of(job.segmenter, plan, built)
        for what, today in now[id(job.segmenter)].items():
            if what in provenance and (provenance[what] != today or today == UNKNOWN):
                found.append((job, (what, provenance[what], today)))
                break
    return found


def _made_of(spec: Spec, plan: Plan, built: Built) -> dict[str, str]:
    """The weights and source of a model or method now."""
    if spec.name in built.own:
        own = built.own[spec.name]
        return {"fingerprint": own.card.fingerprint, "source": source_of(spec, own)}
    if ".py:" in spec.name:  # may be slow to make; its source is what may have changed
        return {"source": source_of(spec)}
    return {"fingerprint": built.segmenter(plan.kind, spec).card.fingerprint}


def _conflict(
    folder: RunFolder, stale: Sequence[tuple[Job, tuple[str, str, str]]], total: int
) -> str:
    job, (what, then, today) = stale[0]
    done = f"'{folder.address}' has {len(stale)} of {total} jobs that '{job.segmenter}' finished"
    todo = "--rerun-changed (rerun_changed=True in Python) re-runs them, another --out keeps them"
    if UNKNOWN in (then, today):
        return (
            f"{done} before, and whether it has changed since cannot be determined: it holds an "
            f"object without accessible state, such as a lock or a connection; {todo}"
        )
    thing = "other code or state" if what == "source" else "other weights"
    prints = f"fingerprint {then[:12] or 'none'}, now {today[:12] or 'none'}"
    return f"{done} with {thing} ({prints}); {todo}"

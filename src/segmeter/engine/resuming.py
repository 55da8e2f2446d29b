"""Resuming: which jobs of a run are finished, and with which weights and source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, RunConflict
from segmeter.core.plans import Job, Plan
from segmeter.engine.jobs import Built, lacking_users, rows_schema, source_of, users_left
from segmeter.runtime.fingerprints import UNKNOWN
from segmeter.runtime.processes import usable_cores
from segmeter.store.compacted_files import whole
from segmeter.store.compaction import salvage
from segmeter.store.folder import RunFolder
from segmeter.store.job_files import provenance_of, wrong_types
from segmeter.store.job_index import Layout
from segmeter.store.scanning import CHECKED, JOB_ROWS, faults_of

Prints = Mapping[str, Callable[[], dict[str, str]]]
"""By subject: what its weights and source are now, asked for only where something is compared."""


@dataclass(frozen=True, slots=True)
class FinishedBefore:
    """Ids of the jobs that need not be run, and messages about what was found."""

    ids: frozenset[str]
    said: tuple[str, ...] = ()


def segmenter_prints(plan: Plan, built: Built) -> Prints:
    """Functions that return what each model or method is made of now."""
    own = built.own

    def printed(spec: catalogue.Spec) -> dict[str, str]:
        if spec.name in own:
            source = source_of(spec, own[spec.name])
            return {"fingerprint": own[spec.name].card.fingerprint, "source": source}
        if ".py:" in spec.name:  # may be dear to make; its source is what may have changed
            return {"source": source_of(spec)}
        return {"fingerprint": built.segmenter(plan.kind, spec).card.fingerprint}

    return {str(spec): lambda spec=spec: printed(spec) for spec in plan.segmenters}  # type: ignore[misc]  # mypy cannot type a default in a lambda


def finished_before(
    folder: RunFolder,
    jobs: Sequence[Job],
    prints: Prints,
    plan: Plan,
    *,
    again: bool = False,
    named: Collection[str] | None = None,
) -> FinishedBefore:
    """Check the files of a run before the first job: which jobs need not be run.

    A file that cannot be read, or holds other rows than those of its job, is moved to quarantine
    and the job is run again. Jobs that were run with other weights or another source are refused,
    or run again with `again`. Jobs that lack users of the plan are run for those users only.
    With `named`, a model that is not among them and has no jobs left is not opened or compared.
    """
    said = _salvaged(folder)
    layout, good_jobs = folder.layout(), []
    loose = set(layout.loose)
    alone = [job for job in jobs if job.id in loose]
    for job, found in zip(alone, _loose(folder, alone, plan), strict=True):
        if isinstance(found, str):
            folder.quarantine(f"{job.id}.parquet")
            said.append(_damaged(folder, job, found))
        else:
            good_jobs.append((job, found))
    layout = folder.layout()  # there may be copies of jobs that were moved to quarantine
    good_jobs += _compacted(folder, layout, jobs, plan)
    done = {job.id for job, t in good_jobs if not t.lacks}
    compared = {*(named or ()), *(str(job.segmenter) for job in jobs if job.id not in done)}
    stale = _stale(
        [(j, t.provenance) for j, t in good_jobs if named is None or str(j.segmenter) in compared],
        prints,
    )
    if stale and not again:
        raise RunConflict(_conflict(folder, stale, len(jobs)))
    spoilt = {job.id for job, _ in stale}.union(job.id for job, t in good_jobs if t.lacks)
    return FinishedBefore(frozenset(j.id for j, _ in good_jobs if j.id not in spoilt), tuple(said))


@dataclass(frozen=True, slots=True)
class _Checked:
    """The provenance of a job, and whether it lacks users of the plan."""

    provenance: Mapping[str, str]
    lacks: bool


def _loose(folder: RunFolder, jobs: Sequence[Job], plan: Plan) -> list[_Checked | str]:
    """Of each job with a file of its own, its provenance or what is wrong with its rows."""
    schema = rows_schema(catalogue.benchmarks.make(plan.benchmark), plan) or JOB_ROWS
    checked = {*schema.key, *CHECKED}

    def checked_rows(job: Job) -> tuple[_Checked | str, Any]:
        try:
            table = folder.rows(job)
        except BadInput as error:
            return str(error), None
        wrong = wrong_types(table.schema, schema)
        if wrong:
            return wrong, None
        light = table.select([name for name in table.column_names if name in checked])
        return _Checked(provenance_of(table.schema), bool(lacking_users(table, plan))), light

    with ThreadPoolExecutor(usable_cores()) as pool:
        found = list(pool.map(checked_rows, jobs))
    tables = [(job.id, t) for job, (_, t) in zip(jobs, found, strict=True) if t is not None]
    wrong = dict(zip((job for job, _ in tables), faults_of(tables, schema), strict=True))
    return [wrong.get(j.id) or state for j, (state, _) in zip(jobs, found, strict=True)]


def _compacted(
    folder: RunFolder, layout: Layout, jobs: Sequence[Job], plan: Plan
) -> list[tuple[Job, _Checked]]:
    """The same for jobs in compacted files, by their footers."""
    provenances, columns = dict[str, Mapping[str, str]](), dict[int, list[str]]()
    for compacted in layout.compacted_files:
        provenances |= {job: compacted.provenances[job] for job in layout.jobs_of(compacted)}
        columns |= dict.fromkeys(map(id, compacted.provenances.values()), compacted.schema.names)
    told: dict[int, _Checked | None] = {}
    found = []
    for job in jobs:
        if job.id not in provenances:
            continue
        provenance = provenances[job.id]
        if id(provenance) not in told:
            left = users_left(provenance, columns[id(provenance)], plan)
            told[id(provenance)] = None if left is None else _Checked(provenance, bool(left))
        said = told[id(provenance)] or _Checked(
            provenance, bool(lacking_users(folder.rows(job), plan))
        )
        found.append((job, said))
    return found


def _salvaged(folder: RunFolder) -> list[str]:
    """Check every compacted file as a whole, save the readable jobs of damaged ones; messages."""
    layout = folder.layout()
    with ThreadPoolExecutor(usable_cores()) as pool:
        intact = list(
            pool.map(lambda compacted: _is_whole(folder, compacted.name), layout.compacted_files)
        )
    broken = [p.name for p, good in zip(layout.compacted_files, intact, strict=True) if not good]
    jobs = {compacted.name: len(compacted.jobs) for compacted in layout.compacted_files}
    said = []
    for name in (*broken, *layout.damaged):
        lost = len(salvage(folder, name))
        many = f"{lost} of its {jobs[name]} jobs are" if name in jobs else "its jobs are"
        said.append(
            f"{folder.address}/jobs/{name} is damaged; it was moved to 'quarantine' and {many} "
            "run again"
        )
    return said


def _is_whole(folder: RunFolder, name: str) -> bool:
    return whole(name, folder.place.read(f"jobs/{name}"))


def _damaged(folder: RunFolder, job: Job, why: str) -> str:
    return (
        f"{folder.address}/jobs/{job.id}.parquet ({job}) is damaged: {why}; it was moved to "
        "'quarantine' and the job is run again"
    )


def _stale(
    parts: Sequence[tuple[Job, Mapping[str, str]]], prints: Prints
) -> list[tuple[Job, tuple[str, str, str]]]:
    """Job files made of something else than is here: what differs, then, now."""
    now: dict[int, dict[str, str]] = {}  # by model, of which all jobs share one
    found = []
    for job, provenance in parts:
        if id(job.segmenter) not in now:
            now[id(job.segmenter)] = prints[str(job.segmenter)]()
        for what, today in now[id(job.segmenter)].items():
            if what in provenance and (provenance[what] != today or today == UNKNOWN):
                found.append((job, (what, provenance[what], today)))
                break
    return found


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

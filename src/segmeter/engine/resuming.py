"""Resuming: which jobs of a run are finished, and whether by what is here now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, RunConflict
from segmeter.core.plans import Job, Plan
from segmeter.engine.jobs import Objects, rows_schema, source_of
from segmeter.engine.widening import lacking_users, users_left
from segmeter.runtime.fingerprints import UNKNOWN
from segmeter.runtime.roots import Roots
from segmeter.runtime.threads import usable_cores
from segmeter.store.compaction import salvage
from segmeter.store.folder import RunFolder
from segmeter.store.layout import Layout
from segmeter.store.packs import whole
from segmeter.store.parts import trail_of, wrong_types
from segmeter.store.scanning import CHECKED, JOB_ROWS, faults_of

__all__ = ["FinishedBefore", "Prints", "finished_before", "segmenter_prints"]

Prints = Mapping[str, Callable[[], dict[str, str]]]
"""By subject: what its weights and source are now, asked for only where something is compared."""


@dataclass(frozen=True, slots=True)
class FinishedBefore:
    """Ids of the jobs that need not be played, and what was found on the way."""

    ids: frozenset[str]
    said: tuple[str, ...] = ()


def segmenter_prints(plan: Plan, roots: Roots, objects: Objects | None = None) -> Prints:
    """How to know what each model or method is made of now."""
    registry = catalogue.models if plan.kind == "model" else catalogue.methods
    own = objects or {}

    def printed(spec: catalogue.Spec) -> dict[str, str]:
        if spec.name in own:
            source = source_of(spec, own[spec.name])
            return {"fingerprint": own[spec.name].card.fingerprint, "source": source}
        if ".py:" in spec.name:  # may be dear to make; its source is what may have changed
            return {"source": source_of(spec)}
        return {"fingerprint": registry.make(spec, **roots.options()).card.fingerprint}

    return {str(spec): lambda spec=spec: printed(spec) for spec in plan.segmenters}  # type: ignore[misc]  # mypy cannot type a default in a lambda


def finished_before(
    folder: RunFolder, jobs: Sequence[Job], prints: Prints, plan: Plan, again: bool = False
) -> FinishedBefore:
    """Look at every part of a run before the first job is played.

    A part that lacks users of the plan is not finished: they are played, its rows are kept.

    A part that cannot be read is set aside and its job is played again. A part that was played
    with other weights or another source is refused, or played anew if `again`.
    """
    said = _salvaged(folder)
    layout, sound = folder.layout(), []
    loose = set(layout.loose)
    alone = [job for job in jobs if job.id in loose]
    for job, found in zip(alone, _loose(folder, alone, plan), strict=True):
        if isinstance(found, str):
            folder.set_aside(f"{job.id}.parquet")
            said.append(_damaged(folder, job, found))
        else:
            sound.append((job, found))
    layout = folder.layout()  # a copy in a pack may stand in for what was set aside
    sound += _packed(folder, layout, jobs, plan)
    stale = _stale([(job, t.trail) for job, t in sound], prints)
    if stale and not again:
        raise RunConflict(_conflict(folder, stale, len(jobs)))
    spoilt = {job.id for job, _ in stale}.union(job.id for job, t in sound if t.lacks)
    return FinishedBefore(frozenset(j.id for j, _ in sound if j.id not in spoilt), tuple(said))


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a part says of itself, and whether users of the plan are still to play."""

    trail: Mapping[str, str]
    lacks: bool


def _loose(folder: RunFolder, jobs: Sequence[Job], plan: Plan) -> list[_Looked | str]:
    """Of each job with a file of its own, its trail or what is wrong with its rows."""
    schema = rows_schema(catalogue.benchmarks.make(plan.benchmark), plan) or JOB_ROWS
    checked = {*schema.key, *CHECKED}

    def look(job: Job) -> tuple[_Looked | str, Any]:
        try:
            table = folder.rows(job)
        except BadInput as error:
            return str(error), None
        wrong = wrong_types(table.schema, schema)
        if wrong:
            return wrong, None
        light = table.select([name for name in table.column_names if name in checked])
        return _Looked(trail_of(table.schema), bool(lacking_users(table, plan))), light

    with ThreadPoolExecutor(usable_cores()) as pool:
        found = list(pool.map(look, jobs))
    tables = [(job.id, t) for job, (_, t) in zip(jobs, found, strict=True) if t is not None]
    wrong = dict(zip((job for job, _ in tables), faults_of(tables, schema), strict=True))
    return [wrong.get(j.id) or looked for j, (looked, _) in zip(jobs, found, strict=True)]


def _packed(
    folder: RunFolder, layout: Layout, jobs: Sequence[Job], plan: Plan
) -> list[tuple[Job, _Looked]]:
    """The same for jobs in packs, by what their footers say; each trail is looked at once."""
    trails, columns = dict[str, Mapping[str, str]](), dict[int, list[str]]()
    for pack in layout.packs:
        trails |= {job: pack.trails[job] for job in layout.jobs_of(pack)}
        columns |= dict.fromkeys(map(id, pack.trails.values()), pack.schema.names)
    told: dict[int, _Looked | None] = {}
    found = []
    for job in jobs:
        if job.id not in trails:
            continue
        trail = trails[job.id]
        if id(trail) not in told:
            left = users_left(trail, columns[id(trail)], plan)
            told[id(trail)] = None if left is None else _Looked(trail, bool(left))
        said = told[id(trail)] or _Looked(trail, bool(lacking_users(folder.rows(job), plan)))
        found.append((job, said))
    return found


def _salvaged(folder: RunFolder) -> list[str]:
    """Look at every pack whole, save what can be read of damaged ones, and say so."""
    layout = folder.layout()
    with ThreadPoolExecutor(usable_cores()) as pool:
        sound = list(pool.map(lambda pack: _is_whole(folder, pack.name), layout.packs))
    broken = [p.name for p, good in zip(layout.packs, sound, strict=True) if not good]
    jobs = {pack.name: len(pack.jobs) for pack in layout.packs}
    said = []
    for name in (*broken, *layout.damaged):
        lost = len(salvage(folder, name))
        many = f"{lost} of its {jobs[name]} jobs are" if name in jobs else "its jobs are"
        said.append(
            f"{folder.address}/parts/{name} is damaged; it was set aside in 'aside' and {many} "
            "played again"
        )
    return said


def _is_whole(folder: RunFolder, name: str) -> bool:
    return whole(name, folder.place.read(f"parts/{name}"))


def _damaged(folder: RunFolder, job: Job, why: str) -> str:
    return (
        f"{folder.address}/parts/{job.id}.parquet ({job}) is damaged: {why}; it was set aside in "
        "'aside' and the job is played again"
    )


def _stale(
    parts: Sequence[tuple[Job, Mapping[str, str]]], prints: Prints
) -> list[tuple[Job, tuple[str, str, str]]]:
    """Parts made of something else than is here: what differs, then, now."""
    now: dict[int, dict[str, str]] = {}  # by subject, of which all jobs share one
    found = []
    for job, trail in parts:
        if id(job.segmenter) not in now:
            now[id(job.segmenter)] = prints[str(job.segmenter)]()
        for what, today in now[id(job.segmenter)].items():
            if what in trail and (trail[what] != today or today == UNKNOWN):
                found.append((job, (what, trail[what], today)))
                break
    return found


def _conflict(
    folder: RunFolder, stale: Sequence[tuple[Job, tuple[str, str, str]]], total: int
) -> str:
    job, (what, then, today) = stale[0]
    done = f"'{folder.address}' has {len(stale)} of {total} jobs that '{job.segmenter}' finished"
    todo = "--again (again=True in Python) re-runs them, another --out keeps them"
    if UNKNOWN in (then, today):
        return (
            f"{done} before, and whether it has changed since cannot be determined: it holds an "
            f"object without accessible state, such as a lock or a connection; {todo}"
        )
    thing = "other code or state" if what == "source" else "other weights"
    prints = f"fingerprint {then[:12] or 'none'}, now {today[:12] or 'none'}"
    return f"{done} with {thing} ({prints}); {todo}"

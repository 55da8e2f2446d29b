"""Merging: runs of one plan, made on several machines, become one.

Merged runs may come from others: nothing that a run names is looked up in a file or run, no
link is followed, and a job file whose rows are not what they should be is left out and named.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from segmeter.core.errors import BadInput, RunConflict
from segmeter.core.plans import Plan, in_words
from segmeter.core.rows import ERROR_ROWS, Schema
from segmeter.store.compacted_files import JobRows, job_of
from segmeter.store.compaction import compact, drop_copies, jobs_of, put_jobs
from segmeter.store.folder import RunFolder
from segmeter.store.job_files import encode_table, kind_of, provenance_of, with_column
from segmeter.store.job_index import made_by
from segmeter.store.run import Run
from segmeter.store.storage import Address, Place, place_of
from segmeter.store.validated_rows import verified_files

_MADE_OF = ("fingerprint", "source")
_MadeOf = dict[str, tuple[str, tuple[str, ...]]]  # by model: a run that has it, and its prints


@dataclass(slots=True)
class Merged:
    """Jobs of the merged run, jobs taken from each run, jobs that several had, files left out."""

    jobs: int = 0
    taken: dict[str, int] = field(default_factory=dict)
    twice: int = 0
    left_out: dict[str, str] = field(default_factory=dict)


def merge_runs(
    out: Address | Place,
    runs: Sequence[Address | Place],
    command: Mapping[str, Any],
    tell: Callable[[str], None] = lambda sentence: None,
) -> Merged:
    """Join runs of one plan into a new one, or into one that an earlier merge has begun.

    A job that several runs have is taken once if its rows are the same but for their times; if they
    differ, the merge is refused, as it is unknown which are right.
    """
    # A run that is named twice is read once.
    sources = list({_identity(run): Run.open(run) for run in runs}.values())
    folders = [run.folder for run in sources]
    _refuse_other_plans(folders)
    if _identity(out) in map(_identity, runs):
        raise RunConflict(f"'{place_of(out).address}' is one of the runs; merge into a new folder")
    done = Merged()
    with RunFolder.claimed(out, folders[0].plan) as target:
        drop_copies(target)
        made_of: _MadeOf = {}
        for file in target.layout().files:
            with suppress(BadInput):  # resuming the run moves it to quarantine
                for _, provenance, _ in made_by(target.place, file):
                    _refuse_other_weights(target, provenance, made_of)
        for run in sources:
            _take_rows(target, run, made_of, done)
        finished = target.finished()
        done.jobs = len(finished)
        for folder in folders:
            for name, jobs in _files(folder, "errors", ERROR_ROWS, {}):
                _put(target, "errors", name, [job for job in jobs if job.id not in finished])
            for entry in folder.provenance:
                target.sign(entry)
        target.sign(command)
        for where in ("jobs", "errors"):
            compact(target, where, closing=True)
    for name, why in done.left_out.items():
        tell(f"{name} is left out: {why}")
    return done


def _identity(run: Address | Place) -> str:
    """One text for all spellings of a run's address."""
    place = place_of(run)
    return place.address if "://" in place.address else os.path.realpath(place.address)


def _refuse_other_plans(folders: Sequence[RunFolder]) -> None:
    first, *others = folders
    for other in others:
        if other.plan.id != first.plan.id:
            named = ", ".join(map(in_words, other.plan.differs_in(first.plan)))
            raise RunConflict(
                f"'{other.address}' and '{first.address}' were made by different plans (different "
                f"{named}); only runs of one plan can be merged, 'segmeter compare' reads several"
            )


def _take_rows(target: RunFolder, run: Run, made_of: _MadeOf, done: Merged) -> None:
    """Add the jobs of one run to the target."""
    folder = run.folder
    there = target.finished()
    done.taken[folder.address] = 0
    for name, jobs in _files(folder, "jobs", run.schema, done.left_out):
        fresh = []
        for job in jobs:
            _refuse_unplanned(folder, job, run.plan)
            _refuse_other_weights(folder, provenance_of(job.table.schema), made_of)
            if job.id not in there:
                fresh.append(job)
                continue
            done.twice += 1
            _take_measures(target, folder, job)
        _put(target, "jobs", name, fresh)
        done.taken[folder.address] += len(fresh)
        there |= {job.id for job in fresh}


def _files(
    folder: RunFolder, where: str, schema: Schema, left_out: dict[str, str]
) -> Iterator[tuple[str, list[JobRows]]]:
    """Every file with those of its jobs that can be read and are what they should be."""
    found, lost = verified_files(folder, schema, where)
    left_out |= {f"{folder.address}/{path}": why for path, why in found.damaged.items()}
    for file in found.files:
        wanted = set(file.jobs).difference(lost.get(file.path, ()))
        if wanted:
            content = folder.place.read(file.path)
            yield file.name, [job for job in jobs_of(file, content) if job.id in wanted]


def _put(target: RunFolder, where: str, name: str, jobs: Sequence[JobRows]) -> None:
    """Keep jobs of one file as one file."""
    if not jobs:
        return
    if name.startswith("compacted-"):
        put_jobs(target, where, jobs)
    else:
        target.place.put(f"{where}/{name}", encode_table(jobs[0].table))


def _refuse_unplanned(folder: RunFolder, job: JobRows, plan: Plan) -> None:
    model, dataset, scene = job_of(job.table) or ("", "", "")
    if model not in map(str, plan.segmenters) or dataset not in map(str, plan.datasets):
        raise BadInput(
            f"'{folder.address}' has rows of '{model}' on '{dataset}/{scene}', which its own plan "
            "does not ask for; it cannot be merged"
        )


def _refuse_other_weights(
    folder: RunFolder, provenance: Mapping[str, str], made_of: _MadeOf
) -> None:
    """All jobs of a model must have been run with the same weights and source."""
    model = provenance.get("segmenter", "")
    now = tuple(provenance.get(what, "") for what in _MADE_OF)
    where, then = made_of.setdefault(model, (folder.address, now))
    if then != now:
        short = [next((text[:12] for text in made if text), "none") for made in (then, now)]
        raise RunConflict(
            f"'{where}' and '{folder.address}' ran '{model}' with different weights or sources "
            f"(fingerprints {short[0]} and {short[1]}); they cannot be merged"
        )


def _take_measures(target: RunFolder, folder: RunFolder, job: JobRows) -> None:
    """Rows of one job must be the same in all runs that have it; measures may have been added."""
    there, table = target.rows(job.id), job.table
    shared = [n for n in there.column_names if n in table.column_names]
    names = sorted(n for n in shared if not n.startswith("seconds"))
    facts, others = _facts(there, names), _facts(table, names)
    if sorted(facts) != sorted(others):
        model, dataset, scene = job_of(job.table) or ("", "", "")
        raise RunConflict(
            f"'{folder.address}' has other rows for '{model}' on '{dataset}/{scene}' than a run "
            "before it; leave one of them out"
        )
    more = [f.name for f in table.schema if f.name not in shared and kind_of(f.type) == "number"]
    for name in more:
        values = dict(zip(others, table[name].to_pylist(), strict=True))
        there = with_column(there, name, [values[fact] for fact in facts])
    if more:
        target.put_rows(job.id, there)


def _facts(table: Any, names: Sequence[str]) -> list[str]:
    """Some columns of each row as text, in which not-a-numbers are alike."""
    return [repr(row) for row in table.select(names).to_pylist()]

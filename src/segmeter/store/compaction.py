"""Compaction: many small files become few large ones; a kill at any moment loses nothing.

The compacting process holds the lock. A compacted file is written completely before the files it
was made of are removed. Until then jobs are in two files and are read from one of them, so no row
is ever missing or counted twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped_pairs
from segmeter.core.seeds import fingerprint
from segmeter.store.compacted_files import (
    CompactedFile,
    JobRows,
    compacted_bytes,
    compacted_name,
    job_of,
    jobs_in,
    open_bytes,
    readable_jobs,
    whole,
)
from segmeter.store.folder import RunFolder
from segmeter.store.job_files import JOB_FILE_NAME, decode, encode_table
from segmeter.store.job_index import DataFile

LOOSE = 256
"""Number of finished jobs in files of their own that starts a compaction."""

_MOST_JOBS = 4096  # of a compacted file
_MOST_BYTES = 64 << 20  # of a compacted file, and of what is read before one is written
_FEW = 8  # small compacted files of one kind that may exist at once during a run


def compact(
    folder: RunFolder,
    where: str = "jobs",
    leave: Collection[str] = (),
    *,
    loose: int | None = None,
    closing: bool = False,
) -> None:
    """Compact the jobs of a folder once there are `loose` (or LOOSE), and join small files.

    Jobs in `leave` are running and stay as they are. `closing` joins all small files.
    """
    drop_copies(folder, where)
    files = [file for file in folder.layout(where).files if file.compacted is None and file.jobs]
    ready = [file for file in files if file.jobs[0] not in leave]
    if len(ready) >= max(1, LOOSE if loose is None else loose):
        _join(folder, where, ready)
    _join(folder, where, _small(folder, where, 2 if closing else _FEW))


def drop_copies(folder: RunFolder, where: str = "jobs") -> None:
    """Remove copies of jobs that are read from another file.

    Nothing is removed while a compacted file is damaged: its jobs may have to be read from a copy.
    """
    layout = folder.layout(where)
    if all(file.whole for file in layout.files):
        return
    contents = ((p.name, folder.place.read(f"{where}/{p.name}")) for p in layout.compacted_files)
    if layout.damaged or not all(whole(name, content) for name, content in contents):
        return
    for file in reversed(layout.files):  # compacted ones first
        if not file.whole:
            jobs = jobs_of(file, folder.place.read(file.path)) if file.jobs else ()
            put_jobs(folder, where, (job for job in jobs if job.id in file.jobs), [file.name])


def extract(folder: RunFolder, jobs: Collection[str], where: str = "jobs") -> None:
    """Give jobs that are to be run again files of their own."""
    for file in folder.layout(where).files:
        wanted = set() if file.compacted is None else set(jobs).intersection(file.jobs)
        for job in jobs_of(file, folder.place.read(file.path)) if wanted else ():
            if job.id in wanted:  # not read as long as the compacted file has it
                folder.place.put(f"{where}/{job.id}.parquet", encode_table(job.table))
    wanted = set(jobs)
    for file in folder.layout(where).files:  # copies that are not read too
        if file.compacted is not None and not wanted.isdisjoint(file.compacted.provenances):
            rest = (
                job for job in jobs_of(file, folder.place.read(file.path)) if job.id not in wanted
            )
            put_jobs(folder, where, rest, [file.name])


def salvage(folder: RunFolder, name: str) -> set[str]:
    """Move a damaged compacted file to quarantine and keep its readable jobs; ids of the others.

    If the footer is damaged, the jobs of the file are not known.
    """
    content = folder.place.read(f"jobs/{name}")
    folder.place.put(f"quarantine/{name}", content)
    try:
        file = open_bytes(content)
        compacted = jobs_in(name, file)
    except BadInput:
        folder.place.remove(f"jobs/{name}")
        return set()
    good = [job for job in readable_jobs(compacted, file) if _own_rows(job)]
    put_jobs(folder, "jobs", good, [name])
    return {job for job, _ in compacted.jobs} - {job.id for job in good}


def jobs_of(file: DataFile, content: bytes) -> Iterator[JobRows]:
    """The rows of all jobs of a file; of a compacted one, of those that can be read.

    Of a compacted file one row group is in memory at a time.
    """
    if file.compacted is None:
        yield JobRows(file.name.removesuffix(".parquet"), decode(content))
    else:
        yield from readable_jobs(file.compacted, open_bytes(content))


def put_jobs(
    folder: RunFolder, where: str, jobs: Iterable[JobRows], then_remove: Iterable[str] = ()
) -> None:
    """Put jobs into a compacted file, then remove the files that they came from."""
    some = iter(jobs)
    first = next(some, None)
    found = None if first is None else job_of(first.table)
    made = ""
    if first is not None and found is not None:
        content = compacted_bytes(chain([first], some))
        made = compacted_name(found[0], found[1], content)
        folder.place.put(f"{where}/{made}", content)
    for name in then_remove:
        if name != made:  # a damaged file of the same jobs, which is whole again
            folder.place.remove(f"{where}/{name}")


def _join(folder: RunFolder, where: str, files: Iterable[DataFile]) -> None:
    """Put jobs of one model, dataset and set of columns into files as large as they may be."""
    waiting: defaultdict[tuple[str, str], dict[str, Iterable[JobRows]]] = defaultdict(dict)
    size = count = 0
    for file in files:
        content = folder.place.read(file.path)
        kind = _kind(file, content)
        if kind is None:
            continue  # left for the command that resumes the run
        if size + len(content) > _MOST_BYTES or count + len(file.jobs) > _MOST_JOBS:
            _put_all(folder, where, waiting.values())
            waiting.clear()
            size = count = 0
        waiting[kind][file.name] = jobs_of(file, content)
        size, count = size + len(content), count + len(file.jobs)
    _put_all(folder, where, waiting.values())


def _put_all(
    folder: RunFolder, where: str, batches: Iterable[dict[str, Iterable[JobRows]]]
) -> None:
    for jobs in batches:
        if len(jobs) > 1 or JOB_FILE_NAME.fullmatch(next(iter(jobs))):
            put_jobs(folder, where, chain.from_iterable(jobs.values()), jobs)


def _kind(file: DataFile, content: bytes) -> tuple[str, str] | None:
    """Model and dataset, as in the name of a compacted file, and columns; None if damaged."""
    if file.compacted is not None:
        return _compacted_kind(file.compacted) if whole(file.name, content) else None
    try:
        (job,) = jobs_of(file, content)
    except BadInput:
        return None
    model, dataset, _ = job_of(job.table) or ("", "", "")
    named = compacted_name(model, dataset, b"").rpartition("-")[0]
    return (named, str(job.layout)) if _own_rows(job) else None


def _compacted_kind(file: CompactedFile) -> tuple[str, str]:
    return file.name.rpartition("-")[0], str(file.schema.remove_metadata())


def _own_rows(job: JobRows) -> bool:
    """Whether rows belong to the job of their file name."""
    found = job_of(job.table)
    return found is not None and fingerprint(*found, size=10) == job.id


def _small(folder: RunFolder, where: str, few: int) -> list[DataFile]:
    """Small compacted files that may be joined, if there are `few` of a kind or more."""
    sizes = {held.name: held.bytes for held in folder.place.files(where)}
    small = (
        (_compacted_kind(file.compacted), file)
        for file in folder.layout(where).files
        if file.compacted is not None and file.whole and len(file.jobs) < _MOST_JOBS
        if sizes.get(file.name, 0) < _MOST_BYTES // 2
    )
    kinds = grouped_pairs(small).values()
    return [file for files in kinds if len(files) >= few for file in files]

"""Compaction: many small files become few large ones, safe against a kill at any moment.

The compacting process holds the lock. A compacted file is written completely before the files it
was made of are removed. Until then jobs are in two files and are read from one of them, so no row
is ever missing or counted twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from segmeter.core.errors import BadInput
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
from segmeter.store.job_files import decode, encode_table

__all__ = ["LOOSE", "compact", "drop", "drop_copies", "extract", "salvage"]

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
    layout = folder.layout(where)
    ready = [job for job in layout.loose if job not in leave]
    if len(ready) >= max(1, LOOSE if loose is None else loose):
        for jobs in _batches(folder, where, ready):
            put_jobs(folder, where, jobs, [f"{job.id}.parquet" for job in jobs])
    _join_small(folder, where, 2 if closing else _FEW)


def drop_copies(folder: RunFolder, where: str = "jobs") -> None:
    """Remove copies of jobs that are read from another file.

    Nothing is removed while a compacted file is damaged: its jobs may have to be read from a copy.
    """
    layout = folder.layout(where)
    if not layout.superseded and not layout.stale:
        return
    contents = ((p.name, folder.place.read(f"{where}/{p.name}")) for p in layout.compacted_files)
    if layout.damaged or not all(whole(name, content) for name, content in contents):
        return
    for compacted in layout.compacted_files:
        if stale := layout.stale.get(compacted.name):
            rest = (job for job in _jobs_of(folder, where, compacted) if job.id not in stale)
            put_jobs(folder, where, rest, [compacted.name])
    for name in layout.superseded:
        folder.place.remove(f"{where}/{name}")


def extract(folder: RunFolder, jobs: Collection[str], where: str = "jobs") -> None:
    """Give jobs that are to be run again files of their own."""
    layout = folder.layout(where)
    for compacted in layout.compacted_files:
        wanted = set(jobs).intersection(layout.jobs_of(compacted))
        for job in _jobs_of(folder, where, compacted) if wanted else ():
            if job.id in wanted:  # not read as long as the compacted file has it
                folder.place.put(f"{where}/{job.id}.parquet", encode_table(job.table))
    drop(folder, jobs, where)


def drop(folder: RunFolder, jobs: Collection[str], where: str) -> None:
    """Remove jobs from all compacted files, such as scores of rows that are computed again."""
    layout, wanted = folder.layout(where), set(jobs)
    for compacted in (*layout.compacted_files, *layout.unread):
        if not wanted.isdisjoint(compacted.provenances):
            rest = (job for job in _jobs_of(folder, where, compacted) if job.id not in wanted)
            put_jobs(folder, where, rest, [compacted.name])


def salvage(folder: RunFolder, name: str, where: str = "jobs") -> set[str]:
    """Move a damaged compacted file to quarantine and keep its readable jobs; ids of the others.

    If the footer is damaged, the jobs of the file are not known.
    """
    content = folder.place.read(f"{where}/{name}")
    folder.place.put(f"quarantine/{name}", content)
    try:
        file = open_bytes(content)
        compacted = jobs_in(name, file)
    except BadInput:
        folder.place.remove(f"{where}/{name}")
        return set()
    good = [job for job in readable_jobs(compacted, file) if _true(job)]
    put_jobs(folder, where, good, [name])
    return {job for job, _ in compacted.jobs} - {job.id for job in good}


def _jobs_of(folder: RunFolder, where: str, compacted: CompactedFile) -> Iterator[JobRows]:
    return readable_jobs(compacted, open_bytes(folder.place.read(f"{where}/{compacted.name}")))


def put_jobs(
    folder: RunFolder, where: str, jobs: Iterable[JobRows], then_remove: Iterable[str] = ()
) -> None:
    """Put jobs into a compacted file, then remove the files that they came from."""
    some = iter(jobs)
    first = next(some, None)
    found = None if first is None else job_of(first.table)
    if first is not None and found is not None:
        content = compacted_bytes(chain([first], some))
        folder.place.put(f"{where}/{compacted_name(found[0], found[1], content)}", content)
    for name in then_remove:
        folder.place.remove(f"{where}/{name}")


def _batches(folder: RunFolder, where: str, jobs: Sequence[str]) -> Iterator[list[JobRows]]:
    """Jobs of one model and data set and with the same columns, some thousand at a time."""
    waiting: defaultdict[tuple[str, ...], list[JobRows]] = defaultdict(list)
    read = count = 0
    for name in jobs:
        content = folder.place.read(f"{where}/{name}.parquet")
        job = _readable(name, content)
        if job is None:
            continue  # left for the command that resumes the run
        waiting[_kind(job)].append(job)
        read, count = read + len(content), count + 1
        if read >= _MOST_BYTES or count >= _MOST_JOBS:
            yield from waiting.values()
            waiting.clear()
            read = count = 0
    yield from waiting.values()


def _readable(name: str, content: bytes) -> JobRows | None:
    try:
        job = JobRows(name, decode(content))
    except BadInput:
        return None
    return job if _true(job) else None


def _true(job: JobRows) -> bool:
    """Whether rows are those of the job that they are kept as."""
    found = job_of(job.table)
    return found is not None and fingerprint(*found, size=10) == job.id


def _kind(job: JobRows) -> tuple[str, ...]:
    found = job_of(job.table)
    return (*(found or ())[:2], str(job.layout))


def _join_small(folder: RunFolder, where: str, few: int) -> None:
    """Join compacted files of one model and data set, and of the same columns, that are small."""
    sizes = {held.name: held.bytes for held in folder.place.files(where)}
    kinds: defaultdict[tuple[str, str], list[CompactedFile]] = defaultdict(list)
    layout = folder.layout(where)
    for compacted in layout.compacted_files:
        small = len(compacted.jobs) < _MOST_JOBS and sizes.get(compacted.name, 0) < _MOST_BYTES // 2
        if small and compacted.name not in layout.stale:
            kind = compacted.name.rpartition("-")[0], str(compacted.schema.remove_metadata())
            kinds[kind].append(compacted)
    for compacted_files in kinds.values():
        if len(compacted_files) >= few:
            for some in _fitting(compacted_files, sizes):
                _join(folder, where, some)


def _fitting(
    compacted_files: Sequence[CompactedFile], sizes: dict[str, int]
) -> Iterator[list[CompactedFile]]:
    """Compacted files that together are no larger than one may be, two of them at least."""
    some: list[CompactedFile] = []
    size = jobs = 0
    for compacted in compacted_files:
        size, jobs = size + sizes[compacted.name], jobs + len(compacted.jobs)
        if size > _MOST_BYTES or jobs > _MOST_JOBS:
            if len(some) > 1:
                yield some
            some, size, jobs = [], sizes[compacted.name], len(compacted.jobs)
        some.append(compacted)
    if len(some) > 1:
        yield some


def _join(folder: RunFolder, where: str, files: Sequence[CompactedFile]) -> None:
    contents = {file.name: folder.place.read(f"{where}/{file.name}") for file in files}
    intact = [file for file in files if whole(file.name, contents[file.name])]
    if len(intact) < 2:
        return  # resuming the run moves damaged ones to quarantine
    jobs = (readable_jobs(file, open_bytes(contents[file.name])) for file in intact)
    put_jobs(folder, where, chain.from_iterable(jobs), [file.name for file in intact])

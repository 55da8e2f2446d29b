"""Compaction: many small files become few large ones, whatever moment somebody is killed at.

The compacting process holds the lock. A pack is written whole before the files that it was made
of are removed. Until then jobs lie in two files and are read from one of them, so no row is ever
missing or counted twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from segmeter.core.errors import BadInput
from segmeter.core.seeds import fingerprint
from segmeter.store.folder import RunFolder
from segmeter.store.packs import (
    JobRows,
    Pack,
    job_of,
    jobs_in,
    pack_bytes,
    pack_name,
    packed,
    readable_jobs,
    whole,
)
from segmeter.store.parts import decode, encode_table

__all__ = ["LOOSE", "compact", "drop", "drop_copies", "salvage", "unpack"]

LOOSE = 256
"""So many finished jobs have a file of their own before they are packed."""

_MOST_JOBS = 4096  # of a pack
_MOST_BYTES = 64 << 20  # of a pack, and of what is read before one is written
_FEW = 8  # small packs of one kind that may lie side by side while jobs are played


def compact(
    folder: RunFolder,
    where: str = "parts",
    leave: Collection[str] = (),
    *,
    loose: int | None = None,
    closing: bool = False,
) -> None:
    """Pack the finished jobs of a folder once there are `loose` (or LOOSE), and join small packs.

    Jobs in `leave` are being played and stay as they are. `closing` joins whatever is small.
    """
    drop_copies(folder, where)
    layout = folder.layout(where)
    ready = [job for job in layout.loose if job not in leave]
    if len(ready) >= max(1, LOOSE if loose is None else loose):
        for jobs in _batches(folder, where, ready):
            _keep(folder, where, jobs, [f"{job.id}.parquet" for job in jobs])
    _join_small(folder, where, 2 if closing else _FEW)


def drop_copies(folder: RunFolder, where: str = "parts") -> None:
    """Remove copies of jobs that are read from another file.

    Nothing is removed as long as a pack is damaged: its jobs may have to be read from a copy.
    """
    layout = folder.layout(where)
    if not layout.superseded and not layout.stale:
        return
    contents = ((p.name, folder.place.read(f"{where}/{p.name}")) for p in layout.packs)
    if layout.damaged or not all(whole(name, content) for name, content in contents):
        return
    for pack in layout.packs:
        if stale := layout.stale.get(pack.name):
            rest = (job for job in _jobs_of(folder, where, pack) if job.id not in stale)
            _keep(folder, where, rest, [pack.name])
    for name in layout.superseded:
        folder.place.remove(f"{where}/{name}")


def unpack(folder: RunFolder, jobs: Collection[str], where: str = "parts") -> None:
    """Give jobs that are to be run again files of their own."""
    layout = folder.layout(where)
    for pack in layout.packs:
        wanted = set(jobs).intersection(layout.jobs_of(pack))
        for job in _jobs_of(folder, where, pack) if wanted else ():
            if job.id in wanted:  # not read as long as the pack has it
                folder.place.put(f"{where}/{job.id}.parquet", encode_table(job.table))
    drop(folder, jobs, where)


def drop(folder: RunFolder, jobs: Collection[str], where: str) -> None:
    """Remove jobs from all packs, such as scores of rows that are computed again."""
    layout, wanted = folder.layout(where), set(jobs)
    for pack in (*layout.packs, *layout.unread):
        if not wanted.isdisjoint(pack.trails):
            rest = (job for job in _jobs_of(folder, where, pack) if job.id not in wanted)
            _keep(folder, where, rest, [pack.name])


def salvage(folder: RunFolder, name: str, where: str = "parts") -> set[str]:
    """Set a damaged pack aside and keep the jobs that can be read; ids of those that cannot.

    Nothing is known of the jobs of a pack whose footer is damaged.
    """
    content = folder.place.read(f"{where}/{name}")
    folder.place.put(f"aside/{name}", content)
    try:
        file = pack_bytes(content)
        pack = jobs_in(name, file)
    except BadInput:
        folder.place.remove(f"{where}/{name}")
        return set()
    good = [job for job in readable_jobs(pack, file) if _true(job)]
    _keep(folder, where, good, [name])
    return {job for job, _ in pack.jobs} - {job.id for job in good}


def _jobs_of(folder: RunFolder, where: str, pack: Pack) -> Iterator[JobRows]:
    return readable_jobs(pack, pack_bytes(folder.place.read(f"{where}/{pack.name}")))


def _keep(
    folder: RunFolder,
    where: str,
    jobs: Iterable[JobRows],
    then_remove: Iterable[str],
) -> None:
    """Put jobs into a pack, then remove the files that they came from."""
    some = iter(jobs)
    first = next(some, None)
    found = None if first is None else job_of(first.table)
    if first is not None and found is not None:
        content = packed(chain([first], some))
        folder.place.put(f"{where}/{pack_name(found[0], found[1], content)}", content)
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
            continue  # stays as it is; whoever goes on with the run looks at it
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
    """Join packs of one model and data set, and of the same columns, that are small."""
    sizes = {held.name: held.bytes for held in folder.place.files(where)}
    kinds: defaultdict[tuple[str, str], list[Pack]] = defaultdict(list)
    layout = folder.layout(where)
    for pack in layout.packs:
        small = len(pack.jobs) < _MOST_JOBS and sizes.get(pack.name, 0) < _MOST_BYTES // 2
        if small and pack.name not in layout.stale:
            kinds[pack.name[:17], str(pack.schema.remove_metadata())].append(pack)
    for packs in kinds.values():
        if len(packs) >= few:
            for some in _fitting(packs, sizes):
                _join(folder, where, some)


def _fitting(packs: Sequence[Pack], sizes: dict[str, int]) -> Iterator[list[Pack]]:
    """Packs that together are no larger than one may be, two of them at least."""
    some: list[Pack] = []
    size = jobs = 0
    for pack in packs:
        size, jobs = size + sizes[pack.name], jobs + len(pack.jobs)
        if size > _MOST_BYTES or jobs > _MOST_JOBS:
            if len(some) > 1:
                yield some
            some, size, jobs = [], sizes[pack.name], len(pack.jobs)
        some.append(pack)
    if len(some) > 1:
        yield some


def _join(folder: RunFolder, where: str, packs: Sequence[Pack]) -> None:
    contents = {pack.name: folder.place.read(f"{where}/{pack.name}") for pack in packs}
    sound = [pack for pack in packs if whole(pack.name, contents[pack.name])]
    if len(sound) < 2:
        return  # whoever goes on with the run sets damaged ones aside
    jobs = chain.from_iterable(
        readable_jobs(pack, pack_bytes(contents[pack.name])) for pack in sound
    )
    _keep(folder, where, jobs, [pack.name for pack in sound])

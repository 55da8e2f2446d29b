"""Layout: which files of a folder hold rows, and which one of them is read for each job.

A job may lie in several files: a kill between writing a pack and removing what it was made of
leaves both, and so does copying one run folder over another. Each job is read from one file
only: the copy that was written last. Copies of equal age are equal; then packs go before loose
files, and larger packs before smaller ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from segmeter.core.errors import BadInput
from segmeter.store.packs import PACK_NAME, Pack, file_of, jobs_in
from segmeter.store.parts import PART_NAME, written_at
from segmeter.store.places import Place

__all__ = ["JobFile", "Layout", "layout_of"]

_TRIES = 8  # listings, while another process compacts the folder


@dataclass(frozen=True, slots=True)
class JobFile:
    """A file and the jobs that are read from it; `pack` is None for a file of one job."""

    where: str
    name: str
    jobs: tuple[str, ...]
    pack: Pack | None = None

    @property
    def path(self) -> str:
        return f"{self.where}/{self.name}"

    @property
    def whole(self) -> bool:
        """Whether all rows of the file are read."""
        return self.pack is None or len(self.jobs) == len(self.pack.jobs)


@dataclass(frozen=True, slots=True)
class Layout:
    """What a folder holds.

    Attributes
    ----------
    loose
        Ids of the jobs that are read from a file of their own.
    packs
        Files with the rows of many jobs, of which at least one is read.
    superseded
        Files of which nothing is read: others hold the same jobs, written at the same time or
        later.
    damaged
        Packs whose footer cannot be read, and why.
    stale
        By name of a pack: jobs that are read from another file.
    unread
        The packs among the superseded files.
    """

    where: str
    loose: tuple[str, ...]
    packs: tuple[Pack, ...]
    superseded: tuple[str, ...]
    damaged: Mapping[str, str]
    stale: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unread: tuple[Pack, ...] = ()

    @property
    def jobs(self) -> set[str]:
        """Ids of all jobs that have rows here."""
        return set(self.loose).union(job for pack in self.packs for job in self.jobs_of(pack))

    def jobs_of(self, pack: Pack) -> list[str]:
        """The jobs that are read from a pack."""
        stale = self.stale.get(pack.name, ())
        return [job for job, _ in pack.jobs if job not in stale]

    def files(self) -> Iterator[JobFile]:
        """The files that are read, loose ones first."""
        for job in self.loose:
            yield JobFile(self.where, f"{job}.parquet", (job,))
        for pack in self.packs:
            yield JobFile(self.where, pack.name, tuple(self.jobs_of(pack)), pack)

    def pack_of(self, job: str) -> Pack | None:
        """The pack that a job is read from, if it is a pack."""
        held = (pack for pack in self.packs if job in pack.trails)
        return next((p for p in held if job not in self.stale.get(p.name, ())), None)


def layout_of(place: Place, where: str, known: dict[str, Pack]) -> Layout:
    """List a folder and read the footers of its packs, except for those `known` from before.

    Files with other names are ignored.
    """
    for _ in range(_TRIES):
        try:
            return _listed(place, where, known)
        except FileNotFoundError:  # compacted since it was listed
            continue
    raise BadInput(f"'{place.address}/{where}' changes all the time; wait for the other command")


def _listed(place: Place, where: str, known: dict[str, Pack]) -> Layout:
    names = [held.name for held in place.files(where)]
    packs, damaged = [], {}
    for name in filter(PACK_NAME.fullmatch, names):
        try:
            packs.append(known.get(name) or _footer(place, where, name))
        except BadInput as error:
            if not place.exists(f"{where}/{name}"):
                raise FileNotFoundError(name) from error
            damaged[name] = str(error)
    known.update((pack.name, pack) for pack in packs)
    loose = [n.removesuffix(".parquet") for n in names if PART_NAME.fullmatch(n)]
    counts = Counter(job for pack in packs for job, _ in pack.jobs)
    counts.update(loose)
    doubled = {job for job, count in counts.items() if count > 1}
    if not doubled:
        return Layout(where, tuple(loose), tuple(packs), (), damaged)
    chosen = _chosen(place, where, doubled, loose, packs)
    stale = {pack.name: _stale(pack, chosen) for pack in packs}
    read = [pack for pack in packs if len(stale[pack.name]) < len(pack.jobs)]
    unread = tuple(pack for pack in packs if len(stale[pack.name]) == len(pack.jobs))
    alone = [job for job in loose if chosen.get(job, "") in ("", f"{job}.parquet")]
    left = [*(p.name for p in unread), *(f"{j}.parquet" for j in set(loose).difference(alone))]
    partly = {pack.name: stale[pack.name] for pack in read if stale[pack.name]}
    return Layout(where, tuple(alone), tuple(read), tuple(sorted(left)), damaged, partly, unread)


def _chosen(
    place: Place, where: str, doubled: set[str], loose: Iterable[str], packs: Iterable[Pack]
) -> dict[str, str]:
    """Of every job that several files hold, the file that it is read from."""
    best: dict[str, tuple[int, int, int, str]] = {}  # time, rows, jobs in the file, its name
    for job in doubled.intersection(loose):
        name = f"{job}.parquet"
        best[job] = (*_age(place, where, name), 0, name)
    for pack in packs:
        rows = dict(pack.jobs)
        for job in doubled.intersection(rows):
            found = (pack.written[job], rows[job], len(rows), pack.name)
            best[job] = max(best.get(job, found), found)
    return {job: name for job, (*_, name) in best.items()}


def _stale(pack: Pack, chosen: Mapping[str, str]) -> frozenset[str]:
    return frozenset(job for job, _ in pack.jobs if chosen.get(job, pack.name) != pack.name)


def _age(place: Place, where: str, name: str) -> tuple[int, int]:
    """When a file of one job was written, and its number of rows; an unreadable one is oldest."""
    files, root = place.arrow()
    try:
        with file_of(f"{root}/{where}/{name}", files) as file:
            return written_at(file.schema_arrow), file.metadata.num_rows
    except BadInput:
        if not place.exists(f"{where}/{name}"):
            raise FileNotFoundError(name) from None
        return -1, 0


def _footer(place: Place, where: str, name: str) -> Pack:
    files, root = place.arrow()
    with file_of(f"{root}/{where}/{name}", files) as file:
        return jobs_in(name, file)

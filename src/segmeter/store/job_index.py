"""Job index: which files of a run hold rows, and which one of them is read for each job.

A job may be in several files: after a kill between writing a compacted file and removing the files
it was made of, or after copying one run folder over another. Each job is read from one file only:
the copy that was written last. Copies of equal age have equal rows; then compacted files are
preferred to job files, and larger ones to smaller ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from segmeter.core.errors import BadInput
from segmeter.store.compacted_files import COMPACTED_NAME, CompactedFile, file_of, jobs_in
from segmeter.store.job_files import JOB_FILE_NAME, written_at
from segmeter.store.storage import Place

_TRIES = 8  # listings, while another process compacts the folder


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file and the jobs that are read from it; `compacted` is None for a file of one job."""

    where: str
    name: str
    jobs: tuple[str, ...]
    compacted: CompactedFile | None = None

    @property
    def path(self) -> str:
        return f"{self.where}/{self.name}"

    @property
    def whole(self) -> bool:
        """Whether all rows of the file are read."""
        return self.compacted is None or len(self.jobs) == len(self.compacted.jobs)


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of a folder.

    Attributes
    ----------
    loose
        Ids of the jobs that are read from a file of their own.
    compacted_files
        Files with the rows of many jobs.
    superseded
        Files of one job that are not read: others hold the same job, written at the same time or
        later.
    damaged
        Compacted files whose footer cannot be read, and why.
    stale
        By name of a compacted file: jobs that are read from another file.
    """

    where: str
    loose: tuple[str, ...]
    compacted_files: tuple[CompactedFile, ...]
    superseded: tuple[str, ...]
    damaged: Mapping[str, str]
    stale: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def jobs(self) -> set[str]:
        """Ids of all jobs that have rows here."""
        return set(self.loose).union(
            job for compacted in self.compacted_files for job in self.jobs_of(compacted)
        )

    def jobs_of(self, compacted: CompactedFile) -> list[str]:
        """The jobs that are read from a compacted file."""
        stale = self.stale.get(compacted.name, ())
        return [job for job, _ in compacted.jobs if job not in stale]

    def files(self) -> Iterator[DataFile]:
        """The files that are read, loose ones first."""
        for job in self.loose:
            yield DataFile(self.where, f"{job}.parquet", (job,))
        for compacted in self.compacted_files:
            if jobs := self.jobs_of(compacted):
                yield DataFile(self.where, compacted.name, tuple(jobs), compacted)

    def compacted_with(self, job: str) -> CompactedFile | None:
        """The compacted file that a job is read from, if it is a compacted file."""
        held = (compacted for compacted in self.compacted_files if job in compacted.provenances)
        return next((p for p in held if job not in self.stale.get(p.name, ())), None)


def layout_of(place: Place, where: str, known: dict[str, CompactedFile]) -> Layout:
    """List a folder and read the footers of compacted files that are not `known` yet.

    Files with other names are ignored.
    """
    for _ in range(_TRIES):
        try:
            return _listed(place, where, known)
        except FileNotFoundError:  # compacted since it was listed
            continue
    raise BadInput(f"'{place.address}/{where}' changes all the time; wait for the other command")


def _listed(place: Place, where: str, known: dict[str, CompactedFile]) -> Layout:
    names = [held.name for held in place.files(where)]
    compacted_files, damaged = [], {}
    for name in filter(COMPACTED_NAME.fullmatch, names):
        try:
            compacted_files.append(known.get(name) or _footer(place, where, name))
        except BadInput as error:
            if not place.exists(f"{where}/{name}"):
                raise FileNotFoundError(name) from error
            damaged[name] = str(error)
    known.update((compacted.name, compacted) for compacted in compacted_files)
    loose = [n.removesuffix(".parquet") for n in names if JOB_FILE_NAME.fullmatch(n)]
    counts = Counter(job for compacted in compacted_files for job, _ in compacted.jobs)
    counts.update(loose)
    doubled = {job for job, count in counts.items() if count > 1}
    if not doubled:
        return Layout(where, tuple(loose), tuple(compacted_files), (), damaged)
    chosen = _chosen(place, where, doubled, loose, compacted_files)
    stale = {
        file.name: frozenset(lost)
        for file in compacted_files
        if (lost := [job for job, _ in file.jobs if chosen.get(job, file.name) != file.name])
    }
    alone = [job for job in loose if chosen.get(job, "") in ("", f"{job}.parquet")]
    left = sorted(f"{job}.parquet" for job in set(loose).difference(alone))
    return Layout(where, tuple(alone), tuple(compacted_files), tuple(left), damaged, stale)


def _chosen(
    place: Place,
    where: str,
    doubled: set[str],
    loose: Iterable[str],
    compacted_files: Iterable[CompactedFile],
) -> dict[str, str]:
    """Of every job that several files hold, the file that it is read from."""
    best: dict[str, tuple[int, int, int, str]] = {}  # time, rows, jobs in the file, its name
    for job in doubled.intersection(loose):
        name = f"{job}.parquet"
        best[job] = (*_age(place, where, name), 0, name)
    for compacted in compacted_files:
        rows = dict(compacted.jobs)
        for job in doubled.intersection(rows):
            found = (compacted.written[job], rows[job], len(rows), compacted.name)
            best[job] = max(best.get(job, found), found)
    return {job: name for job, (*_, name) in best.items()}


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


def _footer(place: Place, where: str, name: str) -> CompactedFile:
    files, root = place.arrow()
    with file_of(f"{root}/{where}/{name}", files) as file:
        return jobs_in(name, file)

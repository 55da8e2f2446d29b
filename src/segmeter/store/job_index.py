"""Job index: which files of a run hold rows, and which one of them is read for each job.

A job may be in several files: after a kill between writing a compacted file and removing the files
it was made of, or after copying one run folder over another. Each job is read from one file only:
the copy that was written last. Copies of equal age have equal rows; then compacted files are
preferred to job files, and larger ones to smaller ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from segmeter.core.errors import BadInput
from segmeter.store.compacted_files import COMPACTED_NAME, CompactedFile, jobs_in, stored_file
from segmeter.store.job_files import JOB_FILE_NAME, provenance_of, written_at
from segmeter.store.storage import Place

_TRIES = 8  # listings, while another process compacts the folder


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file and the jobs that are read from it; `compacted` is None for a file of one job.

    Other files hold the jobs that are not read, written at the same time or later.
    """

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
        return len(self.jobs) == (1 if self.compacted is None else len(self.compacted.jobs))


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of a folder."""

    files: tuple[DataFile, ...]  # of one job, then compacted ones
    damaged: Mapping[str, str]  # compacted files whose footer cannot be read, and why

    @property
    def jobs(self) -> set[str]:
        """Ids of all jobs that have rows here."""
        return {job for file in self.files for job in file.jobs}

    @property
    def loose(self) -> list[str]:
        """Ids of the jobs that are read from a file of their own."""
        return [job for file in self.files if file.compacted is None for job in file.jobs]

    @property
    def compacted_files(self) -> list[CompactedFile]:
        """Files with the rows of many jobs, read or not."""
        return [file.compacted for file in self.files if file.compacted is not None]


def made_by(place: Place, file: DataFile) -> Iterator[tuple[str, Mapping[str, str], list[str]]]:
    """Each job that is read from a file, with the provenance and the columns of its rows."""
    if (index := file.compacted) is not None:
        yield from ((job, index.provenances[job], index.schema.names) for job in file.jobs)
        return
    with stored_file(place, file.path) as opened:
        schema = opened.schema_arrow
    yield from ((job, provenance_of(schema), schema.names) for job in file.jobs)


def layout_of(place: Place, where: str, known: dict[str, CompactedFile]) -> Layout:
    """List a folder and read the footers of compacted files that are not `known` yet.

    Files with other names are ignored.
    """
    for _ in range(_TRIES):
        try:
            return _listed(place, where, known)
        except FileNotFoundError:  # compacted since it was listed
            continue
    raise BadInput(f"'{place.address}/{where}' keeps changing; wait for the other command")


def _listed(place: Place, where: str, known: dict[str, CompactedFile]) -> Layout:
    names = [held.name for held in place.files(where)]
    indexes, damaged = {}, {}
    for name in filter(COMPACTED_NAME.fullmatch, names):
        try:
            if name not in known:
                with stored_file(place, f"{where}/{name}") as file:
                    known[name] = jobs_in(name, file)
            indexes[name] = known[name]
        except BadInput as error:
            damaged[name] = str(error)
    held = {n: [n.removesuffix(".parquet")] for n in filter(JOB_FILE_NAME.fullmatch, names)}
    held |= {name: [job for job, _ in index.jobs] for name, index in indexes.items()}
    counts = Counter(chain.from_iterable(held.values()))
    doubled = {job for job, count in counts.items() if count > 1}
    ages = {
        job: _age(place, where, f"{job}.parquet") for job in doubled if f"{job}.parquet" in held
    }
    chosen = _chosen(doubled, ages, indexes.values())
    files = []
    for name, jobs in held.items():
        read = tuple(job for job in jobs if chosen.get(job, name) == name)
        files.append(DataFile(where, name, read, indexes.get(name)))
    return Layout(tuple(files), damaged)


def _chosen(
    doubled: set[str], ages: Mapping[str, tuple[int, int]], indexes: Iterable[CompactedFile]
) -> dict[str, str]:
    """Of every job that several files hold, the file that it is read from."""
    # Time, rows, jobs in the file, its name.
    best = {job: (*age, 0, f"{job}.parquet") for job, age in ages.items()}
    for index in indexes:
        rows = dict(index.jobs)
        for job in doubled.intersection(rows):
            found = (index.written[job], rows[job], len(rows), index.name)
            best[job] = max(best.get(job, found), found)
    return {job: name for job, (*_, name) in best.items()}


def _age(place: Place, where: str, name: str) -> tuple[int, int]:
    """When a file of one job was written, and its number of rows; an unreadable one is oldest."""
    try:
        with stored_file(place, f"{where}/{name}") as file:
            return written_at(file.schema_arrow), file.metadata.num_rows
    except BadInput:
        return -1, 0

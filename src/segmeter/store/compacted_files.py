"""Compacted files: the rows of many jobs of one model and dataset in one parquet file.

The name of a compacted file contains a digest of its model and dataset and one of its content,
which shows whether it is damaged. The footer has an index: the jobs in the order of their rows,
each with the time at which it was written and its provenance. No job spans two row groups, so
damage to a row group affects the jobs of that group only.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from segmeter.core.errors import BadInput, first_line
from segmeter.core.rows import JOB_KEY
from segmeter.core.seeds import fingerprint
from segmeter.store.job_files import BAD_FILE, WRITTEN, provenance_of, written_at
from segmeter.store.storage import Place

COMPACTED_NAME = re.compile(r"compacted-[0-9a-f]{12}-[0-9a-f]{32}\.parquet")
"""Model and dataset, then content, each as a fingerprint."""

_INDEX = b"segmeter.index"
_JOB = re.compile(r"[0-9a-f]{20}")
_GROUP_ROWS = 2048  # rows that damage to one page may cost
_MOST_INDEX = 32 << 20  # bytes; an honest one has some 40 for each job


@dataclass(frozen=True, slots=True)
class JobRows:
    """The rows of one job as an Arrow table, whose metadata is its provenance."""

    id: str
    table: Any

    @property
    def layout(self) -> Any:
        """Columns and types, which all jobs of a compacted file share."""
        return self.table.schema.remove_metadata()


@dataclass(frozen=True, slots=True)
class CompactedFile:
    """The index in the footer of a compacted file."""

    name: str
    schema: Any
    jobs: tuple[tuple[str, int], ...]  # with their numbers of rows, in order
    provenances: Mapping[str, Mapping[str, str]]
    written: Mapping[str, int]  # when, in nanoseconds since 1970


def compacted_bytes(jobs: Iterable[JobRows]) -> bytes:
    """A compacted file of jobs with the same columns, made one row group at a time."""
    file, index = io.BytesIO(), []
    writer: Any = None
    provenances: dict[str, int] = {}  # each once: thousands of jobs share weights and libraries
    for group in _groups(jobs):
        if writer is None:
            options = {"compression": "zstd", "write_page_checksum": True}
            writer = pq.ParquetWriter(file, group[0].layout, **options)
        table = pa.concat_tables([job.table.replace_schema_metadata() for job in group])
        writer.write_table(table, row_group_size=max(1, table.num_rows))
        for job in group:
            text = json.dumps(provenance_of(job.table.schema), sort_keys=True)
            number = provenances.setdefault(text, len(provenances))
            index.append([job.id, job.table.num_rows, number, written_at(job.table.schema)])
    stored = {"jobs": index, "provenances": list(map(json.loads, provenances))}
    writer.add_key_value_metadata({_INDEX: json.dumps(stored, separators=(",", ":"))})
    writer.close()
    return file.getvalue()


def compacted_name(model: str, dataset: str, content: bytes) -> str:
    """The name of a compacted file: digests of model and dataset, and of its content."""
    return f"compacted-{fingerprint(model, dataset, size=6)}-{fingerprint(content)}.parquet"


def whole(name: str, content: bytes) -> bool:
    """Whether a compacted file still has the content of its name's digest."""
    return name.endswith(f"-{fingerprint(content)}.parquet")


def stored_file(place: Place, path: str) -> Any:
    """A parquet file of a run to read from, pages checked; BadInput if it is none.

    FileNotFoundError if another process has compacted it since it was listed.
    """
    files, root = place.arrow()
    return _opened(f"{root}/{path}", files)


def open_bytes(content: bytes) -> Any:
    """The same for a file that was read."""
    return _opened(pa.BufferReader(content))


def _opened(source: Any, files: Any = None) -> Any:
    try:
        return pq.ParquetFile(source, filesystem=files, page_checksum_verification=True)
    except FileNotFoundError:
        raise
    except BAD_FILE as error:
        raise BadInput(f"it cannot be read ({first_line(error)})") from error


def jobs_in(name: str, file: Any) -> CompactedFile:
    """Read and check the index of a compacted file; BadInput if it is corrupt."""
    held = (file.metadata.metadata or {}).get(_INDEX, b"")
    try:
        stored = json.loads(held[:_MOST_INDEX])
        if any(type(v) is not str for held in stored["provenances"] for v in held.values()):
            raise TypeError
        jobs = tuple((str(job), rows) for job, rows, _, _ in stored["jobs"])
        provenances = {
            str(job): stored["provenances"][number] for job, _, number, _ in stored["jobs"]
        }
        written = {str(job): int(at) for job, _, _, at in stored["jobs"]}
    except (*BAD_FILE, RecursionError, LookupError, AttributeError) as error:
        raise BadInput("it has no index of its jobs") from error
    wrong = _wrong_index(jobs, file.metadata)
    if wrong:
        raise BadInput(f"corrupt index: {wrong}")
    return CompactedFile(name, file.schema_arrow, jobs, provenances, written)


def readable_jobs(compacted: CompactedFile, file: Any) -> Iterator[JobRows]:
    """The rows of every job whose row group can be read."""
    for number, inside in enumerate(groups_of(compacted, file)):
        try:
            yield from group_rows(compacted, file, number, inside)
        except BadInput:
            continue


def groups_of(compacted: CompactedFile, file: Any) -> list[list[tuple[str, int]]]:
    """The jobs in each row group, with their numbers of rows."""
    waiting = iter(compacted.jobs)
    groups: list[list[tuple[str, int]]] = []
    for number in range(file.metadata.num_row_groups):
        rows = file.metadata.row_group(number).num_rows
        groups.append([])
        while rows > 0:
            groups[-1].append(next(waiting))
            rows -= groups[-1][-1][1]
    return groups


def group_rows(
    compacted: CompactedFile, file: Any, number: int, inside: Sequence[tuple[str, int]]
) -> list[JobRows]:
    """The rows of the jobs of one row group; BadInput if it is damaged."""
    try:
        table = file.read_row_group(number)
        table.validate(full=True)
    except BAD_FILE as error:
        raise BadInput(f"it cannot be read ({first_line(error)})") from error
    found = []
    for job, rows in by_job(table, inside):
        facts = {**compacted.provenances[job], WRITTEN: str(compacted.written[job])}
        found.append(JobRows(job, rows.replace_schema_metadata(facts)))
    return found


def by_job(table: Any, inside: Iterable[tuple[str, int]]) -> Iterator[tuple[str, Any]]:
    start = 0
    for job, count in inside:
        yield job, table.slice(start, count)
        start += count


def job_of(table: Any) -> tuple[str, str, str] | None:
    """Model, dataset and scene of rows that belong to one job; none if they belong to several."""
    if not table.num_rows or not set(JOB_KEY) <= set(table.column_names):
        return None
    found = [table[name].unique() for name in JOB_KEY]
    texts = [v[0].as_py() for v in found if len(v) == 1 and isinstance(v[0].as_py(), str)]
    return (texts[0], texts[1], texts[2]) if len(texts) == len(JOB_KEY) else None


def _groups(jobs: Iterable[JobRows]) -> Iterator[list[JobRows]]:
    """Whole jobs, so many that they make up a row group."""
    waiting: list[JobRows] = []
    rows = 0
    for job in jobs:
        waiting.append(job)
        rows += job.table.num_rows
        if rows >= _GROUP_ROWS:
            yield waiting
            waiting, rows = [], 0
    if waiting:
        yield waiting


def _wrong_index(jobs: Sequence[tuple[str, Any]], metadata: Any) -> str:
    job_ids = {job for job, _ in jobs}
    if any(type(rows) is not int or rows < 1 for _, rows in jobs):
        return "a job has no rows"
    if len(job_ids) != len(jobs) or any(not _JOB.fullmatch(job) for job, _ in jobs):
        return "a job is named twice or wrongly"
    ends = list(accumulate(rows for _, rows in jobs))
    sizes = (metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))
    if ends[-1:] != [metadata.num_rows] or not set(accumulate(sizes)) <= set(ends):
        return "row counts do not match"
    return ""

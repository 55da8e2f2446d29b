"""Job tables: the job files of a run as Arrow tables, in declared types, checked when read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from segmeter.core.errors import BadInput, first_line
from segmeter.core.rows import Schema
from segmeter.store.compacted_files import by_job, groups_of, stored_file
from segmeter.store.folder import RunFolder
from segmeter.store.job_files import ARROW_TYPES, BAD_FILE, kind_of, wrong_types
from segmeter.store.job_index import DataFile

FILE = "file_"
"""The column with the number of the file that a row comes from."""

_UNREADABLE = (BadInput, *BAD_FILE)
_GROUPS_AT_ONCE = 32  # row groups are small, and each call takes a while


@dataclass(frozen=True, slots=True)
class RowFiles:
    """The files of a folder whose columns are what is declared."""

    folder: RunFolder
    files: list[DataFile]
    schemas: list[Any]  # the Arrow schema of each file
    damaged: dict[str, str]  # what is left out, and why; grows while files are read
    columns: dict[str, Any]  # every column of the files with one type

    @classmethod
    def of(
        cls,
        folder: RunFolder,
        where: str,
        schema: Schema,
        left_out: Mapping[str, Sequence[str]] | None = None,
        only: Collection[str] | None = None,
    ) -> RowFiles:
        """List a folder and look at the footers, or at those of files with `only` some jobs."""
        source, root = folder.place.arrow()
        layout = folder.layout(where)
        damaged = {f"{where}/{name}": why for name, why in layout.damaged.items()}
        files, schemas = [], []
        for file in layout.files:
            lost = set((left_out or {}).get(file.path, ()))
            jobs = tuple(j for j in file.jobs if j not in lost and (only is None or j in only))
            if not jobs:
                continue
            try:
                found = (
                    pq.read_schema(f"{root}/{file.path}", filesystem=source)
                    if file.compacted is None
                    else file.compacted.schema
                )
                why = wrong_types(found, schema)
            except _UNREADABLE as error:
                if not folder.place.exists(file.path):
                    raise FileNotFoundError(file.path) from error
                why = first_line(error)
            if why:
                damaged[file.path] = why
            else:
                files.append(DataFile(where, file.name, jobs, file.compacted))
                schemas.append(found)
        return cls(folder, files, schemas, damaged, _union(schemas, schema))

    def stream(self, columns: Mapping[str, Any], *, number: bool = False) -> Any:
        """All rows in one pass; what cannot be read is reported and skipped.

        With `number` rows have the number of their file.
        """
        types = pa.schema(list(columns.items()))
        numbered = types.append(pa.field(FILE, pa.int32())) if number else types
        return pa.RecordBatchReader.from_batches(numbered, self._batches(types, number))

    def dataset(self, columns: Mapping[str, Any]) -> Any:
        """The rows as an Arrow dataset, which can be read many times.

        Files that are read whole are scanned on disk; the rows of others are in memory.
        """
        from pyarrow import dataset

        source, root = self.folder.place.arrow()
        checking = dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
        parquet = dataset.ParquetFileFormat(default_fragment_scan_options=checking)
        types = pa.schema(list(columns.items()))
        whole = [f"{root}/{file.path}" for file in self.files if file.whole]
        fragments = [parquet.make_fragment(path, source) for path in whole]
        scanned = dataset.FileSystemDataset(fragments, types, parquet, source)
        partly = [self.table(file, columns) for file in self.files if not file.whole]
        if not partly:
            return scanned
        return dataset.dataset([scanned, dataset.dataset(pa.concat_tables(partly))])

    def table(self, file: DataFile, columns: Mapping[str, Any]) -> Any:
        """The rows of one file that can be read."""
        types = pa.schema(list(columns.items()))
        return pa.concat_tables([types.empty_table(), *self._tables(file, types)])

    def _batches(self, types: Any, number: bool) -> Iterator[Any]:
        for k, file in enumerate(self.files):
            for table in self._tables(file, types):
                yield from (_numbered(table, k) if number else table).to_batches()

    def _tables(self, file: DataFile, types: Any) -> Iterator[Any]:
        """The rows of a file, a row group at a time; what is damaged is named."""
        try:
            with stored_file(self.folder.place, file.path) as opened:
                if file.compacted is None:
                    yield _columns(opened, range(opened.num_row_groups), types)
                    return
                wanted = set(file.jobs)
                inside = groups_of(file.compacted, opened)
                whole = [k for k, jobs in enumerate(inside) if all(j in wanted for j, _ in jobs)]
                for start in range(0, len(whole), _GROUPS_AT_ONCE):
                    some = whole[start : start + _GROUPS_AT_ONCE]
                    yield from self._groups(file, opened, some, types)
                for k in sorted({*range(len(inside))}.difference(whole)):
                    if any(job in wanted for job, _ in inside[k]):
                        for table in self._groups(file, opened, [k], types):
                            yield from (own for j, own in by_job(table, inside[k]) if j in wanted)
        except _UNREADABLE as error:
            if not self.folder.place.exists(file.path):  # compacted meanwhile
                raise FileNotFoundError(file.path) from error
            self.damaged.setdefault(file.path, first_line(error))

    def _groups(self, file: DataFile, opened: Any, groups: Sequence[int], types: Any) -> list[Any]:
        """Some row groups in one table, or each that can be read where one is damaged."""
        try:
            return [_columns(opened, groups, types)]
        except _UNREADABLE as error:
            if len(groups) == 1:
                self.damaged.setdefault(file.path, first_line(error))
                return []
            return [table for k in groups for table in self._groups(file, opened, [k], types)]


def _columns(file: Any, groups: Sequence[int], types: Any) -> Any:
    """Some columns of some row groups in their declared types, checked."""
    held = set(file.schema_arrow.names)
    there = [name for name in types.names if name in held]
    table = file.read_row_groups(groups, columns=there, use_threads=len(groups) > 1)
    table.validate(full=True)
    columns = [
        table[one.name].cast(one.type) if one.name in held else pa.nulls(len(table), one.type)
        for one in types
    ]
    return pa.table(columns, schema=types)


def int32_array(numbers: Any) -> Any:
    """Whole numbers for Arrow, from a buffer: pa.array would import pandas, 0.2 s."""
    buffer = pa.py_buffer(np.asarray(numbers, np.int32))
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, buffer])


def _numbered(table: Any, number: int) -> Any:
    column = int32_array(np.full(len(table), number))
    return table.append_column(pa.field(FILE, pa.int32()), column)


def _union(schemas: Iterable[Any], schema: Schema) -> dict[str, Any]:
    """Every column of some files with one type: the declared one, or the first that is known.

    SQL ignores case: of names that differ in case only, the declared or else the first is taken.
    """
    declared = {column.name: ARROW_TYPES[column.kind] for column in schema.columns}
    found: dict[str, Any] = dict(declared)
    spelled = {name.lower(): name for name in found}
    for one in dict.fromkeys(s.remove_metadata() for s in schemas):
        for name, type_ in zip(one.names, one.types, strict=True):
            if spelled.setdefault(name.lower(), name) != name:
                continue
            if found.get(name) is None or found[name] == pa.null():
                if kind := kind_of(type_):
                    type_ = ARROW_TYPES["number" if kind == "integer" else kind]
                found[name] = declared.get(name, type_)
    return {n: pa.string() if t == pa.null() else t for n, t in found.items()}

"""Views: the parts of a run as one table, checked, that SQL can be asked about.

DuckDB sees Arrow data sets made of listed files, never a path: nothing is globbed, nothing is
quoted into SQL, and the connection itself may open no file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.rows import ERROR_ROWS, JOB_KEY, SHARES, Column, Schema, measure_column
from segmeter.core.seeds import fingerprint
from segmeter.store.folder import Part, RunFolder
from segmeter.store.packs import Pack
from segmeter.store.parts import arrow_type, decode, kind_of, trail_of, wrong_types

if TYPE_CHECKING:
    import duckdb

__all__ = ["MOST_PIXELS", "Checked", "check_parts", "connect", "quoted", "wrong_rows"]

Source = Callable[[Sequence[Part], Mapping[str, Any]], Any]
MOST_PIXELS = {2: 1 << 28, 3: 1 << 31}
"""Of a picture or a volume that a row claims to have been played on: larger ones are not read."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Parts whose columns are what is declared, and why others are left out."""

    parts: tuple[tuple[Part, Any], ...] = ()  # with their Arrow schemas
    damaged: Mapping[str, str] = field(default_factory=dict)
    packs: Mapping[str, Pack] = field(default_factory=dict)  # those of the parts that are packs

    def trails(self) -> Iterable[dict[str, str]]:
        """Where numbers come from, each trail of a pack once."""
        for part, schema in self.parts:
            pack = self.packs.get(part[1])
            if pack is None:
                yield trail_of(schema)
            else:
                yield from (dict(t) for t in {id(t): t for t in pack.trails.values()}.values())

    def job_ids(self) -> set[str]:
        """Ids of all jobs that have rows here."""
        loose = {name.removesuffix(".parquet") for (_, name), _ in self.parts}
        inside = {job for pack in self.packs.values() for job in pack.trails}
        return loose.difference(n.removesuffix(".parquet") for n in self.packs) | inside

    def holding(self, job_id: str) -> Checked:
        """The one part that holds a job; nothing if none does."""
        names = {
            f"{job_id}.parquet",
            *(n for n, pack in self.packs.items() if job_id in pack.trails),
        }
        return Checked(tuple(p for p in self.parts if p[0][1] in names))

    def without(self, damaged: Mapping[str, str]) -> Checked:
        """The same less some parts, and why."""
        left = tuple(p for p in self.parts if "/".join(p[0]) not in damaged)
        packs = {n: pack for n, pack in self.packs.items() if f"parts/{n}" not in damaged}
        return Checked(left, {**self.damaged, **damaged}, packs)


def check_parts(
    folder: RunFolder, where: str, schema: Schema, *, thoroughly: bool = False, only: str = ""
) -> Checked:
    """Look at every part of a folder, or at the one that holds `only` a job.

    Its columns are checked, and `thoroughly` its rows as well.
    """
    layout = folder.layout(where)
    packs = {pack.name: pack for pack in layout.packs}
    good, damaged = [], {f"{where}/{name}": why for name, why in layout.damaged.items()}
    for part in folder.parts(where):
        if only and part[1] != f"{only}.parquet" and only not in _jobs_in(packs, part):
            continue
        name = "/".join(part)
        if name in damaged:
            continue
        try:
            found, wrong = _looked_at(folder, part, schema, packs.get(part[1]), thoroughly)
        except (BadInput, pa.ArrowException, OSError, ValueError) as error:
            wrong = str(error).split("\n")[0][:200]
        else:
            wrong = wrong_types(found, schema) or wrong
        if wrong:
            damaged[name] = wrong
        else:
            good.append((part, found))
    there = {part[1] for part, _ in good}
    return Checked(tuple(good), damaged, {n: pack for n, pack in packs.items() if n in there})


def _jobs_in(packs: Mapping[str, Pack], part: Part) -> Collection[str]:
    pack = packs.get(part[1])
    return () if pack is None else pack.trails


def _looked_at(
    folder: RunFolder, part: Part, schema: Schema, pack: Pack | None, thoroughly: bool
) -> tuple[Any, str]:
    """The columns of a part, and what is wrong with its rows as far as they are looked at."""
    import pyarrow.parquet as pq

    name = "/".join(part)
    if thoroughly:
        table = decode(folder.place.read(name))
        jobs = [part[1].removesuffix(".parquet")] if pack is None else pack.trails
        return table.schema, wrong_rows(table, schema, jobs)
    if pack is not None:
        return pack.schema, ""
    files, root = folder.place.arrow()
    return pq.read_schema(f"{root}/{name}", filesystem=files), ""


def wrong_rows(table: Any, schema: Schema, job_ids: Collection[str]) -> str:
    """What is wrong with rows that should be those of some jobs; nothing if all is well."""
    if not set(schema.key) <= set(table.column_names):
        return "it lacks columns"
    for column in schema.key:
        if table[column].null_count:
            return f"a row has no '{column}'"
    keys = list(zip(*(table[column].to_pylist() for column in schema.key), strict=True))
    if len(set(keys)) != len(keys):
        return "two rows have the same key"
    jobs = {key[: len(JOB_KEY)] for key in keys}
    if jobs and {fingerprint(*job, size=10) for job in jobs} != set(job_ids):
        return "its rows belong to another job than its name"
    if "shape" in table.column_names and not all(_sane(s) for s in table["shape"].to_pylist()):
        return "a row claims a scene of impossible size"
    wrong = [name for name in SHARES if name in table.column_names and not _are_shares(table[name])]
    return f"a row's '{wrong[0]}' is no share of one" if wrong else ""


def _are_shares(column: Any) -> bool:
    if not pa.types.is_floating(column.type) and not pa.types.is_integer(column.type):
        return True  # told elsewhere
    values = column.drop_null().to_numpy()
    return bool(((values >= 0) & (values <= 1)).all())


def _sane(shape: Sequence[int | None] | None) -> bool:
    if shape is None:
        return True
    sides = [side for side in shape if side is not None and side > 0]
    return len(sides) == len(shape) and math.prod(sides) <= MOST_PIXELS.get(len(sides), 0)


def connect(
    folder: RunFolder,
    checked: Checked | None,
    errors: Checked,
    schema: Schema,
    source: Source | None = None,
    tables: Mapping[str, Any] | None = None,
) -> duckdb.DuckDBPyConnection:
    """A connection with the views `rows` and `errors` that can reach nothing else.

    Without `checked` there are no rows. `source` makes what Arrow reads some parts with, a data
    set of files unless given; `tables` are Arrow tables to have beside the views.
    """
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise NotFound(
            "summaries need duckdb, which is not installed here; the rows are kept, take the "
            "run folder to a machine that has it"
        ) from error
    connection = duckdb.connect(":memory:", config={"enable_external_access": "false"})
    if checked is not None:
        connection.execute(
            _rows_view(connection, folder, checked, schema, source or partial(_dataset, folder))
        )
    connection.execute(f"create view errors as {_errors(connection, folder, errors)}")
    for name, table in (tables or {}).items():
        connection.register(name, table)
    connection.execute("set lock_configuration = true")
    return connection


def _rows_view(
    connection: duckdb.DuckDBPyConnection,
    folder: RunFolder,
    checked: Checked,
    schema: Schema,
    source: Source,
) -> str:
    """Register parts and scores; the statement that makes the view of them."""
    pieces = [
        _legacy_select(connection, source, group, schema, k)
        for k, group in enumerate(_by_layout(checked))
    ]
    joined, added = _scores(connection, folder, schema, _columns(checked, schema))
    key = ", ".join(quoted(name) for name in schema.key)
    return (
        f"create view rows as select parts.*{''.join(f', {a}' for a in added)} from "
        f"({' union all by name '.join(pieces)}) as parts"
        + "".join(f" left join {table} using ({key})" for table in joined)
    )


def quoted(name: str) -> str:
    """A name of a column or table in SQL.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def _by_layout(checked: Checked) -> list[list[tuple[Part, Any]]]:
    """Parts of version 0.1, whose groups are JSON text, apart from all later ones."""
    old = [p for p in checked.parts if _is_old(p[1])]
    new = [p for p in checked.parts if not _is_old(p[1])]
    return [group for group in (old, new) if group]


def _is_old(schema: Any) -> bool:
    named = dict(zip(schema.names, schema.types, strict=True))
    return "height" in named or kind_of(named.get("groups", pa.null())) == "text"


def _legacy_select(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    group: Sequence[tuple[Part, Any]],
    schema: Schema,
    number: int,
) -> str:
    """Register the parts of one layout; the query that gives them the layout of today."""
    table = f"parts_{number}"
    columns = _union((found for _, found in group), schema)
    if {"height", "width"} <= columns.keys():
        columns.pop("shape", None)
    connection.register(table, source([part for part, _ in group], columns))
    gone, made = [], []
    if {"height", "width"} <= columns.keys():
        gone += ["height", "width"]
        made.append("[height, width]::bigint[] as shape")
    if columns.get("groups") == pa.string():
        gone.append("groups")
        made.append("try_cast(try_cast(groups as json) as map(varchar, varchar)) as groups")
    without = f" exclude ({', '.join(gone)})" if gone else ""
    return f"select {', '.join([f'*{without}', *made])} from {table}"


def _union(schemas: Iterable[Any], schema: Schema) -> dict[str, Any]:
    """Every column of some parts with one type: the declared one, or the first that is known."""
    declared = {column.name: arrow_type(column.kind) for column in schema.columns}
    found: dict[str, Any] = dict(declared)
    for one in dict.fromkeys(s.remove_metadata() for s in schemas):
        for name, type_ in zip(one.names, one.types, strict=True):
            if found.get(name) is None or found[name] == pa.null():
                found[name] = declared.get(name, _canonical(type_))
            if name == "groups" and kind_of(type_) == "text":
                found[name] = pa.string()
    return {n: pa.string() if t == pa.null() else t for n, t in found.items()}


def _canonical(type_: Any) -> Any:
    kind = kind_of(type_)
    return type_ if kind is None else arrow_type("number" if kind == "integer" else kind)


def _dataset(folder: RunFolder, parts: Sequence[Part], columns: Mapping[str, Any]) -> Any:
    from pyarrow import dataset

    files, root = folder.place.arrow()
    checking = dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
    return dataset.dataset(
        [f"{root}/{'/'.join(part)}" for part in parts],
        schema=pa.schema(list(columns.items())),
        format=dataset.ParquetFileFormat(default_fragment_scan_options=checking),
        filesystem=files,
    )


def _columns(checked: Checked, schema: Schema) -> set[str]:
    return set(schema.names).union(*(found.names for _, found in checked.parts))


def _scores(
    connection: duckdb.DuckDBPyConnection, folder: RunFolder, schema: Schema, known: set[str]
) -> tuple[list[str], list[str]]:
    """Measures that were added later: tables to join, and the columns they add."""
    kinds = {column.name: column for column in schema.columns}
    wanted = Schema(
        "scores", (*(kinds[name] for name in schema.key), Column("value", "number")), schema.key
    )
    joined, added = [], []
    for number, measure in enumerate(folder.measures()):
        column = measure_column(measure)
        checked = check_parts(folder, f"scores/{measure}", wanted)
        if column in known or not checked.parts:
            continue
        types = {c.name: arrow_type(c.kind) for c in wanted.columns}
        table = f"score_{number}"
        connection.register(
            f"{table}_parts", _dataset(folder, [part for part, _ in checked.parts], types)
        )
        key = ", ".join(quoted(name) for name in schema.key)
        # One value for a key, whatever a damaged file repeats.
        connection.execute(
            f"create view {table} as select {key}, max(value) as value from {table}_parts group by "
            f"{key}"
        )
        joined.append(table)
        added.append(f"{table}.value as {quoted(column)}")
        known.add(column)
    return joined, added


def _errors(connection: duckdb.DuckDBPyConnection, folder: RunFolder, errors: Checked) -> str:
    types = {column.name: arrow_type(column.kind) for column in ERROR_ROWS.columns}
    if not errors.parts:
        empty = ", ".join(f"null::varchar as {quoted(name)}" for name in types)
        return f"select {empty} where false"
    connection.register("error_parts", _dataset(folder, [p for p, _ in errors.parts], types))
    return "select * from error_parts"

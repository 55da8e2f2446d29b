"""Views: the parts of a run as one table, checked, that SQL can be asked about.

DuckDB sees Arrow data sets made of listed files, never a path: nothing is globbed, nothing is
quoted into SQL, and the connection itself may open no file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.rows import ERROR_ROWS, JOB_KEY, SHARES, Column, Schema, measure_column
from segmeter.core.seeds import fingerprint
from segmeter.store.folder import Part, RunFolder
from segmeter.store.packs import Pack, file_of, group_rows, groups_of
from segmeter.store.parts import arrow_type, decode, first_line, kind_of, trail_of, wrong_types

if TYPE_CHECKING:
    import duckdb

__all__ = ["MOST_PIXELS", "Checked", "Groups", "check_parts", "connect", "quoted", "wrong_rows"]

Source = Callable[[Sequence[Part], Mapping[str, Any]], Any]
Groups = Mapping[str, tuple[int, ...]]
"""Of packs by name: which row groups."""
MOST_PIXELS = {2: 1 << 28, 3: 1 << 31}
"""Of an image or a volume that a row claims to have been played on: larger ones are not read."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Parts whose columns are what is declared, and why others are left out.

    Attributes
    ----------
    parts
        What is read, with the Arrow schema of each.
    damaged
        What is left out and why, by its name; of a pack perhaps only some jobs.
    packs
        Those of the parts that are packs, with the jobs that are read.
    groups
        Row groups that are read of packs, where it is not all of them.
    """

    parts: tuple[tuple[Part, Any], ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)
    packs: Mapping[str, Pack] = field(default_factory=dict)
    groups: Groups = field(default_factory=dict)

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

    def without(self, damaged: Mapping[str, str]) -> Checked:
        """The same less some parts, and why."""
        left = tuple(p for p in self.parts if "/".join(p[0]) not in damaged)
        packs = {n: pack for n, pack in self.packs.items() if f"parts/{n}" not in damaged}
        return Checked(left, {**self.damaged, **damaged}, packs, self.groups)


def check_parts(
    folder: RunFolder, where: str, schema: Schema, *, thoroughly: bool = False, only: str = ""
) -> Checked:
    """Look at every part of a folder, or at the one that holds `only` a job.

    Its columns are checked, and `thoroughly` its rows as well; what is sound of a damaged pack
    is kept.
    """
    layout = folder.layout(where)
    packs = {pack.name: pack for pack in layout.packs}
    good, damaged = [], {f"{where}/{name}": why for name, why in layout.damaged.items()}
    groups: dict[str, tuple[int, ...]] = {}
    for part in folder.parts(where):
        name, pack = "/".join(part), packs.get(part[1])
        if name in damaged or (only and not _holds(part, pack, only)):
            continue
        looked = _looked_at(folder, part, schema, pack, thoroughly=thoroughly, only=only)
        if looked.wrong:
            damaged[name] = looked.wrong
        if looked.pack is not None and looked.pack is not pack:
            packs[part[1]], groups[part[1]] = looked.pack, looked.groups
        if not looked.wrong or looked.groups:
            good.append((part, looked.schema))
    there = {part[1] for part, _ in good}
    sound = {name: pack for name, pack in packs.items() if name in there}
    return Checked(tuple(good), damaged, sound, groups)


def _holds(part: Part, pack: Pack | None, job_id: str) -> bool:
    return part[1] == f"{job_id}.parquet" if pack is None else job_id in pack.trails


@dataclass(frozen=True, slots=True)
class _Looked:
    """What was found of a part: its columns, what is wrong, and of a pack what is read."""

    schema: Any = None
    wrong: str = ""
    pack: Pack | None = None
    groups: tuple[int, ...] = ()


def _looked_at(
    folder: RunFolder,
    part: Part,
    schema: Schema,
    pack: Pack | None,
    *,
    thoroughly: bool,
    only: str,
) -> _Looked:
    """The columns of a part, and what is wrong with its rows as far as they are looked at."""
    import pyarrow.parquet as pq

    name, (files, root) = "/".join(part), folder.place.arrow()
    try:
        if pack is not None and (thoroughly or only):
            with file_of(f"{root}/{name}", files) as file:
                return _looked_into(pack, file, schema, only)
        if pack is not None:
            return _Looked(pack.schema, wrong_types(pack.schema, schema), pack)
        if thoroughly:
            table = decode(folder.place.read(name))
            wrong = wrong_rows(table, schema, [part[1].removesuffix(".parquet")])
            return _Looked(table.schema, wrong_types(table.schema, schema) or wrong)
        found = pq.read_schema(f"{root}/{name}", filesystem=files)
        return _Looked(found, wrong_types(found, schema))
    except (BadInput, pa.ArrowException, OSError, ValueError) as error:
        return _Looked(wrong=first_line(error))


def _looked_into(pack: Pack, file: Any, schema: Schema, only: str) -> _Looked:
    """The row groups of a pack that can be read and whose rows are those of its jobs."""
    wrong = wrong_types(pack.schema, schema)
    if wrong:
        return _Looked(pack.schema, wrong)
    inside = groups_of(pack, file)
    wanted = [k for k, jobs in enumerate(inside) if not only or only in dict(jobs)]
    faults = {k: _wrong_group(pack, file, k, inside[k], schema) for k in wanted}
    sound = tuple(k for k, fault in faults.items() if not fault)
    if len(sound) == len(inside):
        return _Looked(pack.schema, "", pack)
    kept = tuple(job for k in sound for job in inside[k])
    lost = sum(len(inside[k]) for k, fault in faults.items() if fault)
    why = next((fault for fault in faults.values() if fault), "")
    are = "is" if lost == 1 else "are"
    told = f"{why}; {lost} of its {len(pack.jobs)} jobs {are} left out" if why else ""
    trails = {job: pack.trails[job] for job, _ in kept}
    return _Looked(pack.schema, told, replace(pack, jobs=kept, trails=trails), sound)


def _wrong_group(
    pack: Pack, file: Any, number: int, inside: Sequence[tuple[str, int]], schema: Schema
) -> str:
    try:
        jobs = group_rows(pack, file, number, inside)
    except BadInput as error:
        return str(error)
    return next(filter(None, (wrong_rows(job.table, schema, [job.id]) for job in jobs)), "")


def wrong_rows(table: Any, schema: Schema, job_ids: Collection[str]) -> str:
    """What is wrong with rows that should be those of some jobs; nothing if all is well."""
    if not set(schema.key) <= set(table.column_names):
        return "it lacks columns"
    for column in schema.key:
        if table[column].null_count:
            return f"a row has no '{column}'"
    keys = list(zip(*(table[column].to_pylist() for column in schema.key), strict=True))
    # Of rows whose benchmark is not here nothing is known but whose job they are.
    if schema.key != JOB_KEY and len(set(keys)) != len(keys):
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
        connection.execute(_rows_view(connection, folder, checked, schema, source))
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
    source: Source | None,
) -> str:
    """Register parts and scores; the statement that makes the view of them."""
    source = source or partial(_dataset, folder, groups=checked.groups)
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


def _dataset(
    folder: RunFolder,
    parts: Sequence[Part],
    columns: Mapping[str, Any],
    groups: Groups | None = None,
) -> Any:
    """Parts as one data set of Arrow's, of some packs only some row groups."""
    from pyarrow import dataset

    files, root = folder.place.arrow()
    checking = dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
    parquet = dataset.ParquetFileFormat(default_fragment_scan_options=checking)
    some = groups or {}
    fragments = [
        parquet.make_fragment(f"{root}/{'/'.join(part)}", files, row_groups=some.get(part[1]))
        for part in parts
    ]
    return dataset.FileSystemDataset(fragments, pa.schema(list(columns.items())), parquet, files)


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
            f"{table}_parts", _dataset(folder, [p for p, _ in checked.parts], types, checked.groups)
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

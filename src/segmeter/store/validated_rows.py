"""Validated rows: read and check the rows of a run in one pass over its files.

Statistics read whole sessions many times. One pass over the files gives them, one row per
session with its rounds as lists, and finds what must be excluded: files that cannot be read, and
jobs whose rows are not theirs, share a key, lack rounds or hold impossible values. Memory grows
with the number of sessions, not with that of files.

DuckDB sees Arrow data made of listed files, never a path: nothing is globbed, nothing is quoted
into SQL, and the connection itself may open no file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.rows import (
    ERROR_ROWS,
    JOB_KEY,
    SESSION_FACTS,
    SESSION_KEY,
    SESSION_LISTS,
    SESSION_ROWS,
    SHARES,
    Schema,
)
from segmeter.core.scores_by_step import numbers_of, quoted
from segmeter.core.seeds import fingerprint
from segmeter.store.compacted_files import whole
from segmeter.store.folder import RunFolder
from segmeter.store.job_files import ARROW_TYPES, kind_of, provenance_of
from segmeter.store.job_tables import FILE, RowFiles, int32_array

if TYPE_CHECKING:
    import duckdb

SESSION = SESSION_KEY[:-1]
"""The columns that identify a session."""

_CHECKED = ("shape", *SHARES)  # columns beyond the key whose values are verified

JOB_ROWS = Schema("rows", SESSION_ROWS.columns[: len(JOB_KEY)], JOB_KEY)
"""All that is known of the rows of a benchmark that is not installed or declares none."""

(KINDS,) = SESSION_FACTS
_FAULT = "fault_"  # the column with what is wrong with a row
_PLACE = "place_"  # the column with the number of a row
_MOST_PIXELS = {2: 1 << 28, 3: 1 << 31}  # of an image and a volume; larger ones are not read
_LISTED = ("seconds_encode", "seconds_predict", "seconds_user", "stopped", *SESSION_LISTS)
_NEEDED = {*SESSION_KEY, "kinds", *_LISTED}
_POSSIBLE_SHAPE = f"""
    shape is null or (len(shape) between 2 and 3 and len(shape) = len(list_filter(
        shape, lambda side: side is not null and side between 1 and {_MOST_PIXELS[3]}))
        and list_product(list_transform(shape, lambda side: side::double))
            <= case len(shape) when 2 then {_MOST_PIXELS[2]} else {_MOST_PIXELS[3]} end)
"""


@dataclass(frozen=True, slots=True)
class Contents:
    """The result of one pass over the files of a run.

    `sessions` has one row per session in the order of its key, with the facts of its schema, and
    as lists over the rounds `kinds_` of prompts, measured seconds and every measure; it is None
    where rows are no rounds of sessions.
    """

    sessions: pa.Table | None
    models: Mapping[str, Mapping[str, str]]  # of each model, the provenance in its first file
    damaged: Mapping[str, str]  # files that are left out, wholly or in part, and why
    left_out: Mapping[str, Sequence[str]]  # by file: the jobs that are not read


def has_sessions(schema: Schema) -> bool:
    """Whether rows are rounds of sessions."""
    return schema.key == SESSION_KEY


def read_contents(folder: RunFolder, schema: Schema) -> Contents:
    """Read and verify every file of a run; BadInput if no job can be read."""
    found = RowFiles.of(folder, "jobs", schema)
    connection = database()
    light = {n: t for n, t in found.columns.items() if _is_light(n, t, schema)}
    connection.register("files", found.stream(light, number=True))
    known = [*light, FILE]
    if has_sessions(schema):
        table = sessions_of(connection, "from files", known, schema)
    else:
        table = connection.sql(_keys_query(schema, known)).to_arrow_table()
    left_out, good = _left_out(connection, table, found)
    sessions = None
    if has_sessions(schema):
        sessions = _without_faults(connection, table, good if left_out else None)
    connection.close()
    pa.default_memory_pool().release_unused()  # a tenth of a GB of file contents
    if not any(len(left_out.get(f.path, ())) < len(f.jobs) for f in found.files):
        why = next((f"; {name}: {why}" for name, why in found.damaged.items()), "")
        raise BadInput(f"'{folder.address}' has no finished job yet{why}")
    return Contents(sessions, _models(found, left_out), found.damaged, left_out)


def verify_files(folder: RunFolder, schema: Schema) -> dict[str, str]:
    """Read every file of a run completely; what is wrong with it, by file."""
    wrong: dict[str, str] = {}
    for where, columns in (("jobs", schema), ("errors", ERROR_ROWS)):
        wrong |= verified_files(folder, columns, where)[0].damaged
        for compacted in folder.layout(where).compacted_files:
            path = f"{where}/{compacted.name}"
            if not whole(compacted.name, folder.place.read(path)):
                wrong.setdefault(path, "its content does not match the digest in its name")
    return wrong


def good_rows(folder: RunFolder, schema: Schema, left_out: Mapping[str, Sequence[str]]) -> Any:
    """The rows of a run without those that are left out, as an Arrow dataset."""
    found = RowFiles.of(folder, "jobs", schema, left_out)
    return found.dataset(found.columns)


def error_rows(folder: RunFolder) -> pa.Table:
    """The errors of jobs that failed; files that cannot be read are left out."""
    found = RowFiles.of(folder, "errors", ERROR_ROWS)
    columns = {column.name: ARROW_TYPES[column.kind] for column in ERROR_ROWS.columns}
    return found.stream(columns).read_all()


def job_table(folder: RunFolder, job: str, schema: Schema) -> pa.Table | None:
    """All rows of one job; None if it has none."""
    found = RowFiles.of(folder, "jobs", schema, only=[job])
    tables = (found.table(file, found.columns) for file in found.files)
    return next((t.sort_by([(name, "ascending") for name in schema.key]) for t in tables), None)


def verified_files(
    folder: RunFolder, schema: Schema, where: str = "jobs", only: Collection[str] | None = None
) -> tuple[RowFiles, dict[str, list[str]]]:
    """Read and check all columns of files, or of those with `only` some jobs.

    Returns the files, whose `damaged` says what is wrong, and by file the jobs to leave out.
    """
    found = RowFiles.of(folder, where, schema, only=only)
    if not found.files:  # as when a run begins, which then need not wait for DuckDB's import
        return found, {}
    connection = database()
    connection.register("files", found.stream(found.columns, number=True))
    table = connection.sql(_keys_query(schema, [*found.columns, FILE])).to_arrow_table()
    left_out, _ = _left_out(connection, table, found)
    connection.close()
    return found, left_out


def check_database() -> None:
    """NotFound where duckdb is not installed."""
    try:
        import duckdb  # noqa: F401  # only whether it is there
    except ModuleNotFoundError as error:
        raise NotFound(
            "summaries need duckdb, which is not installed here; the rows are kept: use the run "
            "folder on a machine that has it"
        ) from error


def database() -> duckdb.DuckDBPyConnection:
    """A connection that can open no file; its temporary views are its own."""
    check_database()
    return _engine().cursor()


@cache  # starting one takes longer than most queries
def _engine() -> duckdb.DuckDBPyConnection:
    import duckdb

    return duckdb.connect(
        ":memory:", config={"enable_external_access": "false", "lock_configuration": "true"}
    )


def sessions_of(
    connection: duckdb.DuckDBPyConnection,
    rows: str,
    columns: Sequence[str],
    schema: Schema = SESSION_ROWS,
) -> pa.Table:
    """The sessions of a query's rows with these columns: facts, and lists over the rounds.

    If rows name their file, so do sessions, and the fault of one is in `fault_`.
    """
    # Kinds of a round's prompts, as `click` or `box+click`; empty where there were none.
    kinds = "coalesce(kinds, '')" if "kinds" in columns else "''"
    held = ", ".join(quoted(n) for n in columns if n != KINDS)
    table = connection.sql(f"select {held}, {kinds} as {KINDS} from ({rows})").to_arrow_table()
    sessions, in_order = _grouped(connection, table, columns, schema, in_order=True)
    if not in_order:
        key = ", ".join(map(quoted, [*SESSION, *_file_of(columns), "round"]))
        connection.register("unordered", table)
        table = connection.sql(f"select * from unordered order by {key}").to_arrow_table()
        connection.unregister("unordered")
        sessions, _ = _grouped(connection, table, columns, schema, in_order=False)
    starts = numbers_of(sessions[_PLACE].combine_chunks())
    order = np.argsort(starts)
    offsets = int32_array(np.append(starts[order], len(table)))
    places = int32_array(np.argsort(order))
    sessions = sessions.drop_columns([_PLACE])
    taken = {KINDS, _FAULT, FILE, *SESSION_ROWS.names, *sessions.column_names} - set(_LISTED)
    for name in [KINDS, *(n for n in columns if n not in taken)]:
        rounds = pa.ListArray.from_arrays(offsets, table[name].combine_chunks())
        sessions = sessions.append_column(name, rounds.take(places))
    return sessions


def _grouped(
    connection: duckdb.DuckDBPyConnection,
    table: pa.Table,
    columns: Sequence[str],
    schema: Schema,
    *,
    in_order: bool,
) -> tuple[pa.Table, bool]:
    """Key, facts, fault and first row of every session, in the order of its key.

    Also whether the rows of each session follow each other by their rounds, as files have them:
    sorting takes as long as all the rest. `in_order` assumes it.
    """
    placed = table.append_column(_PLACE, int32_array(np.arange(len(table))))
    connection.register("placed", placed)
    from_file = _file_of(columns)
    key = ", ".join(map(quoted, [*SESSION, *from_file]))
    facts = [quoted(column.name) for column in schema.columns if column.fact]
    held = [f"min({fact}) as {fact}" for fact in facts]
    if from_file:
        held.append(f"{_fault(schema, columns, in_order=in_order)} as {_FAULT}")
    following = f"""
        count(round) = count(*) and max({_PLACE}) - min({_PLACE}) + 1 = count(*)
        and min({_PLACE} - round) = max({_PLACE} - round)
    """
    found = connection.sql(f"""
        select {", ".join([key, *held])}, min({_PLACE}) as {_PLACE}, {following} as following_
        from placed group by {key} order by {key}
    """).to_arrow_table()
    connection.unregister("placed")
    follow = bool(numbers_of(found["following_"].combine_chunks()).all())
    return found.drop_columns(["following_"]), follow


def _file_of(columns: Collection[str]) -> list[str]:
    return [FILE] if FILE in columns else []


def _keys_query(schema: Schema, columns: Iterable[str]) -> str:
    """The first fault in the rows of every session, or job where there are no sessions."""
    key = ", ".join(map(quoted, [*(SESSION if has_sessions(schema) else JOB_KEY), FILE]))
    return f"select {key}, {_fault(schema, columns)} as {_FAULT} from files group by {key}"


def _fault(schema: Schema, columns: Iterable[str], *, in_order: bool = False) -> str:
    """An aggregate over rows of one session or job: the first thing that is wrong, or null.

    Sessions that were prompted have all rounds from 1 on; those `in_order` have each once.
    """
    known, key = set(columns), schema.key
    prompted = has_sessions(schema) and "prompt" in schema.names
    inner = [quoted(name) for name in key if name not in JOB_KEY]
    wrong = [(f"count({quoted(n)}) < count(*)", f"a row has no '{n}'") for n in key]
    if inner and not in_order:  # nothing is known of the key of a benchmark that is not installed
        same = f"count(distinct ({', '.join(inner)})) < count(*)"
        wrong.append((same, "two rows have the same key"))
    if prompted:
        wrong.append(
            ("min(round) <> 1 or max(round) <> count(*)", "some of its rounds are missing")
        )
    if "shape" in known:
        wrong.append(
            (f"not bool_and({_POSSIBLE_SHAPE})", "a row claims a scene of impossible size")
        )
    for name in known.intersection(SHARES):
        inside = f"coalesce({name} between 0 and 1, {'false' if prompted else 'true'})"
        wrong.append((f"not bool_and({inside})", f"a row's '{name}' is not between 0 and 1"))
    cases = " ".join(
        f"when {test} then '{why.replace(chr(39), 2 * chr(39))}'" for test, why in wrong
    )
    return f"case {cases} end"


def _left_out(
    connection: duckdb.DuckDBPyConnection, table: pa.Table, found: RowFiles
) -> tuple[dict[str, list[str]], list[tuple[Any, ...]]]:
    """By file, the jobs that are not read, with reasons in what is damaged; and the good ones.

    Good ones have the number of their file, model, dataset and scene.
    """
    connection.register("verified", table)
    faults = connection.sql(f"""
        select {FILE}, model, dataset, scene, min({_FAULT}) from verified group by all order by all
    """).fetchall()
    connection.unregister("verified")
    jobs = [set(file.jobs) for file in found.files]
    good: list[dict[str, tuple[Any, ...]]] = [{} for _ in jobs]
    wrong: dict[int, str] = {}
    for number, *names, why in faults:
        job = "" if None in names else fingerprint(*names, size=10)
        if why is None and job in jobs[number]:
            good[number][job] = (number, *names)
        else:
            wrong.setdefault(number, why or "its rows belong to another job than its name")
    left_out: dict[str, list[str]] = {}
    for number, file in enumerate(found.files):
        if file.compacted is None and number in wrong:
            good[number].clear()
        lost = [job for job in file.jobs if job not in good[number]]
        if not lost:
            continue
        left_out[file.path] = lost
        why = found.damaged.get(file.path, wrong.get(number, "it has no rows"))
        if file.compacted is not None:
            are = "is" if len(lost) == 1 else "are"
            why = f"{why}; {len(lost)} of its {len(file.compacted.jobs)} jobs {are} left out"
        found.damaged[file.path] = why
    return left_out, [names for held in good for names in held.values()]


def _without_faults(
    connection: duckdb.DuckDBPyConnection, table: pa.Table, good: list[tuple[Any, ...]] | None
) -> pa.Table:
    """Sessions of good jobs, or of all."""
    if good is None:
        return table.drop_columns([FILE, _FAULT])
    connection.register("verified", table)
    types = pa.schema([(FILE, pa.int32()), *((name, pa.string()) for name in JOB_KEY)])
    rows = [dict(zip(types.names, names, strict=True)) for names in good]
    connection.register("good", pa.Table.from_pylist(rows, types))
    key = ", ".join(map(quoted, SESSION))
    return connection.sql(f"""
        select * exclude ({FILE}, {_FAULT}) from verified semi join good
        using ({", ".join(types.names)}) order by {key}
    """).to_arrow_table()


def _models(found: RowFiles, left_out: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """The provenance of each model, from the first of its files that is read."""
    models: dict[str, dict[str, str]] = {}
    for file, schema in zip(found.files, found.schemas, strict=True):
        if len(left_out.get(file.path, ())) == len(file.jobs):
            continue
        index = file.compacted
        for facts in [provenance_of(schema)] if index is None else index.provenances.values():
            name = facts.get("segmenter", "?")
            if name not in models:
                models[name] = {k: v for k, v in facts.items() if k != "segmenter"}
    return models


def _is_light(name: str, type_: Any, schema: Schema) -> bool:
    """Whether the first pass reads a column: keys and what is checked, and of sessions all
    times, prompts and measures."""
    measured = name not in SESSION_ROWS.names and kind_of(type_) in ("number", "integer")
    fact = any(column.name == name and column.fact for column in schema.columns)
    held = has_sessions(schema) and (name in _NEEDED or fact or measured)
    return held or name in schema.key or name in _CHECKED

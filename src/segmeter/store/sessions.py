"""Sessions: each session of a run as one row, its rounds as lists, from one pass over the parts.

Statistics ask for whole sessions many times over. The parts are read once for all of them, one
after the other, so that memory follows the number of sessions and not that of files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from segmeter.core.rows import SESSION_FACTS, SESSION_KEY, SESSION_ROWS, SHARES, Schema
from segmeter.core.seeds import fingerprint
from segmeter.store.folder import Part, RunFolder
from segmeter.store.parts import BAD_FILE, first_line, kind_of
from segmeter.store.views import MOST_PIXELS, Checked, Groups, connect, quoted

__all__ = ["SESSION", "Gathered", "has_sessions", "read_sessions", "sessions_query", "untrue_jobs"]

SESSION = SESSION_KEY[:-1]
"""What tells one session from another."""

KINDS, ROUNDS, SANE = SESSION_FACTS
_SECONDS = ("seconds_encode", "seconds_predict", "seconds_user")
_NEEDED = {*SESSION_KEY, "cluster", "shape", "height", "width", "outline_px", "prompt", *_SECONDS}
# Columns that not every kind of session has.
_WHERE_LOST = {
    "cluster": "varchar",
    "outline_px": "bigint",
    "shape": "bigint[]",
    "prompt": "varchar",
}
_AHEAD, _READERS = 16, 2  # parts that are read before they are asked for

# Kinds of a round's prompts, as `click` or `box+click`; empty where nothing was said.
_KINDS_OF_PROMPT = """
    array_to_string(regexp_extract_all(
        coalesce(prompt, ''), '"(click|box|scribble|mask|words)":', 1), '+')
"""
# A scene that a row may claim to have been played on: an image or a volume that can be read.
_SANE_SHAPE = f"""
    shape is null or (len(shape) between 2 and 3 and len(shape) = len(list_filter(
        shape, lambda side: side is not null and side between 1 and {MOST_PIXELS[3]}))
        and list_product(list_transform(shape, lambda side: side::double))
            <= case len(shape) when 2 then {MOST_PIXELS[2]} else {MOST_PIXELS[3]} end)
"""


@dataclass(frozen=True, slots=True)
class Gathered:
    """What one pass over the parts gives: sessions, what subjects were made of, what is damaged."""

    sessions: pa.Table
    segmenters: dict[str, dict[str, str]]
    damaged: dict[str, str]


def has_sessions(schema: Schema) -> bool:
    """Whether rows are rounds of sessions."""
    return schema.key == SESSION_KEY


def read_sessions(
    folder: RunFolder, checked: Checked, schema: Schema
) -> tuple[pa.Table, dict[str, str]]:
    """All sessions in the order of their key, and the parts that turned out to be damaged.

    Beside the key there are `cluster` and `outline_px`, and as lists over the rounds `kinds_` of
    prompts, measured seconds and every measure.
    """
    damaged: dict[str, str] = {}

    def stream(parts: Sequence[Part], columns: Mapping[str, Any]) -> Any:
        types = pa.schema([(n, t) for n, t in columns.items() if _is_light(n, t)])
        batches = _batches(folder, parts, types, checked.groups, damaged)
        return pa.RecordBatchReader.from_batches(types, batches)

    connection = connect(folder, checked, Checked(), schema, stream)
    columns = connection.sql("select * from rows limit 0").columns
    table = connection.sql(sessions_query(columns)).to_arrow_table()
    connection.close()
    pa.default_memory_pool().release_unused()  # what the parts took, a tenth of a GB
    return table, damaged


def untrue_jobs(sessions: pa.Table, names: set[str]) -> bool:
    """Whether rows share a key, belong to another job than their part, or claim too much."""
    import duckdb

    connection = duckdb.connect(":memory:", config={"enable_external_access": "false"})
    connection.register("sessions", sessions)
    (lies,) = connection.sql(f"""
        select count(*) from sessions
        where not {SANE} or len(list_distinct({ROUNDS})) <> len({ROUNDS})
    """).fetchall()[0]
    jobs = connection.sql("select distinct model, dataset, scene from sessions").fetchall()
    connection.close()
    return bool(lies) or {fingerprint(*job, size=10) for job in jobs} != names


def sessions_query(columns: Sequence[str]) -> str:
    """The query over `rows` of these columns that gives sessions.

    Lists follow the rounds, which are unique within a session.
    """
    key = ", ".join(quoted(name) for name in SESSION)
    taken = {KINDS, ROUNDS, SANE, *SESSION_ROWS.names} - set(_SECONDS)
    told = [f"list({quoted(n)} order by round) as {quoted(n)}" for n in columns if n not in taken]
    shares = [f"coalesce({name} between 0 and 1, true)" for name in SHARES if name in columns]
    sane = " and ".join([f"({_SANE_SHAPE})", *shares])
    lost = [f"null::{type_} as {n}" for n, type_ in _WHERE_LOST.items() if n not in columns]
    return f"""
        select {key}, min(cluster) as cluster, min(outline_px) as outline_px,
               bool_and({sane}) as {SANE},
               list(round order by round) as {ROUNDS},
               list({_KINDS_OF_PROMPT} order by round) as {KINDS}
               {"".join(f", {one}" for one in told)}
        from (select {", ".join(["*", *lost])} from rows) group by {key} order by {key}
    """


def _is_light(name: str, type_: Any) -> bool:
    """Whether sessions hold a column: their key, times, prompts and every measure."""
    measured = name not in SESSION_ROWS.names and kind_of(type_) in ("number", "integer")
    old = name == "groups" and kind_of(type_) == "text"  # the view of version 0.1 rewrites it
    return name in _NEEDED or measured or old


def _batches(
    folder: RunFolder,
    parts: Sequence[Part],
    schema: Any,
    groups: Groups,
    damaged: dict[str, str],
) -> Iterator[Any]:
    """The rows of all parts; one that cannot be read is named and passed over."""
    files, root = folder.place.arrow()
    waiting: deque[tuple[Part, Future[Any]]] = deque()
    with ThreadPoolExecutor(_READERS) as pool:
        for part in parts:
            name = f"{root}/{'/'.join(part)}"
            if part[1].startswith("pack-"):
                yield from _pack(files, name, part, schema, groups.get(part[1]), damaged)
                continue
            waiting.append((part, pool.submit(_read, files, name, schema)))
            if len(waiting) >= _AHEAD:
                yield from _next_of(waiting, damaged)
        while waiting:
            yield from _next_of(waiting, damaged)


def _next_of(waiting: deque[tuple[Part, Future[Any]]], damaged: dict[str, str]) -> Iterator[Any]:
    part, read = waiting.popleft()
    try:
        table = read.result()
    except BAD_FILE as error:
        damaged["/".join(part)] = first_line(error)
    else:
        yield from table.to_batches()


def _pack(
    files: Any,
    name: str,
    part: Part,
    schema: Any,
    groups: Sequence[int] | None,
    damaged: dict[str, str],
) -> Iterator[Any]:
    """Rows of many jobs, a row group at a time: a pack holds as much as a run may."""
    try:
        with _opened(files, name) as file:
            for k in range(file.num_row_groups) if groups is None else groups:
                yield from _columns(file, schema, k).to_batches()
    except BAD_FILE as error:  # what is sound of it is found out, and all is read anew
        damaged["/".join(part)] = first_line(error)


def _read(files: Any, name: str, schema: Any) -> Any:
    with _opened(files, name) as file:
        return _columns(file, schema)


def _opened(files: Any, name: str) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(name, filesystem=files, page_checksum_verification=True, pre_buffer=False)


def _columns(file: Any, schema: Any, group: int | None = None) -> Any:
    """Some columns of a part in their declared types, whole and checked."""
    there = [n for n in schema.names if n in file.schema_arrow.names]
    groups = range(file.num_row_groups) if group is None else [group]
    table = file.read_row_groups(groups, columns=there, use_threads=False)
    table.validate(full=True)
    columns = [
        table[field.name].cast(field.type) if field.name in there else _nulls(len(table), field)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _nulls(rows: int, field: Any) -> Any:
    return pa.chunked_array([pa.nulls(rows, field.type)])

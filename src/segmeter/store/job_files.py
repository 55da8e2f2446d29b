"""Job files: the rows of one job as one parquet file, with declared types, checked when read."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from segmeter.core.errors import BadInput, first_line
from segmeter.core.rows import SESSION_ROWS, Kind, Schema

JOB_FILE_NAME = re.compile(r"[0-9a-f]{20}\.parquet")
"""Job files are named by their jobs; other files in the folder are ignored."""

WRITTEN = "segmeter.written"
"""Metadata key of the time at which rows were written, in nanoseconds since 1970."""

_LARGE = 1 << 20  # bytes; below, threads cost more than they give
BAD_FILE = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError)
"""Errors that reading a damaged file can raise."""


ARROW_TYPES: dict[Kind, Any] = {
    "text": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "integers": pa.list_(pa.int64()),
    "map": pa.map_(pa.string(), pa.string()),
    "bytes": pa.binary(),
}
"""How a kind of column is stored."""


def encode(
    rows: Sequence[Mapping[str, Any]],
    metadata: Mapping[str, str] | None = None,
    schema: Schema | None = None,
) -> bytes:
    """Rows as a parquet file; columns have the declared types, or those that they seem to have.

    Declared columns come first, in their order; one that no row has is left out.
    """
    present = list(dict.fromkeys(key for row in rows for key in row))
    # A benchmark that declares nothing still has the columns of sessions in their types.
    known = SESSION_ROWS if schema is None else schema
    declared = {column.name: ARROW_TYPES[column.kind] for column in known.columns}
    names = [n for n in declared if n in present] + [n for n in present if n not in declared]
    arrays = {n: _array([row.get(n) for row in rows], declared.get(n), n) for n in names}
    return encode_table(written_now(pa.table(arrays).replace_schema_metadata(metadata)))


def with_column(table: Any, name: str, values: Sequence[float]) -> Any:
    """Rows with a column of numbers, in place of one of that name."""
    rest = [column for column in table.column_names if column != name]
    numbers = pa.array(values, pa.float64())
    return written_now(table.select(rest).append_column(name, numbers))


def written_now(table: Any) -> Any:
    """Rows as they are written now: newer than any copy of them."""
    facts = {**(table.schema.metadata or {}), WRITTEN.encode(): str(time.time_ns()).encode()}
    return table.replace_schema_metadata(facts)


def encode_table(table: Any) -> bytes:
    """A table, with the provenance in its metadata, as a parquet file."""
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd", write_page_checksum=True)
    return file.getvalue()


def decode(data: bytes) -> Any:
    """The table in a parquet file; BadInput if there is none."""
    try:
        table = pq.read_table(
            pa.BufferReader(data), page_checksum_verification=True, use_threads=len(data) > _LARGE
        )
        table.validate(full=True)
    except BAD_FILE as error:
        raise BadInput(f"it cannot be read ({first_line(error)})") from error
    return table


def provenance_of(schema: Any) -> dict[str, str]:
    raw: Mapping[bytes, bytes] = schema.metadata or {}
    facts = {k.decode(errors="replace"): v.decode(errors="replace") for k, v in raw.items()}
    for name in ("ARROW:schema", WRITTEN):
        facts.pop(name, None)
    return facts


def written_at(schema: Any) -> int:
    """When rows were written; 0 if that is not known."""
    held = (schema.metadata or {}).get(WRITTEN.encode(), b"")
    return int(held) if held.isdigit() and len(held) < 20 else 0


def kind_of(type_: Any) -> Kind | None:
    """The kind of column of an Arrow type; none for types that no row has."""
    t = pa.types
    if t.is_list(type_) or t.is_large_list(type_):
        return "integers" if t.is_integer(type_.value_type) else None
    if t.is_map(type_):
        texts = kind_of(type_.key_type) == kind_of(type_.item_type) == "text"
        return "map" if texts else None
    if t.is_integer(type_) or t.is_floating(type_):
        return "integer" if t.is_integer(type_) else "number"
    plain: dict[Any, Kind] = {ARROW_TYPES[kind]: kind for kind in ("text", "flag", "bytes")}
    return "text" if t.is_large_string(type_) else plain.get(type_)


def wrong_types(found: Any, schema: Schema) -> str:
    """The first difference between a file's columns and the declared ones, or an empty text."""
    declared = {column.name: column.kind for column in schema.columns}
    lost = [name for name in schema.key if name not in found.names]
    if lost:
        return f"it has no column '{lost[0]}'"
    if len(set(found.names)) != len(found.names):
        return "it has two columns of the same name"
    for name, type_ in zip(found.names, found.types, strict=True):
        kind = kind_of(type_)
        if pa.types.is_null(type_) and name not in schema.key:
            continue
        wanted = declared.get(name, kind)
        if kind is None or (kind != wanted and (kind, wanted) != ("integer", "number")):
            return f"its column '{name}' holds {type_} where {wanted or 'rows'} belongs"
    return ""


def _array(values: Sequence[Any], type_: Any, name: str) -> Any:
    if type_ is not None and pa.types.is_map(type_):
        values = [None if v is None else sorted(dict(v).items()) for v in values]
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"column '{name}' cannot hold what a row has: {error}") from error

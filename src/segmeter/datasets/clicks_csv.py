"""The file of recorded clicks as CSV: its columns, streamed in blocks, with faults in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from segmeter.core.errors import BadInput

__all__ = ["COLUMNS", "NUMBERS", "TEXTS", "batches"]

COLUMNS = (
    "dataset",
    "image_stem",
    "object_stem",
    "model_type",
    "click_type",
    "full_stem",
    "device",
    "x",
    "y",
    "w",
    "h",
)
TEXTS, NUMBERS = COLUMNS[:7], COLUMNS[7:]
_BLOCK_BYTES = 1 << 22
_LOOKS = (
    f"a clicks file is text in UTF-8 that begins with the row '{','.join(COLUMNS)}' "
    "and has a click a row, with commas between"
)


def batches(path: Path) -> Iterator[Any]:
    """Record batches of the file; the reader's complaints become sentences."""
    import pyarrow as pa
    import pyarrow.csv as pc

    texts = {name: pa.dictionary(pa.int32(), pa.string()) for name in TEXTS}
    numbers = {name: pa.int64() for name in NUMBERS}
    names = _header(path)
    done = 0
    try:
        reader = pc.open_csv(
            path,
            read_options=pc.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            convert_options=pc.ConvertOptions(
                column_types={**texts, **numbers},
                include_columns=list(COLUMNS),
                strings_can_be_null=False,
                null_values=[],
            ),
            # Rows are counted as lines, so an empty line is a row, and a wrong one.
            parse_options=pc.ParseOptions(ignore_empty_lines=False),
        )
        for batch in reader:
            done += batch.num_rows
            yield batch
    except pa.ArrowInvalid as error:
        raise BadInput(f"{path.name}{_place(str(error), done, names)}") from None


def _header(path: Path) -> list[str]:
    """The names of the columns, each of which is there once."""
    try:
        with path.open("rb") as file:
            head = file.readline(1 << 16)
        names = [name.strip('"') for name in head.decode("utf-8-sig").strip().split(",")]
    except UnicodeDecodeError:
        raise BadInput(f"{path.name}, row 1: the header is not UTF-8 text; {_LOOKS}") from None
    except OSError as error:
        raise BadInput(f"clicks file '{path}' cannot be read: {error.strerror}") from None
    if not head:
        raise BadInput(f"{path.name} is empty; {_LOOKS}")
    if not set(names) & set(COLUMNS):
        raise BadInput(f"{path.name}, row 1: none of the columns is there; {_LOOKS}")
    for name in COLUMNS:
        if name not in names:
            raise BadInput(f"{path.name}, row 1: no column '{name}'; {_LOOKS}")
        if names.count(name) > 1:
            raise BadInput(f"{path.name}, row 1: column '{name}' is there twice; leave one")
    return names


def _place(message: str, done: int, names: Sequence[str]) -> str:
    """Row and reason out of the reader's message; rows count from 1, the header being row 1."""
    row = re.search(r"Row #(\d+)", message)
    where = f", row {row.group(1)}" if row else f", after row {done + 1}"
    if "invalid UTF8" in message:
        column = re.search(r"In CSV column #(\d+)", message)
        what = f"the text in '{names[int(column.group(1))]}'" if column else "a text"
        return f"{where}: {what} is not UTF-8"
    if wrong := re.search(r"In CSV column #(\d+).*invalid value '(.{0,40})", message):
        return f"{where}: '{wrong.group(2).rstrip(chr(39))}' is not a whole number"
    if wrong := re.search(r"Expected (\d+) columns, got (\d+)", message):
        return f"{where}: {wrong.group(2)} fields instead of {wrong.group(1)}"
    if "straddling" in message:
        return f"{where}: a line is longer than any click could be; this is no clicks file"
    if "out of sync" in message:
        return f"{where}: a quoted text does not end on its line"
    return f"{where}: {message.splitlines()[0][:120]}"

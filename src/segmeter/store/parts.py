"""Parts: the rows of one job as one parquet file, written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from segmeter.core.errors import SegmeterError

__all__ = ["DiskFull", "write_part", "write_text"]


class DiskFull(SegmeterError):
    """No room left for a part; what was finished before is safe."""


def write_part(
    path: Path, rows: Sequence[Mapping[str, Any]], metadata: Mapping[str, str] | None = None
) -> None:
    """Write rows to a parquet file that appears complete or does not appear."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = pa.table({name: pa.array([row.get(name) for row in rows]) for name in columns})
    table = table.replace_schema_metadata(dict(metadata or {}))
    _atomically(path, lambda file: pq.write_table(table, file, compression="zstd"))


def write_text(path: Path, text: str) -> None:
    """Write a text file that appears complete or does not appear."""
    _atomically(path, lambda file: file.write(text.encode()))


def _atomically(path: Path, fill: Any) -> None:
    """Write beside the place, flush to the disk, then rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".open-{secrets.token_hex(8)}"
    try:
        with beside.open("xb") as file:  # not mkstemp: whoever may read the folder may read this
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                f"the disk that holds {path.parent} is full; free some space and give the same "
                "command again, what was finished is kept"
            ) from error
        raise

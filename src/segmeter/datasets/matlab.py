"""MATLAB files (`.mat`, version 5), read with a limit on what they may unpack to."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from segmeter.core.errors import BadInput
from segmeter.datasets.pictures import read_bytes

__all__ = ["read_first", "read_mat"]

_MOST_FILE = 1 << 26
_MOST_UNPACKED = 1 << 28
_HEADER = 128
_COMPRESSED = 15


def read_mat(path: Path, variable: str) -> Any:
    """One variable of a file, as SciPy gives it."""
    found = read_first(path, [variable])
    if found is None:
        raise BadInput(f"'{path}' holds no '{variable}'; it is of another kind")
    return found[1]


def read_first(path: Path, variables: Sequence[str]) -> tuple[str, Any] | None:
    """The first of some variables that a file holds, and its value."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    raw = read_bytes(path, most=_MOST_FILE)
    try:
        _check_unpacked_size(raw)
        file: Any = io.BytesIO(raw)  # SciPy takes it, though its types name paths only
        found = loadmat(file, variable_names=list(variables))
    except NotImplementedError as error:
        raise BadInput(f"'{path}' is not a MATLAB file of version 5; get it again") from error
    except (
        MatReadError, ValueError, TypeError, IndexError, OSError, OverflowError, KeyError,
        MemoryError, UnicodeError, struct.error, zlib.error,
    ) as error:  # fmt: skip
        raise BadInput(f"'{path}' is not a whole MATLAB file; get it again") from error
    return next(((name, found[name]) for name in variables if name in found), None)


def _check_unpacked_size(raw: bytes) -> None:
    """Unpack every compressed part, counting only, and stop at the limit."""
    if len(raw) < _HEADER:
        raise ValueError("too short")
    order = ">" if raw[126:128] == b"MI" else "<"
    place, total = _HEADER, 0
    while place + 8 <= len(raw):
        kind, length = struct.unpack_from(f"{order}II", raw, place)
        place += 8
        if place + length > len(raw):
            raise ValueError("a part reaches past the end")
        if kind == _COMPRESSED:
            total += _unpacked(raw[place : place + length], _MOST_UNPACKED - total)
        place += length


def _unpacked(part: bytes, most: int) -> int:
    unpacker = zlib.decompressobj()
    size, rest = 0, part
    while rest and not unpacker.eof:
        size += len(unpacker.decompress(rest, 1 << 20))
        rest = unpacker.unconsumed_tail
        if size > most:
            raise ValueError("unpacks to more than any label map")
    if not unpacker.eof:
        raise ValueError("a compressed part breaks off")
    return size

"""MATLAB files (`.mat`, version 5): numbers, texts, cells and structures.

SciPy reads them too, but a damaged file can take the whole process down with it (three
thousand files with a few wrong bytes were enough); here it is a sentence. Values have the
shapes SciPy gives them: a cell array holds objects, a structure is an array with fields.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.datasets.image_files import read_bytes

__all__ = ["read_first", "read_mat"]

_MOST_FILE = 1 << 26
_MOST_UNPACKED = 1 << 28
_DEEPEST = 16
_HEADER, _VERSION = 128, 0x0100
_MATRIX, _COMPRESSED = 14, 15
_CELL, _STRUCTURE, _TEXT = 1, 2, 4
_COMPLEX = 0x0800
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8",
           13: "u8", 16: "u1", 17: "u2", 18: "u4"}  # fmt: skip
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8",
            15: "u8"}  # fmt: skip

Array = npt.NDArray[Any]


def read_mat(path: Path, variable: str) -> Any:
    """One variable of a file."""
    found = read_first(path, [variable])
    if found is None:
        raise BadInput(f"'{path}' holds no '{variable}'; it is of another kind")
    return found[1]


def read_first(path: Path, variables: Sequence[str]) -> tuple[str, Any] | None:
    """The first of some variables that a file holds, and its value."""
    raw = read_bytes(path, most=_MOST_FILE)
    if raw.startswith(b"MATLAB 7.3") or raw[:8] == b"\x89HDF\r\n\x1a\n":
        raise BadInput(f"'{path}' is a MATLAB file of version 7.3; save it with '-v7'")
    try:
        found = dict(_variables(raw, variables))
    except (ValueError, OverflowError, struct.error, zlib.error) as error:
        raise BadInput(f"'{path}' is not a whole MATLAB file: {error}; get it again") from error
    return next(((name, found[name]) for name in variables if name in found), None)


def _variables(raw: bytes, wanted: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The wanted variables in the file's order."""
    order = {b"IM": "<", b"MI": ">"}.get(raw[126:128])
    if order is None or struct.unpack_from(f"{order}H", raw, 124)[0] != _VERSION:
        raise ValueError("its header is not of version 5")
    left = _MOST_UNPACKED
    part = _Part(raw, order, _HEADER)
    while not part.done:
        kind, content = part.element(padded=False)
        if kind == _COMPRESSED:
            content = _unpacked(content, left)
            left -= len(content)
            kind, content = _Part(content, order).element()
        if kind != _MATRIX:
            raise ValueError("it holds something that is no array")
        matrix = _Part(content, order)
        name = matrix.head().name
        if name in wanted:
            yield name, _matrix(_Part(content, order), _DEEPEST)


class _Head:
    """Header of an array: its class, flags, shape and name."""

    __slots__ = ("flags", "kind", "name", "shape")

    def __init__(self, flags: Array, shape: Array, name: bytes) -> None:
        if flags.size < 1 or shape.size < 2 or (shape < 0).any():
            raise ValueError("an array has no shape")
        self.kind, self.flags = int(flags[0]) & 0xFF, int(flags[0])
        self.shape = tuple(int(n) for n in shape)
        self.name = name.decode("latin-1")

    @property
    def size(self) -> int:
        """Number of values; Python's own numbers, for a damaged shape may be immense."""
        size = 1
        for extent in self.shape:
            size *= extent
        return size


class _Part:
    """Bytes read from front to back."""

    def __init__(self, raw: bytes, order: str, place: int = 0) -> None:
        self.raw, self.order, self.place = raw, order, place

    @property
    def done(self) -> bool:
        return self.place + 8 > len(self.raw)

    def element(self, padded: bool = True) -> tuple[int, bytes]:
        """The next element's type and content. Short ones stand inside their own mark."""
        kind, length = struct.unpack_from(f"{self.order}II", self.raw, self.place)
        start = self.place + 8
        if kind >> 16:
            kind, length, start = kind & 0xFFFF, kind >> 16, self.place + 4
            end = self.place + 8
            if length > 4:
                raise ValueError("a short element is too long")
        else:
            end = start + length + (-length % 8 if padded else 0)
        if start + length > len(self.raw):
            raise ValueError("it breaks off before its end")
        self.place = end
        return kind, self.raw[start : start + length]

    def numbers(self) -> Array:
        kind, content = self.element()
        if kind not in _STORED:
            raise ValueError("numbers of an unknown sort")
        stored = np.dtype(self.order + _STORED[kind])
        if len(content) % stored.itemsize:
            raise ValueError("numbers that break off")
        return np.frombuffer(content, dtype=stored)

    def head(self) -> _Head:
        return _Head(self.numbers(), self.numbers(), self.element()[1])


def _matrix(part: _Part, depth: int) -> Any:
    head = part.head()
    if depth == 0:
        raise ValueError("arrays within arrays without end")
    if head.kind == _CELL:
        return _objects(part, head, depth)
    if head.kind == _STRUCTURE:
        return _structure(part, head, depth)
    if head.kind == _TEXT:
        return np.array(["".join(chr(int(code)) for code in part.numbers()[: 1 << 16])])
    if head.kind not in _CLASSES or head.flags & _COMPLEX:
        raise ValueError("an array of a sort that holds no labels")
    values = part.numbers()
    if values.size != head.size:
        raise ValueError("an array has another number of values than its shape says")
    with np.errstate(invalid="ignore"):  # a damaged file may hold what its class cannot
        return values.astype(_CLASSES[head.kind]).reshape(head.shape, order="F")


def _objects(part: _Part, head: _Head, depth: int) -> Array:
    """A cell array's arrays, column by column."""
    if head.size > len(part.raw) // 8:
        raise ValueError("more cells than bytes")
    flat = np.empty(head.size, dtype=object)
    for place in range(head.size):
        flat[place] = _inner(part, depth)
    return flat.reshape(head.shape, order="F")


def _structure(part: _Part, head: _Head, depth: int) -> Array:
    """A structure array: its fields' names, then element by element each field's array."""
    width = part.numbers()
    content = part.element()[1]
    if width.size != 1 or not 0 < int(width[0]) <= 1 << 10:
        raise ValueError("a structure without fields")
    step = int(width[0])
    pieces = [content[at : at + step] for at in range(0, len(content), step)]
    names = [piece.split(b"\0")[0].decode("latin-1") for piece in pieces]
    if not names or len(set(names)) != len(names) or "" in names:
        raise ValueError("a structure without fields")
    if head.size * len(names) > len(part.raw) // 8:
        raise ValueError("more fields than bytes")
    flat = np.empty(head.size, dtype=[(name, object) for name in names])
    for place in range(head.size):
        flat[place] = tuple(_inner(part, depth) for _ in names)
    return flat.reshape(head.shape, order="F")


def _inner(part: _Part, depth: int) -> Any:
    kind, content = part.element()
    if kind != _MATRIX:
        raise ValueError("something that is no array inside a cell")
    return _matrix(_Part(content, part.order), depth - 1) if content else np.zeros((0, 0))


def _unpacked(content: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj()
    found = unpacker.decompress(content, most + 1)
    if len(found) > most:
        raise ValueError("it unpacks to more than any label map")
    if not unpacker.eof:
        raise ValueError("a compressed part breaks off")
    return found

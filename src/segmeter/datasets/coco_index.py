"""Index of a JSON file of COCO's layout: the position of each object in it.

Such files reach a gigabyte, and read into Python's objects five times that, in every worker.
So a file is gone through once; what is kept are the images, the classes and the bytes
between which each object stands. For large files that table is put in the user's cache
folder, and other processes and later runs begin there.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.seeds import fingerprint
from segmeter.datasets.image_files import read_bytes
from segmeter.runtime.remote_files import cache_folder

_LARGE = 1 << 26
_VERSION = 1
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_BOM = b"\xef\xbb\xbf"

Spans = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Index:
    """A file's images and classes, and the place of every object.

    Attributes
    ----------
    images, categories
        The records as they stand in the file.
    spans
        `(n, 4)`: which image of `images`, first byte, byte after the last, and whether
        it is a crowd region; in the file's order.
    """

    path: Path
    images: list[Any]
    categories: list[Any]
    spans: Spans

    def read(self, spans: Spans) -> list[Mapping[str, Any]]:
        """The records of some objects."""
        records = []
        with self.path.open("rb") as file:
            for _, start, end, _ in spans.tolist():
                file.seek(start)
                records.append(json.loads(file.read(end - start)))
        return records


def index_of(path: Path) -> Index:
    """The index of a file; ValueError, KeyError or TypeError when it is of another layout."""
    state = path.stat()
    if state.st_size < _LARGE:
        return _built(path)
    key = fingerprint(_VERSION, str(path.resolve()), state.st_size, state.st_mtime_ns)
    stored = cache_folder("coco") / f"{key}.npz"
    # An index that is missing, damaged or half written is rebuilt.
    with suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return _stored(path, stored)
    index = _built(path)
    with suppress(OSError):  # a cache that cannot be written only costs time
        _store(index, stored)
    return index


def has_lists(path: Path) -> bool:
    """Whether a JSON file's outermost object has COCO's `images` and `annotations`."""
    reader = _reader(read_bytes(path))
    names = set()
    try:
        for key in reader.members():
            names.add(key)
            if {"images", "annotations"} <= names:
                return True
            reader.skip()
    except (ValueError, RecursionError):
        return False  # the reader reports what is wrong
    return False


def _reader(raw: bytes) -> _Reader:
    # One character a byte, so that places in the text are places in the file.
    return _Reader(raw.decode("latin-1"), len(_BOM) if raw.startswith(_BOM) else 0)


def _built(path: Path) -> Index:
    raw = read_bytes(path)
    reader = _reader(raw)
    lists: dict[str, list[Any]] = {"categories": []}
    things: list[tuple[Any, int, int, bool]] | None = None
    for key in reader.members():
        start = reader.place
        if key == "annotations":
            things = [_entry(*found) for found in reader.elements()]
            continue
        reader.skip()
        if key in ("images", "categories"):
            lists[key] = json.loads(raw[start : reader.place])
    if things is None or "images" not in lists:
        raise ValueError("it has no 'images' or no 'annotations'")
    return Index(path, lists["images"], lists["categories"], _spans(lists["images"], things))


def _entry(thing: Any, start: int, end: int) -> tuple[Any, int, int, bool]:
    if "id" not in thing:
        raise ValueError("an object has no 'id'")
    return thing["image_id"], start, end, bool(thing.get("iscrowd"))


def _spans(images: list[Any], things: list[tuple[Any, int, int, bool]]) -> Spans:
    row: dict[Any, int] = {}
    for number, image in enumerate(images):
        if row.setdefault(image["id"], number) != number:
            raise ValueError(f"two images have the id {image['id']}")
    unlisted = next((thing[0] for thing in things if thing[0] not in row), None)
    if unlisted is not None:
        raise ValueError(f"an object is of the image {unlisted}, which is not listed")
    table = [(row[image], start, end, crowd) for image, start, end, crowd in things]
    return np.array(table, dtype=np.int64).reshape(-1, 4)


class _Reader:
    """Goes through JSON text value by value; ValueError where it is none."""

    def __init__(self, text: str, place: int = 0) -> None:
        self.text, self.place = text, place

    def value(self) -> Any:
        """The value that begins here."""
        value, self.place = _DECODER.raw_decode(self.text, self.place)
        return value

    def skip(self) -> None:
        """Go past the value that begins here; a long list is never held as a whole."""
        if not self.text.startswith("[", self.place):
            self.value()
            return
        for _ in self.elements():
            pass

    def members(self) -> Iterator[str]:
        """An object's keys; the caller reads each value before the next key."""
        self._mark("{")
        first = True
        while not self._ended("}", first):
            first = False
            key = self.value()
            if not isinstance(key, str):
                raise ValueError("a key that is no text")
            self._mark(":")
            yield key

    def elements(self) -> Iterator[tuple[Any, int, int]]:
        """A list's elements, each with its first place and the place after its last."""
        self._mark("[")
        first = True
        while not self._ended("]", first):
            first = False
            start = self.place
            yield self.value(), start, self.place

    def _mark(self, mark: str) -> None:
        self._space()
        if not self.text.startswith(mark, self.place):
            raise ValueError(f"no '{mark}' at byte {self.place}")
        self.place += 1
        self._space()

    def _ended(self, mark: str, first: bool) -> bool:
        """Whether the end follows; otherwise the comma before all but the first is passed."""
        self._space()
        if self.text.startswith(mark, self.place):
            self.place += 1
            return True
        if not first:
            self._mark(",")
        return False

    def _space(self) -> None:
        match = _SPACE.match(self.text, self.place)
        self.place = match.end() if match else self.place


def _stored(path: Path, file: Path) -> Index:
    with np.load(file, allow_pickle=False) as kept:
        images = json.loads(kept["images"].tobytes())
        categories = json.loads(kept["categories"].tobytes())
        spans = kept["spans"]
    if spans.ndim != 2 or spans.shape[1] != 4 or spans.dtype != np.int64:
        raise ValueError("another kind of table")
    return Index(path, images, categories, spans)


def _store(index: Index, file: Path) -> None:
    """Written whole or not at all, for several processes may do it at once."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as half:
        np.savez(half, spans=index.spans, images=_packed(index.images),
                 categories=_packed(index.categories))  # fmt: skip
    os.replace(half.name, file)


def _packed(records: list[Any]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(json.dumps(records).encode(), dtype=np.uint8)

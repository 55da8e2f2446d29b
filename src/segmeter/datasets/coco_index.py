"""Index of a JSON file of COCO's layout: its images, its classes and the records of its objects.

Such files reach a gigabyte, and read into Python's objects five times that, in every worker. So
the objects of a large file are kept as an Arrow table in the user's cache folder, which other
processes and later runs map into memory.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
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
_VERSION = 2
_LISTS = (re.compile(rb'"images"\s*:\s*\['), re.compile(rb'"annotations"\s*:\s*\['))

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Index:
    """Images and classes of a file as they stand in it, and its objects in the file's order."""

    images: list[Any]
    categories: list[Any]
    image: Places  # of each object: the place of its image in `images`
    crowd: npt.NDArray[np.bool_]  # of each object: whether it is a crowd region
    objects: Sequence[Any]  # records, or their JSON in an Arrow array

    def read(self, places: Places) -> list[Mapping[str, Any]]:
        """The records of some objects."""
        found = (self.objects[place] for place in places.tolist())
        return [r if isinstance(r, dict) else json.loads(r.as_py()) for r in found]


def index_of(path: Path) -> Index:
    """The index of a file; ValueError, KeyError or TypeError when it is of another layout."""
    state = path.stat()
    if state.st_size < _LARGE:
        return _built(path)
    import pyarrow as pa

    key = fingerprint(_VERSION, str(path.resolve()), state.st_size, state.st_mtime_ns)
    stored = cache_folder("coco") / f"{key}.arrow"
    # An index that is missing or damaged is rebuilt.
    with suppress(OSError, ValueError, KeyError, pa.ArrowException):
        return _stored(stored)
    index = _built(path)
    with suppress(OSError):  # a cache that cannot be written only costs time
        _store(index, stored)
    return index


def has_lists(path: Path) -> bool:
    """Whether a JSON file looks like COCO's: it has lists `images` and `annotations`."""
    raw = read_bytes(path)
    return all(name.search(raw) for name in _LISTS)


def _built(path: Path) -> Index:
    content = json.loads(read_bytes(path))
    if not {"images", "annotations"} <= content.keys():
        raise ValueError("it has no 'images' or no 'annotations'")
    row: dict[Any, int] = {}
    for number, image in enumerate(content["images"]):
        if row.setdefault(image["id"], number) != number:
            raise ValueError(f"two images have the id {image['id']}")
    things = content["annotations"]
    for thing in things:
        if "id" not in thing:
            raise ValueError("an object has no 'id'")
        if thing["image_id"] not in row:
            raise ValueError(f"an object is of the image {thing['image_id']}, which is not listed")
    images = np.array([row[thing["image_id"]] for thing in things], dtype=np.int64)
    crowd = np.array([bool(thing.get("iscrowd")) for thing in things], dtype=bool)
    return Index(content["images"], content.get("categories", []), images, crowd, things)


def _stored(file: Path) -> Index:
    from pyarrow import feather

    table = feather.read_table(file, memory_map=True)
    held = table.schema.metadata
    return Index(
        json.loads(held[b"images"]),
        json.loads(held[b"categories"]),
        np.frombuffer(held[b"image"], np.int64),
        np.frombuffer(held[b"crowd"], np.bool_),
        table["object"],
    )


def _store(index: Index, file: Path) -> None:
    """Written whole or not at all, for several processes may do it at once."""
    import pyarrow as pa
    from pyarrow import feather

    objects = pa.array(map(json.dumps, index.objects), pa.large_string())
    notes = {
        "images": json.dumps(index.images),
        "categories": json.dumps(index.categories),
        "image": index.image.tobytes(),
        "crowd": index.crowd.tobytes(),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as half:
        table = pa.table({"object": objects}).replace_schema_metadata(notes)
        feather.write_feather(table, half, compression="uncompressed")
    os.replace(half.name, file)

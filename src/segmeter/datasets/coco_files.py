"""COCO files: outlines as masks, files of run lengths alone, and the index of an annotation file.

JSON files of run-length masks: one for a whole folder, or one next to each image. A whole-folder
file is `{image: masks}`; masks are one mask, a list, or `{name: mask}`. A file of one image has its
objects under `annotations`, as SA-1B does. A mask is COCO's
`{"size": [height, width], "counts": ...}` and may carry a `label`.

Annotation files reach a gigabyte, and read into Python's objects five times that, in every worker.
So of a large file only the places of its objects are kept, in the user's cache folder for other
processes and later runs, and objects are read when they are needed.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Target
from segmeter.core.seeds import fingerprint
from segmeter.datasets.data_roots import ImageSet
from segmeter.datasets.image_files import image_size, named_errors, read_bytes
from segmeter.runtime.remote_files import cache_folder

_FARTHEST = 1 << 17  # pycocotools allocates memory for every pixel along a side
Named = tuple[str, str, Any]
_LARGE = 1 << 26
_VERSION = 4
_LISTS = (re.compile(rb'"images"\s*:\s*\['), re.compile(rb'"annotations"\s*:\s*\['))
_ANNOTATIONS = re.compile(r'"annotations"\s*:\s*\[\s*', re.ASCII)
_SEPARATOR = re.compile(r"[ \t\r\n]*,?[ \t\r\n]*")
Places = npt.NDArray[np.int64]
Parsed = tuple[dict[str, Any], list[Any] | Places, list[tuple[Any, bool]]]


def fill(polygons: Iterable[Sequence[float]], size: tuple[int, int]) -> Mask:
    """The union of polygons `x0, y0, x1, y1, ...` in an image of `(H, W)`.

    >>> fill([[1, 1, 4, 1, 4, 3, 1, 3]], (4, 5)).dense().astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 1, 1, 1, 0],
           [0, 1, 1, 1, 0],
           [0, 0, 0, 0, 0]])
    """
    from pycocotools import mask as coco

    parts = [np.asarray(polygon, dtype=np.float64) for polygon in polygons]
    for part in parts:
        if part.ndim != 1 or part.size < 4 or part.size % 2:
            raise BadInput("a polygon is a list of numbers x, y, x, y, ... of two corners or more")
        if not np.isfinite(part).all() or np.abs(part).max() > _FARTHEST:
            raise BadInput(f"a corner is farther than {_FARTHEST} pixels from the image")
    areas = [part.tolist() for part in parts if part.size > 4]  # two corners enclose nothing
    if not areas:
        return Mask.empty(size)
    return Mask.from_coco(coco.merge(coco.frPyObjects(areas, *size)))


def outline(segmentation: Any, size: tuple[int, int], where: str) -> Mask:
    """A mask from COCO's run lengths, polygons, or boxes.

    As in COCO's own library, lists are boxes `x, y, width, height` when the first has four
    numbers.
    """
    try:
        if segmentation is None:
            raise BadInput("there is none; give it a 'segmentation' or leave it out")
        if isinstance(segmentation, Mapping):
            claimed = segmentation.get("size")
            if not isinstance(claimed, list | tuple) or sorted(claimed) != sorted(size):
                raise BadInput(f"it is for an image of {str(claimed)[:40]}, not {list(size)}")
            return Mask.from_coco(segmentation)
        parts = list(segmentation)
        if parts and len(parts[0]) == 4:
            for _, _, width, height in parts:
                if width < 0 or height < 0:
                    raise BadInput(f"a box of {width} x {height} pixels")
            parts = [[x, y, x, y + h, x + w, y + h, x + w, y] for x, y, w, h in parts]
        return fill(parts, size)
    except (BadInput, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{where}: its outline cannot be read: {str(error)[:120]}") from error


def run_length_images(
    card: DatasetCard,
    images: Mapping[str, Path],
    masks: Callable[[str], Sequence[Named]],
    files: Sequence[Path],
) -> ImageSet:
    """Images whose masks are given by name, label and run lengths."""

    def targets(scene: str) -> list[Target]:
        size = image_size(images[scene])
        return [
            Target(name, outline(mask, size, f"{card.name}/{scene}, '{name}'"), label=label)
            for name, label, mask in masks(scene)
        ]

    return ImageSet(card, images, targets, lambda _, image: (*files, image))


def read_json(path: Path) -> Any:
    with named_errors(path, "is not a JSON file"):
        return json.loads(path.read_bytes())


def run_lengths_in(content: Any) -> dict[str, list[Named]] | None:
    """Masks by image when the content is of this sort, else None."""
    if not isinstance(content, Mapping) or not content:
        return None
    found = {_without_suffix(name): list(_masks(value)) for name, value in content.items()}
    return found if all(found.values()) else None


def _masks(value: Any) -> Iterator[Named]:
    """`(name, label, run lengths)` of everything in a value that is a run-length mask."""
    if _is_mask(value):
        value = {"object": value}
    if isinstance(value, Mapping) and isinstance(value.get("annotations"), list):
        yield from _masks(value["annotations"])
    elif isinstance(value, Mapping) and all(map(_is_mask, value.values())):
        yield from ((str(name), str(m.get("label", "")), m) for name, m in value.items())
    elif isinstance(value, list):
        for place, entry in enumerate(value, start=1):
            inner = entry.get("segmentation", entry) if isinstance(entry, Mapping) else None
            if _is_mask(inner):
                name = str(entry.get("id", entry.get("name", place)))
                yield name, str(entry.get("label", "")), inner


def _is_mask(value: Any) -> bool:
    return isinstance(value, Mapping) and "size" in value and "counts" in value


def _without_suffix(name: str) -> str:
    """`cat.jpg` and `cat` are one image; a name with other dots keeps them."""
    path = Path(name)
    return path.stem if path.suffix.lower() in {".jpg", ".jpeg", ".png", ".bmp"} else path.name


@dataclass(frozen=True, slots=True)
class Index:
    """Images, classes and objects of a file, in the file's order."""

    path: Path
    images: list[Any]
    categories: list[Any]
    image: Places  # of each object: the place of its image in `images`
    crowd: npt.NDArray[np.bool_]  # of each object: whether it is a crowd region
    objects: list[Any] | Places  # records, or their first bytes in the file and those past the last

    def read(self, places: Places) -> list[Mapping[str, Any]]:
        if isinstance(self.objects, list):
            return [self.objects[place] for place in places.tolist()]
        found = []
        with self.path.open("rb") as file:
            for start, end in self.objects[places].tolist():
                file.seek(start)
                found.append(json.loads(file.read(end - start)))
        return found


def index_of(path: Path) -> Index:
    """The index of a file; ValueError, KeyError or TypeError when it is of another layout."""
    state = path.stat()
    if state.st_size < _LARGE:
        return _built(path, _parsed)
    key = fingerprint(_VERSION, str(path.resolve()), state.st_size, state.st_mtime_ns)
    stored = cache_folder("coco") / f"{key}.npy"
    # An index that is missing or damaged is rebuilt.
    with suppress(OSError, ValueError, TypeError, LookupError, EOFError):
        with stored.open("rb") as file:
            lists, table = np.load(file), np.load(file)
        images, categories = json.loads(lists.tobytes())
        return Index(path, images, categories, table[:, 0], table[:, 1] > 0, table[:, 2:])
    index = _built(path, _with_places)
    if not isinstance(index.objects, list):
        with suppress(OSError):  # a cache that cannot be written only costs time
            _store(index, stored)
    return index


def has_lists(path: Path) -> bool:
    """Whether a JSON file looks like COCO's: it has lists `images` and `annotations`."""
    raw = read_bytes(path)
    return all(name.search(raw) for name in _LISTS)


def _built(path: Path, parse: Callable[[bytes], Parsed]) -> Index:
    content, objects, facts = parse(read_bytes(path))
    row: dict[Any, int] = {}
    for number, image in enumerate(content["images"]):
        if row.setdefault(image["id"], number) != number:
            raise ValueError(f"two images have the id {image['id']}")
    unknown = next((image for image, _ in facts if image not in row), None)
    if unknown is not None:
        raise ValueError(f"an object belongs to image {unknown}, which is not listed")
    images = np.array([row[image] for image, _ in facts], dtype=np.int64)
    crowd = np.array([crowd for _, crowd in facts], dtype=bool)
    return Index(path, content["images"], content.get("categories", []), images, crowd, objects)


def _parsed(raw: bytes) -> Parsed:
    """A file's content, its objects, and of each object the image and whether it is a crowd."""
    content = json.loads(raw)
    if not {"images", "annotations"} <= content.keys():
        raise ValueError("it has no 'images' or no 'annotations'")
    objects = content["annotations"]
    return content, objects, [_facts(thing) for thing in objects]


def _with_places(raw: bytes) -> Parsed:
    """The same with the places of the objects in the file, where they can be found."""
    # The first list of that name may be part of an image, and not all files are UTF-8.
    with suppress(LookupError, TypeError, ValueError):
        if not raw.isascii():
            raw.decode()
        return _one_by_one(raw.decode("latin-1"))
    return _parsed(raw)


def _one_by_one(text: str) -> Parsed:
    """The same of a file with a letter for each byte; an object is let go of once it is decoded."""
    # Of floats, most of a file, only the type of their text is kept: half of the time.
    found, decode = _ANNOTATIONS.search(text), json.JSONDecoder(parse_float=type).raw_decode
    start = place = found.end() if found else len(text)
    objects, facts = [], []
    while text[place] != "]":
        thing, end = decode(text, place)
        if not {type(thing["image_id"]), type(thing.get("iscrowd", 0))} <= {int, bool}:
            thing = json.loads(text[place:end].encode("latin-1"))
        objects.append((place, end))
        facts.append(_facts(thing))
        place = _SEPARATOR.match(text, end).end()  # type: ignore[union-attr]  # matches anything
    content = json.loads(f"{text[:start]}null{text[place:]}".encode("latin-1"))
    if content["annotations"] != [None] or "images" not in content:
        raise ValueError("the objects are in another list")
    return content, np.array(objects, dtype=np.int64).reshape(-1, 2), facts


def _facts(thing: Mapping[str, Any]) -> tuple[Any, bool]:
    if "id" not in thing:
        raise ValueError("an object has no 'id'")
    return thing["image_id"], bool(thing.get("iscrowd"))


def _store(index: Index, file: Path) -> None:
    """Written whole or not at all, for several processes may do it at once."""
    lists = json.dumps([index.images, index.categories]).encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as half:
        np.save(half, np.frombuffer(lists, np.uint8))
        np.save(half, np.column_stack([index.image, index.crowd, index.objects]))
    os.replace(half.name, file)

"""Click benchmarks: GrabCut, Berkeley, DAVIS, COCO_MVal, PASCAL VOC, SBD and TETRIS.

GrabCut, Berkeley, DAVIS and COCO_MVal are paired folders: images are listed by the code points of
their names; the mask is the file of the same name up to the first dot. Every image has one object,
so scene and object go by that name. PASCAL VOC 2012 has the objects listed in `test.pickle`, SBD
those of a list. TETRIS has large images with finely drawn objects, shown at 2048 pixels at most.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Target
from segmeter.datasets.data_roots import (
    ImageSet,
    by_stem,
    card_of,
    images_in,
    lacking,
    masked_images,
    names_in,
    read_list,
    require_some,
    set_folder,
)
from segmeter.datasets.image_files import named_errors, read_colours
from segmeter.datasets.label_files import fields_of, read_mat

Colours = npt.NDArray[np.uint8]
Decoded = tuple[Mask, Mask | None]
_IGNORED = 220  # the grey value of the outlines' colour
_VOC_CARD = card_of("pascal-voc")
CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa"),
    *("train", "tvmonitor"),
)
_SBD_CARD = card_of("sbd")
_TETRIS_IMAGES = 2000
_TETRIS_CARD = card_of("tetris")


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of one of these datasets: its folder under the root, and two folders in it.

    `decode` gives object and ignored pixels of a mask file's colours, `about` class name and groups
    of a stem. Scenes that show one image share the group `image`, by which a bootstrap clusters.
    """

    card: DatasetCard
    folder: str
    images: str
    masks: str
    decode: Callable[[Colours], Decoded]
    about: Callable[[str], tuple[str, Mapping[str, str]]] = lambda stem: ("", {})


def paired(layout: Layout, data: str | Path | None = None) -> ImageSet:
    """A folder of images and a folder of masks, one object an image."""
    folder = set_folder(layout.card, data, (layout.folder,), (layout.images, layout.masks))
    images = by_stem(images_in(folder / layout.images))
    masks = by_stem(images_in(folder / layout.masks))
    if not images:
        raise NotFound(f"dataset '{layout.card.name}': no image in '{folder / layout.images}'")
    # Names are known for what only one of the two folders has; the rest is counted.
    whole = layout.card.targets or 0
    absent = whole - len(images.keys() | masks.keys())
    missing = (
        lacking("objects", absent, whole, folder),
        lacking("images", [n for n in masks if n not in images], whole, folder / layout.images),
        lacking("masks", [n for n in images if n not in masks], whole, folder / layout.masks),
    )

    def targets(scene: str, file: Path) -> list[Target]:
        mask, ignore = layout.decode(read_colours(file))
        label, groups = layout.about(scene)
        return [Target("object", mask, ignore, label, groups)]

    card = replace(layout.card, missing="; ".join(filter(None, missing)))
    masks = {name: masks.get(name, folder / layout.masks / f"{name}.png") for name in images}
    return masked_images(card, images, masks, targets)


def trimap(colours: Colours) -> Decoded:
    """First channel: above 128 object, 128 not judged; a stray 1 counts as object too."""
    first = colours[:, :, 0]
    ignore = Mask.of(first == 128)
    return Mask.of((first > 128) | (first == 1)), ignore or None


def union(colours: Colours) -> Decoded:
    """Every pixel that is not black: the union of all labels."""
    blue, green, red = (colours[:, :, k] for k in range(3))
    return Mask.of(blue | green | red), None  # a twentieth of the time of `max(axis=2)`


def _class_and_number(stem: str) -> tuple[str, Mapping[str, str]]:
    """COCO_MVal's `wine glass03_000000012345`: class, number, image.

    >>> _class_and_number("wine glass03_000000012345")
    ('wine glass', {'image': '000000012345'})
    """
    match = re.fullmatch(r"(\D+)\d*_(\d+)", stem)
    return (match[1], {"image": match[2]}) if match else ("", {"image": stem})


_LAYOUTS = (
    Layout(card_of("grabcut"), "GrabCut", "data_GT", "boundary_GT", trimap),
    # `189011`, `189011a` and `189011b` are three objects of one image.
    Layout(card_of("berkeley"), "Berkeley", "images", "masks", trimap,
           lambda stem: ("", {"image": stem.rstrip("ab")})),
    Layout(card_of("davis"), "DAVIS", "img", "gt", union),
    Layout(card_of("coco-mval"), "COCO_MVal", "img", "gt", union, _class_and_number),
)  # fmt: skip
for _layout in _LAYOUTS:
    catalogue.datasets.add(_layout.card.name, _layout.card.summary)(partial(paired, _layout))


def _listed_images(
    card: DatasetCard,
    file: Path,
    listed: Collection[str],
    images: Path,
    masks: Path,
    end: str,
    targets: Callable[[str, Path], Iterable[Target]],
) -> ImageSet:
    """Images `IMAGES/NAME.jpg` with masks `MASKS/NAME.END`, by the names listed in a file."""
    there = names_in(images)
    found = {name: images / f"{name}.jpg" for name in listed if f"{name}.jpg" in there}
    require_some(card.name, list(listed), list(found), images)
    absent = [name for name in listed if name not in found]
    card = replace(card, missing=lacking("images", absent, len(listed), images))
    mask_files = {name: masks / f"{name}.{end}" for name in found}
    return masked_images(card, found, mask_files, targets, [file])


@catalogue.datasets.add("pascal-voc", _VOC_CARD.summary)
def pascal_voc(data: str | Path | None = None) -> ImageSet:
    """Images in the order of the list, each with the objects listed for it.

    `data` holds `PascalVOC` (or `VOCdevkit/VOC2012`).
    """
    names = ("PascalVOC", "VOC2012", "VOCdevkit/VOC2012", "PascalVOC/VOCdevkit/VOC2012")
    parts = ("JPEGImages", "SegmentationObject", "ImageSets/Segmentation/test.pickle")
    images, masks, file = (set_folder(_VOC_CARD, data, names, parts) / part for part in parts)
    listed = _numbers(file)

    def targets(scene: str, mask: Path) -> Iterator[Target]:
        import cv2

        grey = cv2.cvtColor(read_colours(mask), cv2.COLOR_BGR2GRAY)
        ignore = Mask.of(np.asarray(grey == _IGNORED)) or None
        for number in listed[scene]:
            yield Target(str(number), Mask.of(np.asarray(grey == number)), ignore)

    return _listed_images(_VOC_CARD, file, listed, images, masks, "png", targets)


def _numbers(file: Path) -> dict[str, list[int]]:
    """Images in the order they first come, with the objects listed for each."""
    found: dict[str, list[int]] = {}
    with named_errors(file, "is not a list of names and one of numbers"):
        names, numbers = read_plain_pickle(file)
        for name, number in zip(names, numbers, strict=True):
            if type(name) is not str or type(number) is not int:
                raise TypeError(f"{str(name)[:40]!a} and {str(number)[:40]!a}")
            found.setdefault(name, []).append(number)
    return found


class _NoObjects(pickle.Unpickler):
    """Makes nothing but what is built in: lists, tuples, texts and numbers run no code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it would import {module}.{name} and may run code")


def read_plain_pickle(path: Path) -> Any:
    with named_errors(path, "is not a plain pickle"), path.open("rb") as file:
        return _NoObjects(file).load()


@catalogue.datasets.add("sbd", _SBD_CARD.summary)
def sbd(data: str | Path | None = None, split: str = "val") -> ImageSet:
    """Images in the order of the list, each with its objects by ascending number.

    `data` holds `SBD` (or `benchmark_RELEASE/dataset`); `split` names the list, `val.txt`.
    """
    names = ("SBD", "SBD/dataset", "benchmark_RELEASE/dataset", "SBD/benchmark_RELEASE/dataset")
    parts = ("img", "inst", f"{split}.txt")
    images, masks, file = (set_folder(_SBD_CARD, data, names, parts) / part for part in parts)
    return _listed_images(_SBD_CARD, file, read_list(file), images, masks, "mat", _instances)


def _instances(scene: str, path: Path) -> list[Target]:
    record = read_mat(path, "GTinst")
    labels, classes = fields_of(path, record, "Segmentation", "Categories")
    # Categories count from 1, as objects do.
    known = dict(enumerate(CLASSES, 1))
    names = {k: known.get(c, "") for k, c in enumerate(np.ravel(classes).tolist(), 1)}
    if labels.ndim != 2 or not np.issubdtype(labels.dtype, np.number):
        raise BadInput(f"'{path}': its 'Segmentation' is not an image of numbers")
    return [
        Target(str(number), Mask.of(labels == number), label=names.get(int(number), ""))
        for number in np.unique(labels)
        if number > 0
    ]


@catalogue.datasets.add("tetris", _TETRIS_CARD.summary)
def tetris(
    data: str | Path | None = None, longest: int = 2048, stems: str | None = None
) -> ImageSet:
    """Images by name, each with its objects by ascending label.

    `data` holds `TETRIS`; the long side has at most `longest` pixels; `stems` is a text file with
    one name a line (the train or val list): only these scenes.
    """
    if longest < 1:
        raise BadInput("tetris: 'longest' must be a number of pixels, at least 1")
    folder = set_folder(_TETRIS_CARD, data, ("TETRIS",), ("images", "masks"))
    # By whole name without its suffix, since these names may hold dots.
    images = {path.stem: path for path in images_in(folder / "images")}
    wanted = read_list(Path(stems)) if stems is not None else None
    if wanted is not None:
        absent = [name for name in wanted if name not in images]
        missing = lacking("listed images", absent, len(wanted), folder / "images")
        images = {name: path for name, path in images.items() if name in set(wanted)}
    else:
        fewer = _TETRIS_IMAGES - len(images)
        missing = lacking("images", fewer, _TETRIS_IMAGES, folder / "images")
    if not images:
        raise NotFound(f"dataset 'tetris': no image in '{folder / 'images'}'")
    masks = {name: folder / "masks" / f"{name}.png" for name in images}
    there = names_in(folder / "masks")
    bare = [name for name, path in masks.items() if path.name not in there]
    unpaired = lacking("masks", bare, len(images), folder / "masks")
    card = replace(_TETRIS_CARD, missing="; ".join(filter(None, (missing, unpaired))))

    def pixels(image: Path) -> npt.NDArray[np.uint8]:
        colours = read_colours(image)
        shown = _resize(colours, fitted(colours.shape[:2], longest))
        return np.ascontiguousarray(shown[:, :, ::-1])

    return masked_images(
        card, images, masks, lambda _, file: _labelled(file, longest), pixels=pixels
    )


def _labelled(file: Path, longest: int) -> list[Target]:
    """Labels ascending; where two overlap after resizing, the later one has the pixel."""
    blue, green, red = np.moveaxis(read_colours(file).astype(np.int32), 2, 0)
    labels = blue * 65536 + green * 256 + red
    shape = fitted(labels.shape, longest)
    shown = np.zeros(shape, dtype=np.int32)
    numbers = [int(n) for n in np.unique(labels) if n]
    for number in numbers:
        shown[_resize((labels == number).astype(np.uint8), shape) > 0] = number
    return [Target(str(n), Mask.of(shown == n)) for n in numbers]


def fitted(shape: Sequence[int], longest: int) -> tuple[int, int]:
    """Height and width with the longer side limited; of equal sides the width leads.

    >>> fitted((3000, 4000), 2048)
    (1536, 2048)
    """
    height, width = shape[:2]
    if height > width:
        tall = min(height, longest)
        return tall, int(width / height * tall + 0.5)
    wide = min(width, longest)
    return int(height / width * wide + 0.5), wide


def _resize(array: npt.NDArray[np.uint8], shape: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Bilinear without antialiasing; a 0/1 mask is rounded at one half."""
    import cv2

    return np.asarray(cv2.resize(array, shape[::-1], interpolation=cv2.INTER_LINEAR))

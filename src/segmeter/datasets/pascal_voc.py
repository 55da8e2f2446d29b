"""PASCAL VOC 2012 as the click benchmarks use it: the objects listed in `test.pickle`."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Image, Scene, Target
from segmeter.datasets.image_files import grey_of, named_errors, read_bytes, read_colours, read_rgb
from segmeter.datasets.labelmaps import read_mat
from segmeter.datasets.places import digest, known, lacking, names_in, set_folder, some_at_hand

_IGNORED = 220  # the grey value of the outlines' colour

_CARD = DatasetCard(
    name="pascal-voc",
    summary="3417 objects on 1449 images of PASCAL VOC 2012 (validation part)",
    licence="images under Flickr's terms; annotations free for research",
    citation="everingham2010",
    targets=3417,
    homepage="https://github.com/SamsungLabs/ritm_interactive_segmentation",
    notes="VOC2012 (JPEGImages, SegmentationObject) with the list "
    "ImageSets/Segmentation/test.pickle of the RITM project. Objects go by the grey value of "
    "their colour; the outlines between objects are not judged.",
)


@catalogue.datasets.add("pascal-voc", summary=_CARD.summary)
class PascalVoc:
    """Images in the order of the list, each with the objects listed for it.

    Parameters
    ----------
    data
        Root folder that holds `PascalVOC` (or `VOCdevkit/VOC2012`).
    """

    def __init__(self, data: str | Path | None = None) -> None:
        names = ("PascalVOC", "VOC2012", "VOCdevkit/VOC2012", "PascalVOC/VOCdevkit/VOC2012")
        listed = "ImageSets/Segmentation/test.pickle"
        parts = ("JPEGImages", "SegmentationObject", listed)
        self._folder = set_folder(_CARD, data, names, parts)
        self._list = self._folder / listed

    @cached_property
    def card(self) -> DatasetCard:
        gone = [name for name in self._listed if name not in self._objects]
        missing = lacking("images", gone, len(self._listed), self._folder / "JPEGImages")
        return replace(_CARD, missing=missing)

    def scenes(self) -> Sequence[str]:
        """Images of the list that are at hand."""
        return list(self._objects)

    def load(self, scene: str) -> Scene:
        known("pascal-voc", scene, self._objects)
        image = self._folder / "JPEGImages" / f"{scene}.jpg"
        return Image(
            "pascal-voc",
            scene,
            lambda: read_rgb(image),
            lambda: self._targets(scene),
            file_name=image.name,
        )

    def fingerprint(self) -> str:
        folders = (("JPEGImages", "jpg"), ("SegmentationObject", "png"))
        files = [self._folder / f / f"{name}.{end}" for name in self._objects for f, end in folders]
        return digest([self._list, *(file for file in files if file.exists())])

    def _targets(self, scene: str) -> list[Target]:
        path = self._folder / "SegmentationObject" / f"{scene}.png"
        if not path.exists():
            raise NotFound(f"pascal-voc/{scene}: no mask '{path}'")
        grey = grey_of(read_colours(path))
        ignore = Mask.of(np.asarray(grey == _IGNORED)) or None
        return [
            Target(str(number), Mask.of(np.asarray(grey == number)), ignore)
            for number in self._objects[scene]
        ]

    @cached_property
    def _objects(self) -> Mapping[str, list[int]]:
        images = names_in(self._folder / "JPEGImages")
        found = {name: ids for name, ids in self._listed.items() if f"{name}.jpg" in images}
        some_at_hand("pascal-voc", list(self._listed), list(found), self._folder / "JPEGImages")
        return found

    @cached_property
    def _listed(self) -> Mapping[str, list[int]]:
        """Images in the order they first come, with the objects listed for each."""
        found: dict[str, list[int]] = {}
        try:
            names, numbers = read_plain_pickle(self._list)
            for name, number in zip(names, numbers, strict=True):
                if type(name) is not str or type(number) is not int:
                    raise TypeError(name)
                found.setdefault(name, []).append(number)
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"'{self._list}' is not a list of names and one of numbers; get it again"
            ) from error
        return found


class _NoObjects(pickle.Unpickler):
    """Makes nothing but what is built in: lists, tuples, texts and numbers run no code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it would import {module}.{name} and may run code")


def read_plain_pickle(path: Path) -> Any:
    """A pickle that holds built-in values only."""
    with named_errors(path, "is not a plain pickle"), path.open("rb") as file:
        return _NoObjects(file).load()


_CLASS_NAMES = (
    "aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike "
    "person pottedplant sheep sofa train tvmonitor"
)
CLASSES = tuple(_CLASS_NAMES.split())

_SBD_CARD = DatasetCard(
    name="sbd",
    summary="6671 objects on 2857 images of PASCAL VOC (validation part)",
    licence="images under Flickr's terms, as PASCAL VOC; no licence text for the masks",
    citation="hariharan2011",
    targets=6671,
    homepage="http://home.bharathh.info/pubs/codes/SBD/download.html",
    notes="The archive benchmark.tgz of the project page unpacks to benchmark_RELEASE/dataset "
    "(img, inst, val.txt). A scene is an image; its objects are its targets, by number.",
)


@catalogue.datasets.add("sbd", summary=_SBD_CARD.summary)
class Sbd:
    """Images in the order of the list, each with its objects by ascending number.

    Parameters
    ----------
    data
        Root folder that holds `SBD` (or `benchmark_RELEASE/dataset`).
    split
        Name of the list, `val.txt` for `val`.
    """

    def __init__(self, data: str | Path | None = None, split: str = "val") -> None:
        names = ("SBD", "SBD/dataset", "benchmark_RELEASE/dataset", "SBD/benchmark_RELEASE/dataset")
        self._folder = set_folder(_SBD_CARD, data, names, ("img", "inst", f"{split}.txt"))
        self._list = self._folder / f"{split}.txt"

    @cached_property
    def card(self) -> DatasetCard:
        gone = [name for name in self._listed if name not in self._names]
        missing = lacking("images", gone, len(self._listed), self._folder / "img")
        return replace(_SBD_CARD, missing=missing)

    def scenes(self) -> Sequence[str]:
        """Images of the list that are at hand."""
        return list(self._names)

    def load(self, scene: str) -> Scene:
        known("sbd", scene, self._names)
        image = self._folder / "img" / f"{scene}.jpg"
        return Image(
            "sbd",
            scene,
            lambda: read_rgb(image),
            lambda: self._targets(scene),
            file_name=image.name,
        )

    def fingerprint(self) -> str:
        folders = (("img", "jpg"), ("inst", "mat"))
        files = [self._folder / f / f"{name}.{end}" for name in self._names for f, end in folders]
        return digest([self._list, *(file for file in files if file.exists())])

    def _targets(self, scene: str) -> list[Target]:
        path = self._folder / "inst" / f"{scene}.mat"
        if not path.exists():
            raise NotFound(f"sbd/{scene}: no mask '{path}'")
        try:
            record = read_mat(path, "GTinst")[0, 0]
            labels = np.asarray(record["Segmentation"])
            classes = [int(c) for c in np.ravel(record["Categories"])]
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise BadInput(f"'{path}' holds no 'Segmentation' and 'Categories'") from error
        if labels.ndim != 2 or not np.issubdtype(labels.dtype, np.number):
            raise BadInput(f"'{path}': its 'Segmentation' is not an image of numbers")
        return [
            Target(str(number), Mask.of(labels == number), label=_class(classes, int(number)))
            for number in np.unique(labels)
            if number > 0
        ]

    @cached_property
    def _names(self) -> dict[str, None]:
        images = names_in(self._folder / "img")
        found = {name: None for name in self._listed if f"{name}.jpg" in images}
        some_at_hand("sbd", list(self._listed), list(found), self._folder / "img")
        return found

    @cached_property
    def _listed(self) -> dict[str, None]:
        text = read_bytes(self._list).decode("utf-8", "replace")
        return dict.fromkeys(filter(None, (line.strip() for line in text.splitlines())))


def _class(classes: Sequence[int], number: int) -> str:
    """The class of an object: categories count from 1, as objects do."""
    if number > len(classes) or not 1 <= classes[number - 1] <= len(CLASSES):
        return ""
    return CLASSES[classes[number - 1] - 1]

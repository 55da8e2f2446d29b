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
from segmeter.core.scenes import DatasetCard, Target
from segmeter.datasets.data_roots import (
    ImageSet,
    card_of,
    digest,
    lacking,
    names_in,
    read_list,
    set_folder,
    some_at_hand,
)
from segmeter.datasets.image_files import grey_of, named_errors, read_colours
from segmeter.datasets.labelmaps import read_mat

_IGNORED = 220  # the grey value of the outlines' colour

_CARD = card_of("pascal-voc")


class _ListedImages(ImageSet):
    """Images `IMAGES/NAME.jpg` with masks `MASKS/NAME.END`, by the names in a list."""

    def __init__(
        self, card: DatasetCard, folder: Path, listed: str, images: str, masks: str, end: str
    ) -> None:
        self.name, self._card = card.name, card
        self._list, self._folder = folder / listed, folder / images
        self._masks, self._end = folder / masks, end

    @cached_property
    def card(self) -> DatasetCard:
        gone = [name for name in self._listed if name not in self._images]
        return replace(self._card, missing=lacking("images", gone, len(self._listed), self._folder))

    def fingerprint(self) -> str:
        files = [f for name, image in self._images.items() for f in (image, self._mask(name))]
        return digest([self._list, *(file for file in files if file.exists())])

    def _mask(self, scene: str) -> Path:
        return self._masks / f"{scene}.{self._end}"

    def _drawn(self, scene: str) -> Path:
        """The mask's file; NotFound where there is none."""
        if not self._mask(scene).exists():
            raise NotFound(f"{self.name}/{scene}: no mask '{self._mask(scene)}'")
        return self._mask(scene)

    @cached_property
    def _images(self) -> Mapping[str, Path]:
        there = names_in(self._folder)
        files = {name: f"{name}.jpg" for name in self._listed}
        found = {name: self._folder / file for name, file in files.items() if file in there}
        some_at_hand(self.name, list(self._listed), list(found), self._folder)
        return found

    @cached_property
    def _listed(self) -> Mapping[str, Any]:
        raise NotImplementedError


@catalogue.datasets.add("pascal-voc", summary=_CARD.summary)
class PascalVoc(_ListedImages):
    """Images in the order of the list, each with the objects listed for it.

    Parameters
    ----------
    data
        Root folder that holds `PascalVOC` (or `VOCdevkit/VOC2012`).
    """

    def __init__(self, data: str | Path | None = None) -> None:
        names = ("PascalVOC", "VOC2012", "VOCdevkit/VOC2012", "PascalVOC/VOCdevkit/VOC2012")
        parts = ("JPEGImages", "SegmentationObject", "ImageSets/Segmentation/test.pickle")
        folder = set_folder(_CARD, data, names, parts)
        super().__init__(_CARD, folder, parts[2], *parts[:2], "png")

    def _targets(self, scene: str) -> list[Target]:
        grey = grey_of(read_colours(self._drawn(scene)))
        ignore = Mask.of(np.asarray(grey == _IGNORED)) or None
        return [
            Target(str(number), Mask.of(np.asarray(grey == number)), ignore)
            for number in self._listed[scene]
        ]

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

_SBD_CARD = card_of("sbd")


@catalogue.datasets.add("sbd", summary=_SBD_CARD.summary)
class Sbd(_ListedImages):
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
        folder = set_folder(_SBD_CARD, data, names, ("img", "inst", f"{split}.txt"))
        super().__init__(_SBD_CARD, folder, f"{split}.txt", "img", "inst", "mat")

    def _targets(self, scene: str) -> list[Target]:
        path = self._drawn(scene)
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
    def _listed(self) -> dict[str, None]:
        return dict.fromkeys(read_list(self._list))


def _class(classes: Sequence[int], number: int) -> str:
    """The class of an object: categories count from 1, as objects do."""
    if number > len(classes) or not 1 <= classes[number - 1] <= len(CLASSES):
        return ""
    return CLASSES[classes[number - 1] - 1]

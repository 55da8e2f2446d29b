"""Paired folders of the click benchmarks: GrabCut, Berkeley, DAVIS, COCO_MVal.

Images are listed by the code points of their names; the mask is the file of the same
name up to the first dot. Every image has one object, so scene and object go by that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Target
from segmeter.datasets.data_roots import (
    ImageSet,
    by_stem,
    card_of,
    digest,
    images_in,
    lacking,
    set_folder,
)
from segmeter.datasets.image_files import read_colours

Colours = npt.NDArray[np.uint8]
Decoded = tuple[Mask, Mask | None]


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of one of these datasets.

    Attributes
    ----------
    folder, images, masks
        The set's folder under the root and the two folders in it.
    decode
        From a mask file's colours to object and ignored pixels.
    about
        From a stem to class name and groups. Scenes that show one image share
        the group `image`, by which a bootstrap clusters.
    """

    card: DatasetCard
    folder: str
    images: str
    masks: str
    decode: Callable[[Colours], Decoded]
    about: Callable[[str], tuple[str, Mapping[str, str]]]


class Paired(ImageSet):
    """A folder of images and a folder of masks, one object an image."""

    def __init__(self, layout: Layout, data: str | Path | None = None) -> None:
        self._layout, self.name = layout, layout.card.name
        parts = (layout.images, layout.masks)
        self._folder = set_folder(layout.card, data, (layout.folder,), parts)

    @cached_property
    def card(self) -> DatasetCard:
        card = self._layout.card
        return replace(card, missing=self._missing(card.targets or 0))

    def fingerprint(self) -> str:
        return digest([*self._images.values(), *self._masks.values()])

    def _targets(self, scene: str) -> list[Target]:
        if scene not in self._masks:
            raise NotFound(
                f"{self.name}/{scene}: no mask '{scene}.png' in"
                f" '{self._folder / self._layout.masks}'"
            )
        mask, ignore = self._layout.decode(read_colours(self._masks[scene]))
        label, groups = self._layout.about(scene)
        return [Target("object", mask, ignore, label, groups)]

    def _missing(self, whole: int) -> str:
        """Names are known for what only one of the two folders has; the rest is counted."""
        folder = self._folder
        alone = [name for name in self._masks if name not in self._images]
        maskless = [name for name in self._images if name not in self._masks]
        gone = whole - len(self._images.keys() | self._masks.keys())
        parts = [
            f"{gone} of {whole} objects are not in '{folder}'" if gone > 0 else "",
            lacking("images", alone, whole, folder / self._layout.images),
            lacking("masks", maskless, whole, folder / self._layout.masks),
        ]
        return "; ".join(filter(None, parts))

    @cached_property
    def _images(self) -> dict[str, Path]:
        found = by_stem(images_in(self._folder / self._layout.images))
        if not found:
            raise NotFound(
                f"dataset '{self.name}': no image in '{self._folder / self._layout.images}'"
            )
        return found

    @cached_property
    def _masks(self) -> dict[str, Path]:
        return by_stem(images_in(self._folder / self._layout.masks))


def trimap(colours: Colours) -> Decoded:
    """First channel: above 128 object, 128 not judged; a stray 1 counts as object too."""
    first = colours[:, :, 0]
    ignore = Mask.of(first == 128)
    return Mask.of((first > 128) | (first == 1)), ignore or None


def union(colours: Colours) -> Decoded:
    """Every pixel that is not black: the union of all labels."""
    blue, green, red = (colours[:, :, k] for k in range(3))
    return Mask.of(blue | green | red), None  # a twentieth of the time of `max(axis=2)`


def _nothing(stem: str) -> tuple[str, Mapping[str, str]]:
    return "", {}


def _lettered(stem: str) -> tuple[str, Mapping[str, str]]:
    """Berkeley's `189011`, `189011a`, `189011b` are three objects of one image."""
    return "", {"image": stem.rstrip("ab")}


def _class_and_number(stem: str) -> tuple[str, Mapping[str, str]]:
    """COCO_MVal's `wine glass03_000000012345`: class, number, image.

    >>> _class_and_number("wine glass03_000000012345")
    ('wine glass', {'image': '000000012345'})
    """
    match = re.fullmatch(r"(\D+)\d*_(\d+)", stem)
    return (match[1], {"image": match[2]}) if match else ("", {"image": stem})


_LAYOUTS = (
    Layout(card_of("grabcut"), "GrabCut", "data_GT", "boundary_GT", trimap, _nothing),
    Layout(card_of("berkeley"), "Berkeley", "images", "masks", trimap, _lettered),
    Layout(card_of("davis"), "DAVIS", "img", "gt", union, _nothing),
    Layout(card_of("coco-mval"), "COCO_MVal", "img", "gt", union, _class_and_number),
)
for _layout in _LAYOUTS:
    catalogue.datasets.add(_layout.card.name, _layout.card.summary)(partial(Paired, _layout))

"""Paired folders of the click benchmarks: GrabCut, Berkeley, DAVIS, COCO_MVal.

Images are listed by the code points of their names; the mask is the file of the same
name up to the first dot. Every image has one object, so scene and object go by that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Target
from segmeter.datasets.data_roots import ImageSet, by_stem, digest, images_in, lacking, set_folder
from segmeter.datasets.image_files import read_colours

Colours = npt.NDArray[np.uint8]
Decoded = tuple[Mask, Mask | None]

_RITM = "Part of the evaluation data of the RITM project"
_RITM_PAGE = "https://github.com/SamsungLabs/ritm_interactive_segmentation"


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of one of these data sets.

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

    def __init__(self, layout: Layout, data: str | Path | None) -> None:
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
                f"data set '{self.name}': no image in '{self._folder / self._layout.images}'"
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


_GRABCUT = Layout(
    DatasetCard(
        name="grabcut",
        summary="50 images with one object each and an ignored band",
        licence="published for research by Microsoft Research Cambridge; no licence text",
        citation="rother2004",
        targets=50,
        homepage=_RITM_PAGE,
        notes=f"{_RITM} (folder GrabCut: data_GT, boundary_GT). 17 of its images are "
        "also in Berkeley, with other masks: the two sets are not independent.",
    ),
    "GrabCut",
    "data_GT",
    "boundary_GT",
    trimap,
    _nothing,
)

_BERKELEY = Layout(
    DatasetCard(
        name="berkeley",
        summary="96 images, 100 objects",
        licence="non-commercial research and education, by the images' owners' word",
        citation="mcguinness2010",
        targets=100,
        homepage=_RITM_PAGE,
        notes=f"{_RITM} (folder Berkeley: images, masks). Images 189011 and 239007 have "
        "three objects each, as three scenes of one group 'image'. 17 images are "
        "also in GrabCut.",
    ),
    "Berkeley",
    "images",
    "masks",
    trimap,
    _lettered,
)

_DAVIS = Layout(
    DatasetCard(
        name="davis",
        summary="345 video frames, one object each: the union of all labels",
        licence="BSD, as the owners' repository says",
        citation="perazzi2016, jang2019",
        targets=345,
        homepage=_RITM_PAGE,
        notes=f"{_RITM} (folder DAVIS: img, gt). The frames come from 50 videos, so they are "
        "not independent. A part of the set gives other figures than the papers print.",
    ),
    "DAVIS",
    "img",
    "gt",
    union,
    _nothing,
)

_COCO_MVAL = Layout(
    DatasetCard(
        name="coco-mval",
        summary="800 objects of COCO val2017, ten of each class, in 722 images",
        licence="annotations CC BY 4.0; images under their authors' Flickr licences",
        citation="lin2014, sofiiuk2020",
        targets=800,
        homepage=_RITM_PAGE,
        notes=f"{_RITM} (folder COCO_MVal: img, gt). Scenes of one image share the group "
        "'image'. A part of the set gives other figures than the papers print.",
    ),
    "COCO_MVal",
    "img",
    "gt",
    union,
    _class_and_number,
)


def _maker(layout: Layout) -> Callable[..., Paired]:
    def make(data: str | Path | None = None) -> Paired:
        return Paired(layout, data)

    return make


for _layout in (_GRABCUT, _BERKELEY, _DAVIS, _COCO_MVAL):
    catalogue.datasets.add(_layout.card.name, summary=_layout.card.summary)(_maker(_layout))

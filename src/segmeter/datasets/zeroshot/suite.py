"""The suite of 23 datasets by name: a card each, the folder it is looked for in, its reader.

The notes of each set describe its files; some layouts are known only from memory
(`known`, `recalled`, `weak`), so `images` and `annotations` may be given by hand. Counts are
those of Segment Anything's authors; their own samples and their blurred faces were
never published, so their numbers cannot be reproduced to the digit. They took random images of
datasets of more than 15 000 masks, until there were about 10 000 masks.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Pixels, Target, size_in_words
from segmeter.core.seeds import generator
from segmeter.datasets.data_roots import ImageSet, read_list, set_folder
from segmeter.datasets.image_files import image_size, read_rgb
from segmeter.datasets.zeroshot import mask_readers
from segmeter.datasets.zeroshot.mask_readers import Item, Size

LARGE, ABOUT = 15_000, 10_000
Confidence = Literal["known", "recalled", "weak"]
Certainty = {
    "known": "its layout is documented by its authors",
    "recalled": "its layout is given from memory: check the first masks by eye",
    "weak": "its layout is a guess: give images and annotations, and check masks by eye",
}
_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_ALIASES = {"bbbc038": ("BBBC038", "BBBC038v1"), "lvis-v0.5": ("coco",)}


def sampled(
    masks: Mapping[str, int], seed: int, large: int = LARGE, about: int = ABOUT
) -> set[str]:
    """The images to use, from how many masks each one has.

    All that have a mask where there are at most `large` masks. Otherwise images in an order
    that the seed draws (over their names, sorted), until there are `about` masks or more; the
    last one goes again if the total is then nearer to `about`.

    >>> sorted(sampled({"a": 3, "b": 0, "c": 2}, seed=0))
    ['a', 'c']
    """
    names = sorted(name for name, count in masks.items() if count)
    if sum(masks.values()) <= large:
        return set(names)
    chosen, total = [], 0
    for place in generator("zeroshot sample", seed).permutation(len(names)):
        if total >= about:
            break
        chosen.append(names[place])
        total += masks[names[place]]
    over, under = total - about, about - (total - masks[chosen[-1]])
    if len(chosen) > 1 and under < over:
        chosen.pop()
    return set(chosen)


@dataclass(frozen=True, slots=True)
class Selection:
    sample: int | None = None  # seed of the sample of large sets; None uses everything
    least_area: int = 0  # smaller masks are left out, in pixels after resizing
    most_side: int = 0  # images are reduced to this longest side, never enlarged; 0 leaves them
    split: str | None = None  # a file that names a scene a line; only these are used
    category: str | None = None  # only masks of this class

    def __post_init__(self) -> None:
        for name in ("least_area", "most_side"):
            if getattr(self, name) < 0:
                raise BadInput(f"'{name}' is a whole number of pixels, not {getattr(self, name)}")


class Listed(ImageSet):
    """A dataset made of items, in the order of their names. Empty masks are passed over."""

    def __init__(self, card: DatasetCard, items: Mapping[str, Item], selection: Selection) -> None:
        chosen, split = {scene: items[scene] for scene in sorted(items)}, selection.split
        if split is not None:
            wanted = read_list(Path(split))
            unknown = next((scene for scene in wanted if scene not in chosen), None)
            if unknown is not None:
                held = f"which '{card.name}' does not have"
                raise NotFound(f"'{split}' names the scene '{unknown}', {held}")
            chosen = {scene: chosen[scene] for scene in wanted}
        if not chosen:
            raise NotFound(f"dataset '{card.name}': no image with masks in its folder")
        super().__init__(
            card,
            {name: item.image for name, item in chosen.items()},
            lambda name: _targets(f"{card.name}/{name}", chosen[name], selection),
            lambda name, image: (image, *chosen[name].files),
            partial(_pixels, selection.most_side),
        )
        self._sample = selection.sample

    @property
    def card(self) -> DatasetCard:
        if self._sample is None:
            return self._card
        chosen = sum(self._counts[name] for name in self.scenes())
        note = f" {len(self.scenes())} images with {chosen} masks are used."
        return replace(self._card, notes=self._card.notes + note, targets=chosen)

    @card.setter
    def card(self, card: DatasetCard) -> None:
        self._card = card

    def scenes(self) -> Sequence[str]:
        if self._sample is None:
            return super().scenes()
        chosen = sampled(self._counts, self._sample)
        return [name for name in self._sources if name in chosen]

    @cached_property
    def _counts(self) -> dict[str, int]:
        """How many masks each image has; every file of masks is read once for it."""
        return {name: len(self._read(name, at).targets) for name, at in self._sources.items()}


def _targets(name: str, item: Item, selection: Selection) -> Iterator[Target]:
    size = image_size(item.image)
    for target in item.masks(size):
        if target.mask.shape != size:
            raise BadInput(
                f"{name}: mask '{target.id}' of '{item.files[0]}' is "
                f"{size_in_words(target.mask.shape)} but its image is {size_in_words(size)};"
                " resize it or leave the scene out"
            )
        mask = resized(target.mask, _reduced(size, selection.most_side))
        wanted = selection.category in (None, target.label)
        if mask and wanted and mask.area >= selection.least_area:
            yield replace(target, mask=mask)


def _pixels(most_side: int, image: Path) -> Pixels:
    import cv2

    pixels = read_rgb(image)
    size = _reduced(pixels.shape[:2], most_side)
    if size == pixels.shape[:2]:
        return pixels
    return cv2.resize(pixels, size[::-1], interpolation=cv2.INTER_AREA)


def _reduced(size: tuple[int, ...], most_side: int) -> Size:
    height, width = size[0], size[1]
    scale = most_side / max(height, width) if most_side else 1.0
    if scale >= 1:
        return height, width
    return max(1, round(height * scale)), max(1, round(width * scale))


def resized(mask: Mask, size: Size) -> Mask:
    """A mask at another size, by nearest neighbours."""
    if mask.shape == size:
        return mask
    import cv2
    import numpy as np

    bits = mask.dense().view(np.uint8)
    return Mask.of(cv2.resize(bits, size[::-1], interpolation=cv2.INTER_NEAREST_EXACT) > 0)


@dataclass(frozen=True, slots=True)
class Kind:
    """One dataset of the suite.

    `images` and `annotations` are places under its folder; `image_count` and `masks` how many the
    authors used; `reader` is a function of `mask_readers`, which gets these places and `options`.
    """

    name: str
    title: str
    about: str
    reader: str
    split: str
    image_count: int
    masks: int
    images: str
    annotations: str
    citation: str
    homepage: str
    licence: str = "see the project page"
    confidence: Confidence = "recalled"
    sampled: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def card(self) -> DatasetCard:
        places = dict.fromkeys(p for p in (self.images, self.annotations) if p != ".")
        layout = " and ".join(f"'{self.name}/{place}'" for place in places) or f"'{self.name}'"
        part = f"a sample of {self.masks}" if self.sampled else str(self.masks)
        notes = (
            f"{self.split} belongs in {layout}. Segment Anything used {part} masks on"
            f" {self.image_count} images, faces blurred; its parts of large sets were not"
            f" published. Reader {self.reader}: {Certainty[self.confidence]}."
        )
        return DatasetCard(
            self.name, f"{self.title}: {self.about}", self.licence, self.citation,
            targets=self.masks, homepage=self.homepage, notes=notes,
        )  # fmt: skip


SUITE = tuple(Kind(name=name, **table) for name, table in _TABLES.items())


def _register(kind: Kind) -> None:
    @catalogue.datasets.add(kind.name, kind.card.summary)
    def make(
        data: str | Path | None = None,
        images: str = kind.images,
        annotations: str = kind.annotations,
        sample: int | None = None,
        least_area: int = 0,
        most_side: int = 0,
        split: str | None = None,
        category: str | None = None,
    ) -> Listed:
        named = (kind.name, kind.title.replace(" ", "_"), *_ALIASES.get(kind.name, ()))
        parts = [part for part in dict.fromkeys((images, annotations)) if part != "."]
        folder = set_folder(kind.card, data, named, parts or ["."])
        read: Callable[..., dict[str, Item]] = getattr(mask_readers, kind.reader)
        items = read(folder / images, folder / annotations, **kind.options)
        if not items:
            raise NotFound(
                f"dataset '{kind.name}': no image with masks in '{folder}' ({kind.homepage})"
            )
        return Listed(kind.card, items, Selection(sample, least_area, most_side, split, category))


for _kind in SUITE:
    _register(_kind)

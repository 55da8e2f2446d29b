"""Listed datasets: a list of images, each with a way to its masks.

Sampling: which images of a large dataset are used.

Segment Anything samples datasets of more than 15 000 masks in part: random images until
there are about 10 000 masks. Its own parts were not published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Pixels, Target, size_in_words
from segmeter.core.seeds import generator
from segmeter.datasets.data_roots import ImageItem, ImageSet, read_list
from segmeter.datasets.image_files import image_size, read_rgb

LARGE, ABOUT = 15_000, 10_000


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


Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Item:
    """One image; `masks` reads its targets, given its `(H, W)`, from `files`."""

    image: Path
    masks: Callable[[Size], Iterable[Target]]
    files: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of a dataset that is used."""

    sample: int | None = None  # seed of the sample of large sets; None uses everything
    least_area: int = 0  # smaller masks are left out, in pixels after resizing
    most_side: int = 0  # images are reduced to this longest side, never enlarged; 0 leaves them
    split: str | None = None  # a file that names a scene a line; only these are used
    category: str | None = None  # only masks of this class

    def __post_init__(self) -> None:
        for name in ("least_area", "most_side"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise BadInput(f"'{name}' is a whole number of pixels, not {value!r}")


class Listed(ImageSet):
    """A dataset made of items, in the order of their names. Empty masks are passed over."""

    def __init__(self, card: DatasetCard, items: Mapping[str, Item], selection: Selection) -> None:
        chosen = _in_split(card.name, items, selection.split)
        if not chosen:
            raise NotFound(f"dataset '{card.name}': no image with masks in its folder")
        made = {
            name: ImageItem(item.image, partial(_targets, f"{card.name}/{name}", item, selection),
                            item.files)
            for name, item in chosen.items()
        }  # fmt: skip
        super().__init__(card, made, pixels=partial(_pixels, selection.most_side))
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
        return {name: len(list(item.targets())) for name, item in self._sources.items()}


def _targets(name: str, item: Item, selection: Selection) -> Iterator[Target]:
    size = image_size(item.image)
    for target in item.masks(size):
        if target.mask.shape != size:
            raise BadInput(
                f"{name}: mask '{target.id}' of '{item.files[0]}' is "
                f"{size_in_words(target.mask.shape)} but its image is {size_in_words(size)};"
                " resize it or leave the scene out"
            )
        mask = _resized(target.mask, _reduced(size, selection.most_side))
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


def _in_split(name: str, items: Mapping[str, Item], split: str | None) -> dict[str, Item]:
    ordered = {scene: items[scene] for scene in sorted(items)}
    if split is None:
        return ordered
    wanted = read_list(Path(split))
    unknown = next((scene for scene in wanted if scene not in ordered), None)
    if unknown is not None:
        raise NotFound(f"'{split}' names the scene '{unknown}', which '{name}' does not have")
    return {scene: ordered[scene] for scene in wanted}


def _reduced(size: tuple[int, ...], most_side: int) -> Size:
    height, width = size[0], size[1]
    scale = most_side / max(height, width) if most_side else 1.0
    if scale >= 1:
        return height, width
    return max(1, round(height * scale)), max(1, round(width * scale))


def _resized(mask: Mask, size: Size) -> Mask:
    if mask.shape == size:
        return mask
    import cv2
    import numpy as np

    bits = mask.dense().view(np.uint8)
    return Mask.of(cv2.resize(bits, size[::-1], interpolation=cv2.INTER_NEAREST_EXACT) > 0)

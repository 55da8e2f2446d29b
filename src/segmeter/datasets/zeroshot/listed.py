"""Listed datasets: a list of images, each with a way to its masks.

Sampling: which images of a large dataset are used.

Segment Anything samples datasets of more than 15 000 masks in part: random images until
there are about 10 000 masks. Its own parts were not published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard, Pixels, Target
from segmeter.core.seeds import generator
from segmeter.datasets.data_roots import ImageSet, digest, read_list
from segmeter.datasets.image_files import image_size

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
    """One scene.

    Attributes
    ----------
    image
        Its file.
    masks
        Reads the masks, for an image of the given `(H, W)`.
    files
        What the masks are read from.
    groups
        What all its targets share, such as the video that it is a frame of (`image`).
    """

    image: Path
    masks: Callable[[Size], Iterable[Target]]
    files: tuple[Path, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of a dataset that is used.

    Attributes
    ----------
    sample
        Seed of the sample of large sets; None uses everything.
    least_area
        Smaller masks are left out, in pixels after resizing.
    most_side
        Images are reduced to this longest side, never enlarged; 0 leaves them.
    split
        A file that names a scene a line; only these are used.
    category
        Only masks of this class.
    """

    sample: int | None = None
    least_area: int = 0
    most_side: int = 0
    split: str | None = None
    category: str | None = None

    def __post_init__(self) -> None:
        for name in ("least_area", "most_side"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise BadInput(f"'{name}' is a whole number of pixels, not {value!r}")


class Listed(ImageSet):
    """A dataset made of items, in the order of their names. Empty masks are passed over."""

    def __init__(
        self, card: DatasetCard, items: Mapping[str, Item], selection: Selection | None = None
    ) -> None:
        self._card, self.name = card, card.name
        self._selection = selection or Selection()
        self._items = _in_split(card.name, items, self._selection.split)
        if not self._items:
            raise NotFound(f"dataset '{card.name}': no image with masks in its folder")

    @cached_property
    def card(self) -> DatasetCard:
        if self._selection.sample is None:
            return self._card
        chosen = sum(self._counts[name] for name in self.scenes())
        note = f" {len(self.scenes())} images with {chosen} masks are used."
        return replace(self._card, notes=self._card.notes + note, targets=chosen)

    def scenes(self) -> Sequence[str]:
        return list(self._items) if self._selection.sample is None else self._sampled

    def fingerprint(self) -> str:
        files = [f for item in self._items.values() for f in (item.image, *item.files)]
        return digest(dict.fromkeys(files))

    @cached_property
    def _sampled(self) -> list[str]:
        chosen = sampled(self._counts, int(self._selection.sample or 0))
        return [name for name in self._items if name in chosen]

    @cached_property
    def _counts(self) -> dict[str, int]:
        """How many masks each image has; every file of masks is read once for it."""
        return {name: len(self._targets(name)) for name in self._items}

    @cached_property
    def _images(self) -> Mapping[str, Path]:
        return {name: item.image for name, item in self._items.items()}

    def _pixels(self, image: Path) -> Pixels:
        pixels = super()._pixels(image)
        size = _reduced(pixels.shape[:2], self._selection.most_side)
        if size == pixels.shape[:2]:
            return pixels
        import cv2

        return cv2.resize(pixels, size[::-1], interpolation=cv2.INTER_AREA)

    def _targets(self, scene: str) -> list[Target]:
        item = self._items[scene]
        size = image_size(item.image)
        found = []
        for target in item.masks(size):
            mask = _resized(target.mask, _reduced(size, self._selection.most_side))
            wanted = self._selection.category in (None, target.label)
            if mask and wanted and mask.area >= self._selection.least_area:
                found.append(replace(target, mask=mask, groups={**item.groups, **target.groups}))
        return found


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

"""Initial prompts of a volume: boxes and points, interpolated or propagated through slices.

Everything is rounded in coordinates of the whole volume: half to even depends on parity, so
rounding inside a crop with an odd offset would move points and boxes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.morphology import deepest_voxel, largest_component
from segmeter.core.prompts import Box, Click, Prompt
from segmeter.users.error_prompts import pixel_at

Centre = Literal["box", "mass", "edt"]
Pixel = tuple[int, int]
PUBLISHED_SEED = 1
"""The original's runner passes this seed everywhere, whatever its configuration says."""
Pixels = npt.NDArray[np.int64]
# Negative points lie in a ring around the object: dilated by the first, then by the second.
_GAP_PX, _RING_PX = 2, 3
_SEEDS = 5
Corners = list[int]  # x0, y0, x1, y1
Answers = Callable[[Sequence[tuple[Prompt, ...]]], Sequence[Mask]]
"""Masks that a model predicts, for each set of prompts."""
_P = TypeVar("_P", Click, Box)


def foreground_slices(target: Mask) -> list[int]:
    """Slices that hold any of the target, ascending."""
    check_target(target)
    return [int(z) + target.low[0] for z in np.flatnonzero(target.bits.any(axis=(1, 2)))]


def seed_slices(target: Mask, count: int, protocol: ProtocolName) -> list[int]:
    """Slices a person would prompt, about `count` of them, from the first to the last.

    `published` spaces them equally along z and takes the nearest slice of the target, the
    lower one on a tie, so that several may fall together; `corrected` spaces them equally among
    the slices that hold the target.
    """
    own = foreground_slices(target)
    count = min(count, len(own))
    if protocol == "corrected":
        return [own[int(i)] for i in np.linspace(0, len(own) - 1, count)]
    wanted = np.linspace(own[0], own[-1], count).astype(int)
    return [_nearest_slice(own, int(z)) for z in wanted]


def median_slice(target: Mask) -> int:
    """The middle one of the target's slices, truncated, else the nearest, lower on a tie."""
    own = foreground_slices(target)
    return _nearest_slice(own, int(np.median(own)))


def tight_box(mask: Mask, z: int) -> Box:
    """The box around all of a slice's mask, from its first to its last pixel.

    The original counts to one past the last; views that follow it add the one.
    """
    return Box((z, *mask.low), (z, *(h - 1 for h in mask.high)))


def centre_of(mask: Mask, centre: Centre) -> Pixel:
    """A pixel in the middle of a slice's largest component.

    `box`: the middle of its box; `mass`: the mean of its pixels; each rounded half to even,
    then the nearest pixel of the component, the first in raster order among equals. `edt`: its
    deepest pixel. The last component in raster order wins a tie for the largest.
    """
    part = largest_component(mask, tie="last")
    if centre == "edt":
        _, point = deepest_voxel(part, (1.0, 1.0))
        return (0, 0) if point is None else (point[0], point[1])
    if centre == "box":
        middle = [(a + h - 1) / 2 for a, h in zip(part.low, part.high, strict=True)]
    else:
        pixels = np.argwhere(part.bits) + part.low
        middle = [float(m) for m in pixels.mean(axis=0)]
    point = round(middle[0]), round(middle[1])
    if part[point]:
        return point
    pixels = np.argwhere(part.bits) + part.low
    y, x = pixels[int(((pixels - point) ** 2).sum(axis=1).argmin())]
    return int(y), int(x)


def _nearest_slice(own: list[int], z: int) -> int:
    return min(own, key=lambda s: (abs(s - z), s))


def check_target(target: Mask) -> None:
    """Refuse what cannot be prompted: an image's mask, or an empty one."""
    if len(target.shape) != 3:
        raise BadInput("volume prompters need a target of a volume; this one is of an image")
    if not target:
        raise BadInput("an empty target cannot be prompted; leave it out")


class Draws:
    """Random draws of a prompter, from a generator that belongs to target, prompter and round."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng: np.random.Generator | np.random.RandomState = rng
        self._integers: Callable[..., Any] = rng.integers

    def restart(self) -> None:
        """Restart where the original sets its seed again; here nothing happens."""

    def choose(self, count: int, size: int) -> list[int]:
        """So many different numbers below `count`, in drawn order."""
        return list(self._rng.choice(count, size, replace=False).tolist())

    def repeat(self, count: int, size: int) -> list[int]:
        """So many numbers below `count`, which may repeat."""
        return list(self._integers(count, size=size).tolist())

    def below(self, count: int) -> int:
        return self.repeat(count, 1)[0]

    def chance(self, probability: float) -> bool:
        return bool(self._rng.random() < probability)

    def shifts(self, reach: int) -> list[int]:
        """Four whole numbers from -reach to reach."""
        return list(self._integers(-reach, reach + 1, size=4).tolist())

    def fraction(self) -> float:
        """A number in [0, 1) for where a scribble starts."""
        return float(self._rng.random())


class PublishedDraws(Draws):
    """The legacy generator of the original: every prompter shares one stream.

    Scribbles start at a draw of Python's own generator, seeded each time.

    >>> PublishedDraws().choose(10, 3)
    [2, 9, 6]
    """

    def __init__(self, seed: int = PUBLISHED_SEED) -> None:
        self._seed = seed
        self._rng = self._stream = np.random.RandomState(seed)
        self._integers = self._stream.randint

    def restart(self) -> None:
        self._stream.seed(self._seed)

    def chance(self, probability: float) -> bool:
        return bool(self._stream.binomial(1, probability))

    def fraction(self) -> float:
        own = random.Random(self._seed)
        own.randint(2, 2)  # the original draws the dilation's radius, which is always 2
        return own.random()


def draws_of(protocol: ProtocolName, rng: np.random.Generator) -> Draws:
    return PublishedDraws() if protocol == "published" else Draws(rng)


def box_per_slice(target: Mask) -> list[Box]:
    """A tight box around all of the target in each of its slices."""
    return [tight_box(target.slice(z), z) for z in foreground_slices(target)]


def boxes_from_3d_box(target: Mask) -> list[Box]:
    """The whole target's box, repeated in every slice from its first to its last."""
    own = foreground_slices(target)
    whole = Mask.box(target.shape[1:], target.low[1:], target.high[1:])
    return [tight_box(whole, z) for z in range(own[0], own[-1] + 1)]


def box_3d(target: Mask) -> Box:
    check_target(target)
    return Box.around(target)


def points_per_slice(target: Mask, n: int, draws: Draws) -> list[Click]:
    """Random pixels of the target in each of its slices, ascending, then in drawn order.

    A slice with fewer pixels gives all of them and repeats some, so that each has `n`.
    """
    draws.restart()
    clicks = []
    for z in foreground_slices(target):
        here = target.slice(z)
        if here.area >= n:
            clicks += _drawn(here, n, draws, z)
            continue
        pixels = np.flatnonzero(here.bits)  # in raster order
        chosen = [*range(len(pixels)), *draws.repeat(len(pixels), n - len(pixels))]
        clicks += [Click((z, *pixel_at(here, int(pixels[i]))), True) for i in chosen]
    return clicks


def _drawn(mask: Mask, n: int, draws: Draws, *z: int) -> list[Click]:
    """At most `n` different random pixels of a mask (of slice z), in drawn order."""
    pixels = np.flatnonzero(mask.bits)  # a third of the memory of their coordinates
    chosen = draws.choose(len(pixels), min(n, len(pixels)))
    return [Click((*z, *pixel_at(mask, int(pixels[i]))), True) for i in chosen]


def alternating_points_per_slice(target: Mask, n: int, draws: Draws) -> list[Click]:
    """Half positive, half negative pixels of each slice; the odd one is positive.

    Negative ones lie 2 to 5 pixels outside. All positives come first, then all negatives, in
    spite of the name, which is the original's. Nothing is repeated to fill up.
    """
    draws.restart()
    on, off = [], []
    for z in foreground_slices(target):
        here = target.slice(z)
        on += _drawn(here, (n + 1) // 2, draws, z)
        around = _ring(here)
        chosen = draws.choose(len(around), min(n // 2, len(around))) if len(around) else []
        off += [Click((z, *map(int, around[i])), False) for i in chosen]
    return [*on, *off]


def centre_point_per_slice(target: Mask, centre: Centre = "mass") -> list[Click]:
    slices = {z: target.slice(z) for z in foreground_slices(target)}
    return [Click((z, *centre_of(mask, centre)), True) for z, mask in slices.items()]


def _ring(mask: Mask) -> Pixels:
    import cv2
    from skimage.morphology import disk

    reach = _GAP_PX + _RING_PX
    low = tuple(max(0, a - reach) for a in mask.low)
    high = tuple(min(n, h + reach) for h, n in zip(mask.high, mask.shape, strict=True))
    inner = cv2.dilate(mask.crop(low, high).astype(np.uint8), disk(_GAP_PX))
    outer = cv2.dilate(inner, disk(_RING_PX))
    return np.argwhere((outer > 0) & (inner == 0)) + low


def points_per_volume(target: Mask, n: int, draws: Draws) -> list[Click]:
    check_target(target)
    draws.restart()
    return _drawn(target, n, draws)


def centroid(target: Mask) -> list[Click]:
    """The mean voxel, cut to whole numbers; it may be outside the target."""
    check_target(target)
    mean = (np.argwhere(target.bits) + target.low).mean(axis=0)
    return [Click(tuple(int(c) for c in mean), True)]


def centre_points_per_volume(
    target: Mask,
    n: int,
    protocol: ProtocolName,
    *,
    patch: int = 128,
    along: Literal["z", "x"] = "z",
) -> list[Click]:
    """Points spaced along the middle line of the target, its ends left out.

    With `patch` only points within a cube of so many voxels around their mean, the part that
    SAM-Med3D sees; 0 takes all (SegVol). Points are ordered `along` an axis, which for SegVol is x
    in the original.
    """
    points = [click.point for click in interpolated_points(target, _SEEDS, protocol)]
    if patch:
        middle = np.mean(points, axis=0)
        half = patch / 2
        points = [p for p in points if np.all((middle - half <= p) & (p < middle + half))]
    points.sort(key=lambda p: p[0 if along == "z" else 2])
    places = np.linspace(0, len(points) - 1, n + 2).astype(int)[1:-1]
    return [Click(points[i], True) for i in dict.fromkeys(int(i) for i in places)]


def interpolated_points(
    target: Mask, n: int, protocol: ProtocolName, centre: Centre = "box"
) -> list[Click]:
    """One positive point in every slice from the first seed to the last.

    Points between seeds may miss the target, and be in slices without it.
    """
    slices = seed_slices(target, n, protocol)
    seeds = {z: centre_of(target.slice(z), centre) for z in slices}
    return [Click((z, y, x), True) for z, (y, x) in _between(seeds)]


def box_seeds(
    target: Mask, n: int, protocol: ProtocolName, shaken: int = 0, draws: Draws | None = None
) -> dict[int, Corners]:
    """The boxes that a person draws, `(x0, y0, x1, y1)` each, shaken by up to so many pixels.

    x1 and y1 are the last column and row in `corrected`, one past them in `published`.
    """
    wanted = seed_slices(target, n, protocol)
    slices = sorted(set(wanted)) if len(wanted) > 1 else [median_slice(target)]
    seeds = {}
    for z in slices:
        tight, past = tight_box(target.slice(z), z), int(protocol == "published")
        ends = [int(tight.high[2]) + past, int(tight.high[1]) + past]
        corners = [int(tight.low[2]), int(tight.low[1]), *ends]
        if shaken and draws is not None:
            # Moved inside the slice; a flat box grows by a pixel each way.
            last = np.array([target.shape[2], target.shape[1]]) - 1
            box = np.clip(np.add(corners, draws.shifts(shaken)).reshape(2, 2), 0, last)
            box = np.clip(box + np.outer([-1, 1], box[0] >= box[1]), 0, last)
            corners = box.ravel().tolist()
        seeds[z] = corners
    return seeds


def interpolated_boxes(
    target: Mask, n: int, protocol: ProtocolName, shaken: int = 0, draws: Draws | None = None
) -> list[Box]:
    """One box in every slice from the first seed to the last; it may have no width.

    `published` interpolates and rounds ends that are one past the last pixel.
    """
    past = int(protocol == "published")
    seeds = box_seeds(target, n, protocol, shaken, draws)
    boxes = []
    for z, (x0, y0, x1, y1) in _between(seeds):
        if shaken:
            x0, x1, y0, y1 = min(x0, x1), max(x0, x1), min(y0, y1), max(y0, y1)
        boxes.append(Box((z, y0, x0), (z, y1 - past, x1 - past)))
    return boxes


def _between(seeds: Mapping[int, Sequence[int]]) -> list[tuple[int, list[int]]]:
    """Values of every slice, each on a line between seeds, rounded half to even."""
    given = sorted(seeds)
    values = np.array([seeds[z] for z in given], dtype=float)
    every = np.arange(given[0], given[-1] + 1)
    lines = np.stack([np.interp(every, given, column) for column in values.T], axis=1)
    rounded = np.rint(lines).astype(int).tolist()
    return [(int(z), row) for z, row in zip(every, rounded, strict=True)]


def point_propagation(
    target: Mask, answers: Answers, draws: Draws, protocol: ProtocolName, centre: Centre = "box"
) -> list[Click]:
    """Random seeds in the middle slice, then the middle of each slice's prediction in the next.

    Propagation ends at an empty prediction. `published` leaves out the first five points of the
    way down even when there were fewer seeds, so that slices go without a prompt.
    """
    draws.restart()
    z = median_slice(target)
    seeds = _drawn(target.slice(z), _SEEDS, draws, z)
    up, down = _ways(
        target, seeds, answers, lambda z, mask: Click((z, *centre_of(mask, centre)), True)
    )
    dropped = max(0, _SEEDS - len(seeds)) if protocol == "published" else 0
    return [*seeds, *up, *down[dropped:]]


def box_propagation(target: Mask, answers: Answers, protocol: ProtocolName) -> list[Box]:
    """A box in the middle slice, then the box of each slice's prediction in the next slice.

    `published` gives both neighbours the drawn box itself and continues from there; `corrected`
    predicts the middle slice first, as in the paper.
    """
    middle = median_slice(target)
    drawn = target.slice(middle)
    copied = drawn if protocol == "published" else None
    seed = tight_box(drawn, middle)
    ways = _ways(target, [seed], answers, lambda z, mask: tight_box(mask, z), copied)
    return sorted([seed, *ways[0], *ways[1]], key=lambda box: box.low[0])


def _ways(
    target: Mask,
    seeds: Sequence[_P],
    answers: Answers,
    after: Callable[[int, Mask], _P],
    copied: Mask | None = None,
) -> tuple[list[_P], list[_P]]:
    """Prompts of the slices above and below the middle, each way until a prediction is empty.

    The slices next to the middle get their prompts from `copied`, if given.
    """
    own, middle = foreground_slices(target), median_slice(target)
    made: dict[int, list[_P]] = {1: [], -1: []}
    ends = {1: own[-1], -1: own[0]}
    while going := [way for way in made if middle + way * len(made[way]) != ends[way]]:
        asked = [tuple(made[way][-1:] or seeds) for way in going]
        masks = [None] * len(going) if copied and not made[going[0]] else answers(asked)
        for way, mask in zip(going, masks, strict=True):
            z = middle + way * len(made[way])
            shown = copied if mask is None else mask.slice(z)
            if shown:
                made[way].append(after(z + way, shown))
            else:
                ends[way] = z
    return made[1], made[-1]

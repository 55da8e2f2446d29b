"""Slices of a target: which there are, which are shown to a person, where their middle is.

Everything is rounded in coordinates of the whole volume: half to even depends on parity, so
rounding inside a crop with an odd offset would move points and boxes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.morphology import deepest_voxel, largest_component
from segmeter.core.prompts import Box

Centre = Literal["box", "mass", "edt"]
Pixel = tuple[int, int]


def foreground_slices(target: Mask) -> list[int]:
    """Slices that hold any of the target, ascending."""
    check_target(target)

    def found() -> tuple[int, ...]:
        filled = np.flatnonzero(target.bits.any(axis=(1, 2)))
        return tuple(int(z) + target.low[0] for z in filled)

    return list(target.derived("foreground slices", found))


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
    then the nearest pixel of the component. `edt`: its deepest pixel. The last component in
    raster order wins a tie for the largest.
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
    return nearest_pixel(part, (round(middle[0]), round(middle[1])))


def nearest_pixel(mask: Mask, point: Pixel) -> Pixel:
    """The mask's pixel nearest to a point; first in raster order among equals."""
    if mask[point]:
        return point
    pixels = np.argwhere(mask.bits) + mask.low
    away = ((pixels - point) ** 2).sum(axis=1)
    y, x = pixels[int(away.argmin())]
    return int(y), int(x)


def _nearest_slice(own: list[int], z: int) -> int:
    return min(own, key=lambda s: (abs(s - z), s))


def check_target(target: Mask) -> None:
    """Refuse what cannot be prompted: an image's mask, or an empty one."""
    if len(target.shape) != 3:
        raise BadInput("volume prompters need a target of a volume; this one is of an image")
    if not target:
        raise BadInput("an empty target cannot be prompted; leave it out")


PUBLISHED_SEED = 1
"""The original's runner passes this seed everywhere, whatever its configuration says."""


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
    """Random draws of a protocol."""
    return PublishedDraws() if protocol == "published" else Draws(rng)

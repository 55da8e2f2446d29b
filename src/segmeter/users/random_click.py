"""Random clicks: anywhere in the error region, or a random first click."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.error_regions import error_regions
from segmeter.core.masks import Mask
from segmeter.core.prompts import Click, Prompt
from segmeter.core.users import Observation
from segmeter.users.centre_click import TOGETHER, Found, Together, centre_click
from segmeter.users.drawn_pixels import pixel_at

__all__ = ["RandomClick", "RandomFirstClick", "random_click"]


def random_click(observation: Observation, rng: np.random.Generator) -> Click | None:
    """A click on a wrong pixel, each as likely as the other, not clicked before.

    Its sign follows from where it falls: positive on the false negatives, negative on what is
    false positive. None when no such pixel is left.
    """
    false_negatives, false_positives = error_regions(observation.target, observation.mask)
    clicked = {p.point for p in observation.prompts if isinstance(p, Click)}
    open_pixels = [_open(region, clicked) for region in (false_negatives, false_positives)]
    counts = [len(indices) for indices in open_pixels]
    if not sum(counts):
        return None
    drawn = int(rng.integers(sum(counts)))
    positive = drawn < counts[0]
    region = false_negatives if positive else false_positives
    index = open_pixels[0][drawn] if positive else open_pixels[1][drawn - counts[0]]
    return Click(pixel_at(region, int(index)), positive)


@catalogue.users.add("random-click", summary="clicks anywhere in the error region")
@dataclass(frozen=True, slots=True)
class RandomClick:
    """Clicks anywhere in the error region."""

    name: str = "random-click"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        return random_click(observation, rng)


@catalogue.users.add("random-first-click", summary="first click anywhere on the object")
@dataclass(frozen=True, slots=True)
class RandomFirstClick:
    """First clicks anywhere on the object, then at the centre of the error region."""

    team: ClassVar[Together] = TOGETHER
    name: str = "random-first-click"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        return centre_click(observation) if observation.prompts else random_click(observation, rng)

    @staticmethod
    def next_batch(
        users: Sequence[RandomFirstClick],
        found: Sequence[Found],
        draws: Sequence[np.random.Generator],
    ) -> list[Prompt | None]:
        return [
            one.click if one.observation.prompts else random_click(one.observation, draws[i])
            for i, one in enumerate(found)
        ]


def _open(mask: Mask, clicked: set[tuple[float, ...]]) -> npt.NDArray[np.intp]:
    """The mask's pixels that were not clicked, as indices into its bits in raster order."""
    bits = mask.bits
    taken = [point for point in clicked if all(float(c).is_integer() for c in point)]
    inside = [pixel for point in taken if mask[pixel := tuple(int(c) for c in point)]]
    if inside:
        bits = bits.copy()
        for pixel in inside:
            bits[tuple(c - a for c, a in zip(pixel, mask.low, strict=True))] = False
    return np.flatnonzero(bits)

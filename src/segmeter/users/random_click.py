"""Random clicks: anywhere in the error region, or a random first click."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from segmeter.core import catalogue
from segmeter.core.error_regions import error_regions
from segmeter.core.masks import Mask
from segmeter.core.prompts import Click, Prompt
from segmeter.core.users import Observation
from segmeter.users.centre_click import TOGETHER, Found, Together, centre_click

__all__ = ["RandomClick", "RandomFirstClick", "random_click"]


def random_click(observation: Observation, rng: np.random.Generator) -> Click | None:
    """A click on a wrong pixel, each as likely as the other, not clicked before.

    Its sign follows from where it falls: positive on the false negatives, negative on what is
    false positive. None when no such pixel is left.
    """
    false_negatives, false_positives = error_regions(observation.target, observation.mask)
    clicked = {p.point for p in observation.prompts if isinstance(p, Click)}
    open_pixels = [_places(false_negatives, clicked), _places(false_positives, clicked)]
    counts = [len(places) for places in open_pixels]
    if not sum(counts):
        return None
    drawn = int(rng.integers(sum(counts)))
    positive = drawn < counts[0]
    place = open_pixels[0][drawn] if positive else open_pixels[1][drawn - counts[0]]
    return Click(tuple(int(c) for c in place), positive)


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


def _places(
    mask: Mask, clicked: set[tuple[float, ...]]
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The mask's pixels that were not clicked, one per row, in raster order."""
    places = np.argwhere(mask.bits) + np.array(mask.low, dtype=np.int64)
    if not clicked or not len(places):
        return places
    fresh = [tuple(p) not in clicked for p in places.tolist()]
    return places[fresh]

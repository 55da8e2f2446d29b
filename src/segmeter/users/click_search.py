"""The best and the worst click by trying: coarse to fine over the valid clicks.

Works for any model. A lattice over the error region is tried first, then the neighbourhoods of
the most promising places with half the spacing, and so on down to single pixels. All
clicks of a level go to the view in one call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask
from segmeter.core.prompts import Click
from segmeter.core.users import Observation
from segmeter.measures.bands import boundary_iou
from segmeter.measures.objects import iou
from segmeter.users.centre_click import centre_click
from segmeter.users.gradient_attack import (
    Attempt,
    Direction,
    Trial,
    request_with,
    shown,
    valid_pixels,
)

__all__ = ["SearchGrid", "search"]

Pixel = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SearchGrid:
    """How hard to look: clicks of the first lattice, places refined, coarsest spacing kept."""

    lattice: int = 100
    places: int = 4
    finest: int = 1


def search(
    observations: Sequence[Observation],
    directions: Sequence[Direction],
    effort: SearchGrid | None = None,
) -> list[Attempt | None]:
    """Try clicks from coarse to fine; None where the user is content.

    The centre click is the first trial, so nothing worse than it is ever chosen.
    """
    starts = [centre_click(observation) for observation in observations]
    hunts = {
        i: _Hunt(observation, direction, start, effort or SearchGrid())
        for i, (observation, direction, start) in enumerate(
            zip(observations, directions, starts, strict=True)
        )
        if start is not None
    }
    while wanted := [(hunt, pixel) for hunt in hunts.values() for pixel in hunt.wanted()]:
        encoded = observations[0].encoded
        requests = [
            request_with(hunt.observation, Click(pixel, hunt.positive)) for hunt, pixel in wanted
        ]
        for (hunt, pixel), mask in zip(wanted, shown(encoded, requests), strict=True):
            hunt.note(pixel, mask)
        for hunt in hunts.values():
            hunt.finer()
    return [hunts[i].attempt() if i in hunts else None for i in range(len(observations))]


class _Hunt:
    """One session's search: what was tried, and where to look next."""

    def __init__(
        self, observation: Observation, direction: Direction, start: Click, effort: SearchGrid
    ) -> None:
        self.observation, self.positive, self.effort = observation, start.positive, effort
        self.sign = 1.0 if direction == "best" else -1.0
        self.start: Pixel = (round(start.point[0]), round(start.point[1]))
        self.valid = valid_pixels(observation, start.positive)
        area = max(1, self.valid.area)
        self.spacing = _power_of_two(math.sqrt(area / effort.lattice))
        self.scores: dict[Pixel, tuple[float, float]] = {}
        self.next: list[Pixel] = [self.start, *lattice(self.valid, self.spacing)]

    def wanted(self) -> list[Pixel]:
        """Pixels of this level that were not tried yet, each once."""
        return [pixel for pixel in dict.fromkeys(self.next) if pixel not in self.scores]

    def note(self, pixel: Pixel, mask: Mask) -> None:
        target = self.observation.target
        ignore = target.ignore if self.observation.protocol == "corrected" else None
        self.scores[pixel] = (
            iou(target.mask, mask, ignore), boundary_iou(target.mask, mask, ignore)
        )  # fmt: skip

    def finer(self) -> None:
        """Look around the most promising places with half the spacing."""
        self.next = []
        while not self.wanted() and self.spacing > self.effort.finest:
            self.spacing //= 2
            self.next = [
                (y + dy, x + dx)
                for y, x in self._ranked()[: self.effort.places]
                for dy in (-self.spacing, 0, self.spacing)
                for dx in (-self.spacing, 0, self.spacing)
                if self.valid[(y + dy, x + dx)]
            ]

    def attempt(self) -> Attempt:
        """All trials; the choice is marked last, after the start."""
        chosen = self._ranked()[0]
        if self.sign * (self.scores[chosen][0] - self.scores[self.start][0]) <= 0:
            chosen = self.start
        others = [pixel for pixel in self.scores if pixel not in (self.start, chosen)]
        order = [self.start, *others] + ([chosen] if chosen != self.start else [])
        trials = [Trial(p, *self.scores[p], 0.0, True, p in (self.start, chosen)) for p in order]
        return Attempt(self.positive, trials)

    def _ranked(self) -> list[Pixel]:
        """Best first in the direction looked for; raster order among equals."""
        return sorted(self.scores, key=lambda p: (-self.sign * self.scores[p][0], p))


def lattice(valid: Mask, spacing: int) -> list[Pixel]:
    """One valid pixel for each cell of a lattice that holds any: the one nearest its middle.

    So thin parts are tried too, which a plain grid would step over.
    """
    pixels: npt.NDArray[np.int64] = np.argwhere(valid.bits)
    if not len(pixels):
        return []
    cells = pixels // spacing
    off = np.abs(2 * (pixels - cells * spacing) - (spacing - 1)).max(axis=1)
    order = np.lexsort((np.arange(len(pixels)), off, cells[:, 1], cells[:, 0]))
    ordered = cells[order]
    first = np.r_[True, (ordered[1:] != ordered[:-1]).any(axis=1)]
    kept = pixels[order[first]] + np.array(valid.low)
    return [(int(y), int(x)) for y, x in kept]


def _power_of_two(length: float) -> int:
    return int(2 ** max(0, round(math.log2(max(length, 1)))))

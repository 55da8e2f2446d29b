"""Adversaries: users that query the model to find its best or worst click."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import Differentiable, Team
from segmeter.core.grouping import grouped
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Click, Prompt
from segmeter.core.users import Observation
from segmeter.users.error_prompts import Generators, Teamed, centre_click
from segmeter.users.gradient_attack import (
    STEPS,
    Attempt,
    Direction,
    Trial,
    follow,
    request_with,
    scores_of,
    shown,
    valid_pixels,
)

Pixel = tuple[int, int]
Attempts = dict[tuple[str, str, ProtocolName, int], Attempt]
"""By user, target, protocol and round."""


@dataclass(frozen=True, slots=True)
class SearchGrid:
    """Size of the search: clicks of the first lattice, refined positions, coarsest spacing."""

    lattice: int = 100
    places: int = 4
    finest: int = 1


def search(
    observations: Sequence[Observation],
    directions: Sequence[Direction],
    effort: SearchGrid | None = None,
) -> list[Attempt | None]:
    """Try clicks from coarse to fine; None if the user accepts the mask.

    The centre click is the first trial, so nothing worse than it is ever chosen.
    """
    hunts = [
        None
        if (start := centre_click(seen)) is None
        else _Hunt(seen, direction, start, effort or SearchGrid())
        for seen, direction in zip(observations, directions, strict=True)
    ]
    going = [hunt for hunt in hunts if hunt is not None]
    while wanted := [(hunt, pixel) for hunt in going for pixel in hunt.wanted()]:
        requests = [
            request_with(hunt.observation, Click(pixel, hunt.positive)) for hunt, pixel in wanted
        ]
        masks = shown(observations[0].encoded, requests)
        for (hunt, pixel), mask in zip(wanted, masks, strict=True):
            hunt.scores[pixel] = scores_of(hunt.observation, mask)
        for hunt in going:
            hunt.finer()
    return [None if hunt is None else hunt.attempt() for hunt in hunts]


class _Hunt:
    """The search of one session: clicks tried so far, and the next positions."""

    def __init__(
        self, observation: Observation, direction: Direction, start: Click, effort: SearchGrid
    ) -> None:
        self.observation, self.positive, self.effort = observation, start.positive, effort
        self.sign = 1.0 if direction == "best" else -1.0
        self.start: Pixel = (round(start.point[0]), round(start.point[1]))
        self.valid = valid_pixels(observation, start.positive)
        area = max(1, self.valid.area)
        wide = max(1.0, math.sqrt(area / effort.lattice))
        self.spacing = 2 ** round(math.log2(wide))
        self.scores: dict[Pixel, tuple[float, float]] = {}
        self.next: list[Pixel] = [self.start, *lattice(self.valid, self.spacing)]

    def wanted(self) -> list[Pixel]:
        """Pixels of this level that were not tried yet, each once."""
        return [pixel for pixel in dict.fromkeys(self.next) if pixel not in self.scores]

    def finer(self) -> None:
        """Refine around the most promising positions with half the spacing."""
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
        """Best first in the direction of the search; raster order among equals."""
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


LATER = SearchGrid(36, 2, 2)
"""Search grid that replaces the gradient after the first round."""


def _together(
    users: Sequence[Any], observations: Sequence[Observation], rngs: Generators
) -> list[Prompt | None]:
    """The users of a scene; those who differ in direction only take every step together."""
    ways = grouped(range(len(users)), lambda i: replace(users[i], direction="best"))
    found: list[Prompt | None] = [None] * len(users)
    for way, members in ways.items():
        directions = [users[i].direction for i in members]
        attempts = way.attempts([observations[i] for i in members], directions)
        for i, attempt in zip(members, attempts, strict=True):
            user, seen = users[i], observations[i]
            if attempt is not None and user.kept is not None:
                user.kept[user.name, seen.target.id, seen.protocol, seen.round] = attempt
            found[i] = None if attempt is None else attempt.click
    return found


@dataclass(frozen=True, slots=True)
class Adversary(Teamed):
    """Finds the best or the worst click.

    By `gradient` it follows the model's gradient from the centre click, and searches where there
    is none; by `search` it tries clicks from coarse to fine, which works for any model. Its
    attempts go to `kept`, where that is given.
    """

    team: ClassVar[Team] = staticmethod(_together)
    direction: Direction
    by: Literal["gradient", "search"] = "gradient"
    steps: int = STEPS
    effort: SearchGrid | None = None
    kept: Attempts | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        return f"{self.direction}-click{'' if self.by == 'gradient' else '-search'}"

    def attempts(
        self, observations: Sequence[Observation], directions: Sequence[Direction]
    ) -> list[Attempt | None]:
        """All trials of each observation; one call may search both directions."""
        if self.by == "search":
            return search(observations, directions, self.effort)
        if not isinstance(observations[0].encoded, Differentiable):
            return search(observations, directions, None if observations[0].round == 1 else LATER)
        return follow(observations, directions, self.steps)


def _gradient(direction: Direction, steps: int = STEPS) -> Adversary:
    return Adversary(direction, steps=steps)


def _searching(
    direction: Direction, lattice: int = 100, places: int = 4, finest: int = 1
) -> Adversary:
    return Adversary(direction, "search", effort=SearchGrid(lattice, places, finest))


for _direction in get_args(Direction):
    for _end, _by, _make in (("", "gradient", _gradient), ("-search", "search", _searching)):
        _summary = f"{_direction} clicks for the model, found by {_by}"
        catalogue.users.add(f"{_direction}-click{_end}", _summary)(partial(_make, _direction))

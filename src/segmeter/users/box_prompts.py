"""Boxes: a box around the object first, then clicks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import ClassVar, get_args

import numpy as np

from segmeter.core import catalogue
from segmeter.core.capabilities import GivesLater, GivesPrompts, capable
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Request, render
from segmeter.core.prompts import Box, Prompt
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.measures.objects import boundary_iou, iou
from segmeter.users.error_prompts import centre_click
from segmeter.users.gradient_attack import Direction

# Segment Anything's training noise: a tenth of the side, at most 20 pixels.
SHARE, LIMIT_PX = 0.1, 20.0


def tight_box(target: Target) -> Box:
    """From the object's first to its last row and column."""
    mask = target.mask
    return Box(mask.low, tuple(h - 1 for h in mask.high))


def loose_box(target: Target, share: float = 0.1) -> Box:
    """A tight box grown on every side by a share of that side, inside the image."""
    tight = tight_box(target)
    grow = [share * (b - a + 1) for a, b in zip(tight.low, tight.high, strict=True)]
    return _inside(
        [a - g for a, g in zip(tight.low, grow, strict=True)],
        [b + g for b, g in zip(tight.high, grow, strict=True)],
        target.mask.shape,
    )


def jittered_box(target: Target, rng: np.random.Generator) -> Box:
    """A tight box whose four coordinates are moved as in Segment Anything's training.

    Normal noise with a deviation of a tenth of the side, at most 20 pixels either way.
    """

    def moves(side: float) -> tuple[float, float]:
        first, last = np.clip(rng.normal(0.0, SHARE * side, 2), -LIMIT_PX, LIMIT_PX)
        return first, last

    return _moved(target, moves)


def shaken_box(target: Target, rng: np.random.Generator) -> Box:
    """A tight box whose four coordinates are moved as in SAM 2's training.

    Uniform noise of at most a tenth of the side, at most 20 pixels, either way.
    """

    def moves(side: float) -> tuple[float, float]:
        reach = min(SHARE * side, LIMIT_PX)
        first, last = rng.uniform(-reach, reach, 2)
        return first, last

    return _moved(target, moves)


def _moved(target: Target, moves: Callable[[float], tuple[float, float]]) -> Box:
    """A tight box whose first and last coordinate of each axis are moved, given its length."""
    tight = tight_box(target)
    low, high = [], []
    for a, b in zip(tight.low, tight.high, strict=True):
        first, last = moves(b - a + 1)
        low.append(min(a + first, b + last))
        high.append(max(a + first, b + last))
    return _inside(low, high, target.mask.shape)


_FITS: dict[str, Callable[[Target, np.random.Generator], Box]] = {
    "tight": lambda target, rng: tight_box(target),
    "loose": lambda target, rng: loose_box(target),
    "jittered": jittered_box,
    "shaken": shaken_box,
}


@catalogue.users.add("box", summary="a tight, loose, jittered or shaken box, then centre clicks")
@dataclass(frozen=True, slots=True)
@capable(GivesLater, GivesPrompts)
class BoxThenClicks:
    """Draws a box around the object, then clicks the centre of each error region."""

    gives: ClassVar[frozenset[str]] = frozenset({"box"})
    gives_later: ClassVar[frozenset[str]] = frozenset({"click"})
    fit: str = "tight"

    def __post_init__(self) -> None:
        if self.fit not in _FITS:
            raise BadInput(f"a box is tight, loose, jittered or shaken, not '{self.fit}'")

    @property
    def name(self) -> str:
        return f"{self.fit}-box"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        if observation.prompts:
            return centre_click(observation)
        return _FITS[self.fit](observation.target, rng)


def _inside(low: list[float], high: list[float], shape: tuple[int, ...]) -> Box:
    return Box(
        tuple(float(max(0.0, a)) for a in low),
        tuple(float(min(n - 1.0, b)) for b, n in zip(high, shape, strict=True)),
    )


LEVELS, PLACES = 3, 2
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class BoxTrial:
    """A box that was tried and what came of it."""

    box: Box
    iou: float
    boundary_iou: float


@dataclass(frozen=True, slots=True)
class BoxesFound:
    """The tight box, and the worst and the best within reach of it."""

    tight: BoxTrial
    worst: BoxTrial
    best: BoxTrial
    tried: int

    def of(self, direction: Direction) -> BoxTrial:
        return self.worst if direction == "worst" else self.best


def jitter_reach(target: Target) -> tuple[float, float]:
    """How far a side may move down and across, in pixels."""
    height, width = target.mask.bits.shape
    return min(SHARE * height, LIMIT_PX), min(SHARE * width, LIMIT_PX)


def search_boxes(
    encoded: EncodedScene,
    target: Target,
    levels: int = LEVELS,
    ignored: bool = True,
    progress: Callable[[int], None] | None = None,
) -> BoxesFound:
    """Look for the worst and the best box together, coarse to fine.

    `progress` is called with the number of boxes tried; the total is not known in advance.
    """
    hunt = _Hunt(encoded, target, ignored, progress)
    hunt.request([(0.0, 0.0, 0.0, 0.0)])
    ends = (-1.0, 0.0, 1.0)
    hunt.request(list(product(ends, ends, ends, ends)))
    step = 1.0
    for _ in range(levels - 1):
        step /= 2
        centres = {*hunt.ranked(1)[:PLACES], *hunt.ranked(-1)[:PLACES]}
        hunt.request([_moved_corner(c, m, step) for c in sorted(centres) for m in _STAR])
    tight = hunt.known[0.0, 0.0, 0.0, 0.0]
    return BoxesFound(
        tight, hunt.known[hunt.ranked(-1)[0]], hunt.known[hunt.ranked(1)[0]], len(hunt.known)
    )


Shift = tuple[float, float, float, float]
# One or two sides at a time: 32 neighbours of a box.
_STAR = [m for m in product((-1, 0, 1), repeat=4) if 1 <= sum(map(abs, m)) <= 2]


class _Hunt:
    """Tried boxes as shifts of top, left, bottom and right, in units of the reach."""

    def __init__(
        self,
        encoded: EncodedScene,
        target: Target,
        ignored: bool,
        progress: Callable[[int], None] | None,
    ) -> None:
        self.encoded, self.target, self._progress = encoded, target, progress
        self.ignore: Mask | None = target.ignore if ignored else None
        self.known: dict[Shift, BoxTrial] = {}
        self._tight, self._reach = tight_box(target), jitter_reach(target)

    def request(self, shifts: Sequence[Shift]) -> None:
        fresh = [s for s in dict.fromkeys(shifts) if s not in self.known]
        for start in range(0, len(fresh), _AT_ONCE):
            part = fresh[start : start + _AT_ONCE]
            boxes = [self._box(shift) for shift in part]
            answers = self.encoded.predict([Request((box,)) for box in boxes])
            for shift, box, mask in zip(part, boxes, render(self.encoded, answers), strict=True):
                ground_truth = self.target.mask
                scores = (
                    iou(ground_truth, mask, self.ignore),
                    boundary_iou(ground_truth, mask, self.ignore),
                )
                self.known[shift] = BoxTrial(box, *scores)
            if self._progress is not None:
                self._progress(len(self.known))

    def ranked(self, sign: int) -> list[Shift]:
        """Best first (or worst, for -1); the tight box wins ties, then the smaller shift."""
        return sorted(self.known, key=lambda s: (-sign * self.known[s].iou, sum(map(abs, s)), s))

    def _box(self, shift: Shift) -> Box:
        (down, across), tight, shape = self._reach, self._tight, self.target.mask.shape
        top, left = tight.low[0] + down * shift[0], tight.low[1] + across * shift[1]
        bottom, right = tight.high[0] + down * shift[2], tight.high[1] + across * shift[3]
        low = (min(max(top, 0.0), bottom), min(max(left, 0.0), right))
        high = (min(bottom, shape[0] - 1.0), min(right, shape[1] - 1.0))
        return Box(low, high)


def _moved_corner(shift: Shift, move: Sequence[int], step: float) -> Shift:
    a, b, c, d = (min(1.0, max(-1.0, s + step * m)) for s, m in zip(shift, move, strict=True))
    return a, b, c, d


class BoxSearchers:
    """A team: each target is searched once, for the best box and the worst."""

    def next_batch(
        self,
        users: Sequence[AdversarialBox],
        observations: Sequence[Observation],
        rngs: Sequence[np.random.Generator],
    ) -> list[Prompt | None]:
        found: dict[tuple[str, str, int], BoxesFound] = {}
        answers: list[Prompt | None] = []
        for user, seen in zip(users, observations, strict=True):
            if seen.prompts:
                answers.append(centre_click(seen))
                continue
            key = seen.target.id, seen.protocol, user.levels
            if key not in found:
                corrected = seen.protocol == "corrected"
                found[key] = search_boxes(seen.encoded, seen.target, user.levels, corrected)
            answers.append(found[key].of(user.direction).box)
        return answers


@dataclass(frozen=True, slots=True)
@capable(GivesLater, GivesPrompts)
class AdversarialBox:
    """Draws the best or the worst box within human-like jitter, then clicks the centre."""

    gives: ClassVar[frozenset[str]] = frozenset({"box"})
    gives_later: ClassVar[frozenset[str]] = frozenset({"click"})
    team: ClassVar[BoxSearchers] = BoxSearchers()
    direction: Direction
    levels: int = LEVELS

    @property
    def name(self) -> str:
        return f"{self.direction}-box"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        return self.team.next_batch([self], [observation], [rng])[0]


for _direction in get_args(Direction):
    _summary = f"{_direction} box within human-like jitter, then clicks"
    catalogue.users.add(f"{_direction}-box", _summary)(partial(AdversarialBox, _direction))

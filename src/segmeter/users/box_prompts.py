"""Boxes: a box around the object first, then clicks; prompts of Segment Anything's training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, ClassVar, get_args

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import GivesLater, GivesPrompts, Team, capable
from segmeter.core.errors import check_choice
from segmeter.core.models import EncodedScene, Request, render
from segmeter.core.prompts import Box, Prompt
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.measures.objects import iou
from segmeter.users import error_prompts
from segmeter.users.adversary import Direction
from segmeter.users.error_prompts import Generators, Given, Teamed, centre_click

# Segment Anything's training noise: a tenth of the side, at most 20 pixels.
SHARE, LIMIT_PX = 0.1, 20.0
LEVELS, PLACES = 3, 2
_AT_ONCE = 64
Shift = tuple[float, ...]
"""Shifts of top, left, bottom and right, in units of the reach."""
# One or two sides at a time: 32 neighbours of a box.
_STAR = [np.array(m) for m in product((-1, 0, 1), repeat=4) if 1 <= sum(map(abs, m)) <= 2]


def jittered_box(target: Target, rng: np.random.Generator) -> Box:
    """A tight box whose four coordinates are moved as in Segment Anything's training.

    Normal noise with a deviation of a tenth of the side, at most 20 pixels either way.
    """
    return _moved(
        target, lambda side: np.clip(rng.normal(0.0, SHARE * side, 2), -LIMIT_PX, LIMIT_PX)
    )


def shaken_box(target: Target, rng: np.random.Generator) -> Box:
    """A tight box whose four coordinates are moved as in SAM 2's training.

    Uniform noise of at most a tenth of the side, at most 20 pixels, either way.
    """

    def moves(side: float) -> npt.NDArray[np.float64]:
        reach = min(SHARE * side, LIMIT_PX)
        return rng.uniform(-reach, reach, 2)

    return _moved(target, moves)


def _moved(target: Target, moves: Callable[[float], npt.NDArray[np.float64]]) -> Box:
    """A tight box whose first and last coordinate of each axis are moved, given its length."""
    tight = Box.around(target.mask)
    low, high = [], []
    for a, b, n in zip(tight.low, tight.high, target.mask.shape, strict=True):
        first, last = moves(b - a + 1)
        low.append(float(max(0.0, min(a + first, b + last))))
        high.append(float(min(n - 1.0, max(a + first, b + last))))
    return Box(tuple(low), tuple(high))


_FITS: dict[str, Callable[[Target, np.random.Generator], Box]] = {
    "tight": lambda target, rng: Box.around(target.mask),
    # Grown on every side by a tenth of that side, inside the image.
    "loose": lambda target, rng: _moved(target, lambda side: SHARE * np.array([-side, side])),
    "jittered": jittered_box,
    "shaken": shaken_box,
}


@catalogue.users.add("box", "a tight, loose, jittered or shaken box, then centre clicks")
@dataclass(frozen=True, slots=True)
@capable(GivesLater, GivesPrompts)
class BoxThenClicks:
    """Draws a box around the object, then clicks the centre of each error region."""

    gives: ClassVar[frozenset[str]] = frozenset({"box"})
    gives_later: ClassVar[frozenset[str]] = frozenset({"click"})
    fit: str = "tight"

    def __post_init__(self) -> None:
        check_choice("fit", self.fit, _FITS)

    @property
    def name(self) -> str:
        return f"{self.fit}-box"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        if observation.prompts:
            return centre_click(observation)
        return _FITS[self.fit](observation.target, rng)


@catalogue.users.add("training-prompts", "prompts of SAM's training: random points, boxes")
@dataclass(frozen=True, slots=True)
@capable(GivesPrompts)
class TrainingPrompts:
    """First a random point on the object or a noisy box, then random points on the error.

    The noise of the box is `sam` (normal with a tenth of the side, clipped to 20 pixels) or `sam2`
    (uniform within a tenth of the side and 20 pixels).
    """

    gives: ClassVar[frozenset[str]] = frozenset({"box"})
    box: str = "sam"
    boxes: float = 0.5  # share of sessions that start with a box
    from_object: float = 0.0  # share of later points drawn from the object; 0.1 in SAM 2
    name: str = "training-prompts"

    def __post_init__(self) -> None:
        check_choice("box", self.box, ("sam", "sam2"))

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        target = observation.target
        if not observation.prompts and rng.random() < self.boxes:
            return (jittered_box if self.box == "sam" else shaken_box)(target, rng)
        if not observation.prompts or (self.from_object and rng.random() < self.from_object):
            return error_prompts.random_point(target, rng)
        return error_prompts.training_point(target, observation.mask, rng)


@dataclass(frozen=True, slots=True)
class BoxTrial:
    box: Box
    iou: float


@dataclass(frozen=True, slots=True)
class BoxesFound:
    """The tight box, and the worst and the best within reach of it."""

    tight: BoxTrial
    worst: BoxTrial
    best: BoxTrial
    tried: int


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
    ignore = target.ignore if ignored else None
    known: dict[Shift, BoxTrial] = {}

    def attempt(shifts: Iterable[Shift]) -> None:
        fresh = [shift for shift in dict.fromkeys(shifts) if shift not in known]
        for start in range(0, len(fresh), _AT_ONCE):
            boxes = {shift: _shifted(target, shift) for shift in fresh[start : start + _AT_ONCE]}
            answers = encoded.predict([Request((box,)) for box in boxes.values()])
            for (shift, box), mask in zip(boxes.items(), render(encoded, answers), strict=True):
                known[shift] = BoxTrial(box, iou(target.mask, mask, ignore))
            if progress is not None:
                progress(len(known))

    def ranked(sign: int) -> list[Shift]:
        """Best first (or worst, for -1); the tight box wins ties, then the smaller shift."""
        return sorted(known, key=lambda s: (-sign * known[s].iou, sum(map(abs, s)), s))

    still = (0.0, 0.0, 0.0, 0.0)
    attempt([still])
    attempt(product((-1.0, 0.0, 1.0), repeat=4))
    for level in range(1, levels):
        centres = {*ranked(1)[:PLACES], *ranked(-1)[:PLACES]}
        near = [np.add(c, 0.5**level * m) for c in sorted(centres) for m in _STAR]
        attempt(tuple(np.clip(shift, -1.0, 1.0).tolist()) for shift in near)
    return BoxesFound(known[still], known[ranked(-1)[0]], known[ranked(1)[0]], len(known))


def _shifted(target: Target, shift: Shift) -> Box:
    (down, across), shape = jitter_reach(target), target.mask.shape
    tight = Box.around(target.mask)
    top, left = tight.low[0] + down * shift[0], tight.low[1] + across * shift[1]
    bottom, right = tight.high[0] + down * shift[2], tight.high[1] + across * shift[3]
    low = (min(max(top, 0.0), bottom), min(max(left, 0.0), right))
    return Box(low, (min(bottom, shape[0] - 1.0), min(right, shape[1] - 1.0)))


def _searched(users: Sequence[Any], seen: Sequence[Observation], rngs: Generators) -> Given:
    """Each target is searched once, for the best box and the worst."""
    found: dict[tuple[str, str, int], BoxesFound] = {}
    answers: Given = []
    for user, now in zip(users, seen, strict=True):
        if now.prompts:
            answers.append(centre_click(now))
            continue
        key = now.target.id, now.protocol, user.levels
        if key not in found:
            corrected = now.protocol == "corrected"
            found[key] = search_boxes(now.encoded, now.target, user.levels, corrected)
        answers.append(getattr(found[key], user.direction).box)
    return answers


@dataclass(frozen=True, slots=True)
@capable(GivesLater, GivesPrompts)
class AdversarialBox(Teamed):
    """Draws the best or the worst box within human-like jitter, then clicks the centre."""

    gives: ClassVar[frozenset[str]] = frozenset({"box"})
    gives_later: ClassVar[frozenset[str]] = frozenset({"click"})
    team: ClassVar[Team] = staticmethod(_searched)
    direction: Direction
    levels: int = LEVELS

    @property
    def name(self) -> str:
        return f"{self.direction}-box"


for _direction in get_args(Direction):
    _summary = f"{_direction} box within human-like jitter, then clicks"
    catalogue.users.add(f"{_direction}-box", _summary)(partial(AdversarialBox, _direction))

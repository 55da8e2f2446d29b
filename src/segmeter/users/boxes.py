"""Boxes: a box around the object first, then clicks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from segmeter.core import catalogue
from segmeter.core.capabilities import GivesLater, GivesPrompts, capable
from segmeter.core.errors import BadInput
from segmeter.core.prompts import Box, Prompt
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.users.centre_click import centre_click

__all__ = ["BoxThenClicks", "jittered_box", "loose_box", "shaken_box", "tight_box"]

# Segment Anything's training noise: a tenth of the side, at most 20 pixels.
_JITTER_SHARE = 0.1
_JITTER_LIMIT_PX = 20.0


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
        drawn = rng.normal(0.0, _JITTER_SHARE * side, 2)
        first, last = np.clip(drawn, -_JITTER_LIMIT_PX, _JITTER_LIMIT_PX)
        return first, last

    return _moved(target, moves)


def shaken_box(target: Target, rng: np.random.Generator) -> Box:
    """A tight box whose four coordinates are moved as in SAM 2's training.

    Uniform noise of at most a tenth of the side, at most 20 pixels, either way.
    """

    def moves(side: float) -> tuple[float, float]:
        reach = min(_JITTER_SHARE * side, _JITTER_LIMIT_PX)
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


@catalogue.users.add("box", summary="a tight, loose, jittered or shaken box, then centre clicks")
@dataclass(frozen=True, slots=True)
@capable(GivesLater, GivesPrompts)
class BoxThenClicks:
    """Draws a box around the object, then clicks the centre of each error region."""

    gives: ClassVar[frozenset[str]] = frozenset({"box"})
    gives_later: ClassVar[frozenset[str]] = frozenset({"click"})
    fit: str = "tight"

    def __post_init__(self) -> None:
        if self.fit not in ("tight", "loose", "jittered", "shaken"):
            raise BadInput(f"a box is tight, loose, jittered or shaken, not '{self.fit}'")

    @property
    def name(self) -> str:
        return f"{self.fit}-box"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        if observation.prompts:
            return centre_click(observation)
        if self.fit in ("jittered", "shaken"):
            moved = jittered_box if self.fit == "jittered" else shaken_box
            return moved(observation.target, rng)
        drawn = tight_box if self.fit == "tight" else loose_box
        return drawn(observation.target)


def _inside(low: list[float], high: list[float], shape: tuple[int, ...]) -> Box:
    return Box(
        tuple(float(max(0.0, a)) for a in low),
        tuple(float(min(n - 1.0, b)) for b, n in zip(high, shape, strict=True)),
    )

"""The centre click: the robot user of the click benchmarks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segmeter.core import catalogue
from segmeter.core.masks import Mask
from segmeter.core.mistakes import deepest, mistakes
from segmeter.core.prompts import Click, Prompt
from segmeter.core.users import Sight

__all__ = ["CentreClick", "centre_click", "click_and_mistake"]


def centre_click(sight: Sight) -> Click | None:
    """A click on the deepest wrong pixel that was not clicked before.

    Positive when what is missed is deeper than what is spilled; a tie is a negative click;
    first in raster order among equally deep pixels. With nothing left to click, `sound` is
    content, while `published` clicks (0, 0) as background, again and again.
    """
    return click_and_mistake(sight)[0]


def click_and_mistake(sight: Sight) -> tuple[Click | None, Mask]:
    """The centre click, and what is missed or spilled that it mends."""
    clicked = [_pixel(p) for p in sight.prompts if isinstance(p, Click)]
    sides = mistakes(sight.target, sight.mask)
    missed, spilled = (deepest(side, clicked) for side in sides)
    positive = missed.squared > spilled.squared
    worst, mistake = (missed, sides[0]) if positive else (spilled, sides[1])
    if worst.point is not None:
        return Click(worst.point, positive), mistake
    corner = Click((0,) * len(sight.mask.shape), False)
    return (corner if sight.reading == "published" else None), mistake


@catalogue.users.add("centre-click", summary="clicks the deepest wrong pixel")
@dataclass(frozen=True, slots=True)
class CentreClick:
    """Clicks the deepest wrong pixel, in the reading of the session."""

    name: str = "centre-click"

    def next(self, sight: Sight, rng: np.random.Generator) -> Prompt | None:
        return centre_click(sight)


def _pixel(click: Click) -> tuple[int, ...]:
    return tuple(round(c) for c in click.point)

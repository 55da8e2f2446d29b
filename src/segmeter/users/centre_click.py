"""The centre click: the robot user of the click benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from segmeter.core import catalogue
from segmeter.core.mistakes import Depth, deepest_sides
from segmeter.core.prompts import Click, Prompt
from segmeter.core.users import Sight

__all__ = [
    "TOGETHER",
    "CentreClick",
    "Clicker",
    "Found",
    "Together",
    "centre_click",
    "centre_clicks",
]


@dataclass(frozen=True, slots=True)
class Found:
    """The centre click of a sight, None for content, and the pixels clicked before."""

    click: Click | None
    sight: Sight
    clicked: tuple[tuple[int, ...], ...]


def centre_click(sight: Sight) -> Click | None:
    """A click on the deepest wrong pixel that was not clicked before.

    Positive when what is missed is deeper than what is spilled; a tie is a negative click;
    first in raster order among equally deep pixels. With nothing left to click, `sound` is
    content, while `published` clicks (0, 0) as background, again and again.
    """
    return centre_clicks([sight])[0].click


def centre_clicks(sights: Sequence[Sight]) -> list[Found]:
    """The centre clicks of many sights, found together."""
    clicked = [tuple(_pixel(p) for p in s.prompts if isinstance(p, Click)) for s in sights]
    guesses = [(s.target, s.mask, done) for s, done in zip(sights, clicked, strict=True)]
    return [
        Found(_chosen(sight, *both), sight, done)
        for sight, both, done in zip(sights, deepest_sides(guesses), clicked, strict=True)
    ]


def _chosen(sight: Sight, missed: Depth, spilled: Depth) -> Click | None:
    positive = missed.squared > spilled.squared
    point = missed.point if positive else spilled.point
    if point is not None:
        return Click(point, positive)
    return Click((0,) * len(sight.mask.shape), False) if sight.reading == "published" else None


class Clicker(Protocol):
    """A user who starts from the centre click."""

    @staticmethod
    def given_all(
        users: Sequence[Any], found: Sequence[Found], draws: Sequence[np.random.Generator]
    ) -> list[Prompt | None]:
        """The prompts of several users of this kind, each with their own centre click."""
        ...


class Together:
    """All such users of a scene: centre clicks are found in one call, then kind by kind."""

    def next_for(
        self,
        users: Sequence[Clicker],
        sights: Sequence[Sight],
        draws: Sequence[np.random.Generator],
    ) -> list[Prompt | None]:
        found = centre_clicks(sights)
        prompts: list[Prompt | None] = [None] * len(users)
        for kind in dict.fromkeys(type(user) for user in users):
            places = [i for i, user in enumerate(users) if type(user) is kind]
            given = kind.given_all(
                [users[i] for i in places], [found[i] for i in places], [draws[i] for i in places]
            )
            for i, prompt in zip(places, given, strict=True):
                prompts[i] = prompt
        return prompts


TOGETHER = Together()


@catalogue.users.add("centre-click", summary="clicks the deepest wrong pixel")
@dataclass(frozen=True, slots=True)
class CentreClick:
    """Clicks the deepest wrong pixel, in the reading of the session."""

    team: ClassVar[Together] = TOGETHER
    name: str = "centre-click"

    def next(self, sight: Sight, rng: np.random.Generator) -> Prompt | None:
        return centre_click(sight)

    @staticmethod
    def given_all(
        users: Sequence[CentreClick], found: Sequence[Found], draws: Sequence[np.random.Generator]
    ) -> list[Prompt | None]:
        return [one.click for one in found]


def _pixel(click: Click) -> tuple[int, ...]:
    return tuple(map(round, click.point))

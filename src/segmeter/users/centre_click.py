"""The centre click: the robot user of the click benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from segmeter.core import catalogue
from segmeter.core.error_regions import Depth, deepest_sides
from segmeter.core.prompts import Click, Prompt
from segmeter.core.seeds import LazyGenerators
from segmeter.core.users import Observation

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
    """The centre click of an observation, None for content, and the pixels clicked before."""

    click: Click | None
    observation: Observation
    clicked: tuple[tuple[int, ...], ...]


def centre_click(observation: Observation) -> Click | None:
    """A click on the deepest wrong pixel that was not clicked before.

    Positive when the false negatives are deeper than the false positives; a tie is a negative
    click; first in raster order among equally deep pixels. With nothing left, `corrected` is
    content, while `published` clicks (0, 0) as background, again and again.
    """
    return centre_clicks([observation])[0].click


def centre_clicks(observations: Sequence[Observation]) -> list[Found]:
    """The centre clicks of many observations, found together."""
    clicked = [tuple(_pixel(p) for p in s.prompts if isinstance(p, Click)) for s in observations]
    predictions = [(s.target, s.mask, done) for s, done in zip(observations, clicked, strict=True)]
    return [
        Found(_chosen(observation, *both), observation, done)
        for observation, both, done in zip(
            observations, deepest_sides(predictions), clicked, strict=True
        )
    ]


def _chosen(
    observation: Observation, false_negatives: Depth, false_positives: Depth
) -> Click | None:
    positive = false_negatives.squared > false_positives.squared
    point = false_negatives.point if positive else false_positives.point
    if point is not None:
        return Click(point, positive)
    return (
        Click((0,) * len(observation.mask.shape), False)
        if observation.protocol == "published"
        else None
    )


class Clicker(Protocol):
    """A user who starts from the centre click."""

    @staticmethod
    def next_batch(
        users: Sequence[Any], found: Sequence[Found], draws: Sequence[np.random.Generator]
    ) -> list[Prompt | None]:
        """The prompts of several users of this kind, each with their own centre click."""
        ...


class Together:
    """All such users of a scene: centre clicks are found in one call, then kind by kind."""

    def next_batch(
        self,
        users: Sequence[Clicker],
        observations: Sequence[Observation],
        draws: Sequence[np.random.Generator],
    ) -> list[Prompt | None]:
        found = centre_clicks(observations)
        prompts: list[Prompt | None] = [None] * len(users)
        for kind in dict.fromkeys(type(user) for user in users):
            places = [i for i, user in enumerate(users) if type(user) is kind]
            own = LazyGenerators(draws.__getitem__, places)
            given = kind.next_batch([users[i] for i in places], [found[i] for i in places], own)
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

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        return centre_click(observation)

    @staticmethod
    def next_batch(
        users: Sequence[CentreClick], found: Sequence[Found], draws: Sequence[np.random.Generator]
    ) -> list[Prompt | None]:
        return [one.click for one in found]


def _pixel(click: Click) -> tuple[int, ...]:
    return tuple(map(round, click.point))

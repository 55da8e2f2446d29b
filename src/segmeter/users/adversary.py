"""Adversaries: users who try out the model to find the click that helps it most or least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from segmeter.core.differentiable import Differentiable
from segmeter.core.prompts import Prompt
from segmeter.core.users import Observation
from segmeter.users.click_search import SearchGrid, search
from segmeter.users.gradient_attack import STEPS, Attempt, Direction, follow

__all__ = ["Adversaries", "Adversary", "GradientClick", "SearchClick", "attempts_of"]

LATER = SearchGrid(36, 2, 2)
"""Search grid that replaces the gradient after the first round."""


@runtime_checkable
class Adversary(Protocol):
    """A user who looks for the best or the worst click."""

    @property
    def name(self) -> str: ...

    @property
    def direction(self) -> Direction: ...

    def attempts(
        self, observations: Sequence[Observation], directions: Sequence[Direction]
    ) -> list[Attempt | None]:
        """All trials of each observation; both directions may be looked for in one call."""
        ...


def attempts_of(
    users: Sequence[Adversary], observations: Sequence[Observation]
) -> list[Attempt | None]:
    """Each user's trials; those who differ in direction only take every step together."""
    ways: dict[Adversary, list[int]] = {}
    for i, user in enumerate(users):
        ways.setdefault(replace(user, direction="best"), []).append(i)  # type: ignore[type-var]
    found: list[Attempt | None] = [None] * len(users)
    for way, members in ways.items():
        directions = [users[i].direction for i in members]
        attempts = way.attempts([observations[i] for i in members], directions)
        for i, attempt in zip(members, attempts, strict=True):
            found[i] = attempt
    return found


class Adversaries:
    """A team: all directions, protocols and objects of a scene in one call."""

    def next_batch(
        self,
        users: Sequence[Adversary],
        observations: Sequence[Observation],
        rngs: Sequence[np.random.Generator],
    ) -> list[Prompt | None]:
        found = attempts_of(users, observations)
        return [None if attempt is None else attempt.click for attempt in found]


@dataclass(frozen=True, slots=True)
class GradientClick:
    """Follows the model's gradient from the centre click; searches where there is none."""

    team: ClassVar[Adversaries] = Adversaries()
    direction: Direction
    steps: int = STEPS

    @property
    def name(self) -> str:
        return f"{self.direction}-click"

    def attempts(
        self, observations: Sequence[Observation], directions: Sequence[Direction]
    ) -> list[Attempt | None]:
        if not isinstance(observations[0].encoded, Differentiable):
            return search(observations, directions, None if observations[0].round == 1 else LATER)
        return follow(observations, directions, self.steps)

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        return self.team.next_batch([self], [observation], [rng])[0]


@dataclass(frozen=True, slots=True)
class SearchClick:
    """Tries clicks from coarse to fine; works for any model."""

    team: ClassVar[Adversaries] = Adversaries()
    direction: Direction
    effort: SearchGrid | None = None

    @property
    def name(self) -> str:
        return f"{self.direction}-click-search"

    def attempts(
        self, observations: Sequence[Observation], directions: Sequence[Direction]
    ) -> list[Attempt | None]:
        return search(observations, directions, self.effort)

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        return self.team.next_batch([self], [observation], [rng])[0]

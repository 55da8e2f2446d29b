"""Adversaries: users who try out the model to find the click that helps it most or least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from segmeter.core.prompts import Prompt
from segmeter.core.softening import Differentiable
from segmeter.core.users import Sight
from segmeter.users.attack import STEPS, Attempt, Direction, follow
from segmeter.users.search import Effort, search

__all__ = ["Adversary", "GradientClick", "SearchClick"]

LATER = Effort(36, 2, 2)
"""How hard a search looks that stands in for a gradient, after the first round."""


@runtime_checkable
class Adversary(Protocol):
    """A user who looks for the best or the worst click."""

    @property
    def name(self) -> str: ...

    @property
    def direction(self) -> Direction: ...

    def attempts(
        self, sights: Sequence[Sight], directions: Sequence[Direction]
    ) -> list[Attempt | None]:
        """All trials of each sight; both directions may be looked for in one call."""
        ...


@dataclass(frozen=True, slots=True)
class GradientClick:
    """Follows the model's gradient from the centre click; searches where there is none."""

    direction: Direction
    steps: int = STEPS

    @property
    def name(self) -> str:
        return f"{self.direction}-click"

    def attempts(
        self, sights: Sequence[Sight], directions: Sequence[Direction]
    ) -> list[Attempt | None]:
        if not isinstance(sights[0].view, Differentiable):
            return search(sights, directions, None if sights[0].round == 1 else LATER)
        return follow(sights, directions, self.steps)

    def next(self, sight: Sight, rng: np.random.Generator) -> Prompt | None:
        return self.next_many([sight], [rng])[0]

    def next_many(
        self, sights: Sequence[Sight], rngs: Sequence[np.random.Generator]
    ) -> list[Prompt | None]:
        return _clicks(self.attempts(sights, [self.direction] * len(sights)))


@dataclass(frozen=True, slots=True)
class SearchClick:
    """Tries clicks from coarse to fine; works for any model."""

    direction: Direction
    effort: Effort | None = None

    @property
    def name(self) -> str:
        return f"{self.direction}-click-search"

    def attempts(
        self, sights: Sequence[Sight], directions: Sequence[Direction]
    ) -> list[Attempt | None]:
        return search(sights, directions, self.effort)

    def next(self, sight: Sight, rng: np.random.Generator) -> Prompt | None:
        return self.next_many([sight], [rng])[0]

    def next_many(
        self, sights: Sequence[Sight], rngs: Sequence[np.random.Generator]
    ) -> list[Prompt | None]:
        return _clicks(self.attempts(sights, [self.direction] * len(sights)))


def _clicks(attempts: Sequence[Attempt | None]) -> list[Prompt | None]:
    return [None if attempt is None else attempt.click for attempt in attempts]

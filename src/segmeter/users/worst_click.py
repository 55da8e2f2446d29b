"""The worst click: of all fair clicks the one that helps the model least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from segmeter.core import catalogue
from segmeter.core.prompts import Prompt
from segmeter.core.softening import Differentiable
from segmeter.core.users import Sight
from segmeter.users.attack import STEPS, follow
from segmeter.users.search import Effort, search

__all__ = ["WorstClick", "WorstClickSearch"]


@catalogue.users.add("worst-click", summary="clicks where it helps least, found by gradient")
@dataclass(frozen=True, slots=True)
class WorstClick:
    """Follows the model's gradient from the centre click; searches where there is none."""

    name: str = "worst-click"
    steps: int = STEPS

    def next(self, sight: Sight, rng: np.random.Generator) -> Prompt | None:
        return self.next_many([sight], [rng])[0]

    def next_many(
        self, sights: Sequence[Sight], rngs: Sequence[np.random.Generator]
    ) -> list[Prompt | None]:
        if not isinstance(sights[0].view, Differentiable):
            return WorstClickSearch().next_many(sights, rngs)
        attempts = follow(sights, ["worst"] * len(sights), self.steps)
        return [None if attempt is None else attempt.click for attempt in attempts]


@catalogue.users.add("worst-click-search", summary="clicks where it helps least, found by trying")
@dataclass(frozen=True, slots=True)
class WorstClickSearch:
    """Tries clicks from coarse to fine; works for any model."""

    name: str = "worst-click-search"
    lattice: int = 100
    places: int = 4
    finest: int = 1

    def next(self, sight: Sight, rng: np.random.Generator) -> Prompt | None:
        return self.next_many([sight], [rng])[0]

    def next_many(
        self, sights: Sequence[Sight], rngs: Sequence[np.random.Generator]
    ) -> list[Prompt | None]:
        effort = Effort(self.lattice, self.places, self.finest)
        attempts = search(sights, ["worst"] * len(sights), effort)
        return [None if attempt is None else attempt.click for attempt in attempts]

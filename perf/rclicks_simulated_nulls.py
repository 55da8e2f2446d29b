"""Simulated nulls: click counts in which it does not matter who clicks.

All eleven players of a target draw from one distribution: every difference between them is chance.
What the published formulas give on such counts is what they give under the null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from segmeter.benchmarks.rclicks.effects import EFFECTS, value_of
from segmeter.clickability.groups import GROUPS
from segmeter.core.seeds import generator
from segmeter.stats.intervals import Floats

__all__ = ["NULLS", "NullModel", "Profile", "null_steps", "null_trials", "under_the_null"]

MOST = 20
Draw = Callable[[np.random.Generator, int], Floats]


def steps(targets_law: float, chance: float) -> Draw:
    """k + {-1, 0, +1}, k geometric: small steps around what the target costs."""

    def draw(rng: np.random.Generator, targets: int) -> Floats:
        cost = rng.geometric(targets_law, size=(targets, 1))
        chance_draws = rng.random((targets, GROUPS + 1))
        moved = cost + (chance_draws < chance / 2) - (chance_draws > 1 - chance / 2).astype(int)
        return np.asarray(np.clip(moved, 1, MOST), dtype=float)

    return draw


def retries(a: float, b: float) -> Draw:
    """Geometric with a chance of its own for each target, p ~ Beta(a, b)."""

    def draw(rng: np.random.Generator, targets: int) -> Floats:
        chance = np.clip(rng.beta(a, b, size=(targets, 1)), 1e-3, 1)
        drawn = rng.geometric(np.broadcast_to(chance, (targets, GROUPS + 1)))
        return np.minimum(drawn, MOST).astype(float)

    return draw


# Description, number of targets, distribution.
NULLS: tuple[tuple[str, int, Draw], ...] = (
    ("k + {-1, 0, +1} with .15/.7/.15, k geometric(.3)", 2531, steps(0.3, 0.3)),
    ("the same", 50, steps(0.3, 0.3)),
    ("geometric(p), p ~ Beta(2, 2.2)", 2531, retries(2, 2.2)),
    ("geometric(p), p ~ Beta(1, 2.5)", 345, retries(1, 2.5)),
    ("geometric(p), p ~ Beta(4, 1.5)", 50, retries(4, 1.5)),
)


def under_the_null(
    law: Draw, targets: int, repetitions: int, seed: object, names: tuple[str, ...]
) -> dict[str, Floats]:
    """Each statistic in every repetition of an experiment without any effect."""
    rng = generator("laws", seed)
    tables = (law(rng, targets) for _ in range(repetitions))
    values = [[float(value_of(EFFECTS[n], table)) for n in names] for table in tables]
    return dict(zip(names, np.array(values).T, strict=True))


@dataclass(frozen=True, slots=True)
class Profile:
    """A row of a paper's table: one model on one dataset: targets, mean clicks with
    people, their spread, and how many targets always fail."""

    targets: int
    mean: float
    spread: float
    failures: float = 0.0

    @property
    def open(self) -> int:
        """Targets that do not always fail."""
        return self.targets - round(self.failures)

    @property
    def open_mean(self) -> float:
        return max(1.02, (self.mean * self.targets - MOST * round(self.failures)) / self.open)

    @property
    def open_spread(self) -> float:
        return self.spread * self.targets / self.open


@dataclass(frozen=True, slots=True)
class NullModel:
    """A distribution fitted to a profile: what targets cost, and how players scatter around it."""

    profile: Profile
    draw: Draw
    amount: float


def null_steps(profile: Profile) -> NullModel:
    """Counts that step up or down by a few clicks: the mildest scatter around a cost."""
    reach = 1
    while True:
        made = _fitted(profile, lambda q, r=reach: _stepping(profile, q, r))  # type: ignore[misc]
        if made.amount < 0.999 or reach >= 8:
            return made
        reach += 1


def null_trials(profile: Profile) -> NullModel:
    """Most targets cost everybody the same, the rest is tried until it works: the spread sits
    on few targets, and there the scatter is wide."""
    return _fitted(profile, lambda q: _trying(profile, q))


def _fitted(profile: Profile, law: Callable[[float], Draw]) -> NullModel:
    """The amount of chance in 0..1 at which the spread comes out as printed."""
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        table = law(middle)(generator("fit", profile, middle), 20_000)
        spread = float(table[:, 1:].std(axis=1).mean())
        low, high = (middle, high) if spread < profile.open_spread else (low, middle)
    return NullModel(profile, _with_failures(profile, law(high)), high)


def _costs(rng: np.random.Generator, profile: Profile, targets: int) -> Floats:
    return np.minimum(rng.geometric(1 / profile.open_mean, (targets, 1)), MOST).astype(float)


def _stepping(profile: Profile, amount: float, reach: int) -> Draw:
    def draw(rng: np.random.Generator, targets: int) -> Floats:
        chance_draws = rng.random((targets, GROUPS + 1))
        step = reach * ((chance_draws < amount / 2).astype(int) - (chance_draws > 1 - amount / 2))
        return np.asarray(np.clip(_costs(rng, profile, targets) + step, 1, MOST))

    return draw


def _trying(profile: Profile, amount: float) -> Draw:
    def draw(rng: np.random.Generator, targets: int) -> Floats:
        cost = _costs(rng, profile, targets)
        tried = np.minimum(rng.geometric(1 / np.repeat(cost, GROUPS + 1, axis=1)), MOST)
        return np.where(rng.random((targets, 1)) < amount, tried, cost).astype(float)

    return draw


def _with_failures(profile: Profile, law: Draw) -> Draw:
    def draw(rng: np.random.Generator, targets: int) -> Floats:
        lost = round(profile.failures * targets / profile.targets)
        failed = np.full((lost, GROUPS + 1), float(MOST))
        return np.concatenate([law(rng, targets - lost), failed])

    return draw

"""Comparisons: which differences between models are established, and which are not."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.seeds import generator
from segmeter.stats.intervals import Floats, Interval, Resampling

__all__ = ["Paired", "difference", "flip_test", "holm"]

_EXACT_SCENES = 13  # 8192 sign patterns: all of them are tried


@dataclass(frozen=True, slots=True)
class Paired:
    """First minus second on the same targets: mean, interval, and p of no difference."""

    interval: Interval
    p: float
    targets: int
    scenes: int


def difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    clusters: Sequence[Hashable],
    *,
    resamples: int = 2000,
    seed: object = 0,
) -> Paired:
    """Compare two models target by target; targets in the same order for both.

    >>> paired = difference([3, 4, 5, 6], [1, 3, 2, 6], clusters=['a', 'b', 'c', 'd'])
    >>> float(paired.interval.value)
    1.5
    """
    gaps = _finite(np.asarray(first, dtype=float) - np.asarray(second, dtype=float))
    drawn = Resampling(clusters, resamples=resamples, seed=seed)
    p = flip_test(drawn.sums(gaps)[:, 0], seed=seed)
    return Paired(drawn.interval(gaps), p, gaps.size, drawn.clusters)


def flip_test(sums: npt.ArrayLike, *, flips: int = 20_000, seed: object = 0) -> float:
    """Two-sided p of scene sums of differences, by exchanging the models within scenes.

    If the models were alike, each scene's sum could as well have the other sign. All
    patterns of signs are tried when scenes are few, else `flips` drawn ones; the pattern
    that was seen counts as one of them, so p is never zero.

    >>> flip_test([1.0, 2.0, 3.0])  # of 8 patterns two are as far out
    0.25
    """
    values = _finite(np.asarray(sums, dtype=float))
    seen = abs(values.sum())
    slack = 1e-12 * np.abs(values).sum()
    signs = _signs(values.size, flips, seed)
    as_far = int(np.count_nonzero(np.abs(signs @ values) >= seen - slack))
    if values.size <= _EXACT_SCENES:
        return as_far / len(signs)
    return (1 + as_far) / (1 + len(signs))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's (1979) step-down correction: p values that hold for all comparisons together.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    many = len(p_values)
    adjusted, largest = [0.0] * many, 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (many - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def _finite(gaps: Floats) -> Floats:
    """Refuse differences that are no numbers: they would look like certainty."""
    wrong = gaps.size - int(np.count_nonzero(np.isfinite(gaps)))
    if wrong:
        raise BadInput(
            f"{wrong} of {gaps.size} differences are not finite; compare where both have a value"
        )
    return gaps


def _signs(scenes: int, flips: int, seed: object) -> Floats:
    if scenes <= _EXACT_SCENES:
        patterns = np.arange(2**scenes)[:, None] >> np.arange(scenes)
        return 1.0 - 2.0 * (patterns & 1).astype(np.float64)
    draw = generator("flips", seed, scenes)
    return 1.0 - 2.0 * draw.integers(0, 2, size=(flips, scenes)).astype(np.float64)

"""Variance components: how much of the spread lies between groups, and how much is chance.

Each group clicks twice or more, with new draws. With n draws per group, the mean square between
groups B and within them W of one target give the between-group variance (B - W) / n; its mean
over targets estimates it without bias, so it may come out below zero when there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segmeter.core.seeds import generator
from segmeter.stats.intervals import Floats, Interval, Resampling

__all__ = ["Components", "components"]

_RELABELLINGS = 2000


@dataclass(frozen=True, slots=True)
class Components:
    """Variances between and within groups, the share between, and p of no share at all."""

    between: Interval
    within: Interval
    share: Interval
    p: float


def components(table: Floats, drawn: Resampling, seed: object = 0) -> Components | None:
    """Components of a table `(targets, draws, groups)`; None with one draw.

    >>> rng = np.random.default_rng(0)
    >>> spread = np.arange(10.0) + rng.normal(size=(30, 2, 10))
    >>> round(components(spread, Resampling(range(30))).share.value, 1)
    0.9
    """
    draws = table.shape[1]
    if draws < 2:
        return None
    between, within = _squares(table)
    gap = (between - within) / draws
    total = float(gap.mean() + within.mean())
    varies = total > 1e-12 * float(np.square(table).mean())
    share = float(gap.mean()) / total if varies else 0.0
    # To first order the share is the mean of what each target adds to it.
    added = (gap - share * (gap + within)) / total + share if varies else np.zeros_like(gap)
    return Components(
        drawn.interval(gap), drawn.interval(within), drawn.interval(added), _chance(table, seed)
    )


def _squares(table: Floats) -> tuple[Floats, Floats]:
    """Mean squares between and within groups, of tables `(..., draws, groups)`."""
    draws = table.shape[-2]
    between = draws * table.mean(axis=-2).var(axis=-1, ddof=1)
    within = table.var(axis=-2, ddof=1).mean(axis=-1)
    return np.asarray(between), np.asarray(within)


def _chance(table: Floats, seed: object) -> float:
    """How often shuffled draws look as grouped as the real ones (one-sided)."""
    rng = generator("components", seed)
    between, within = _squares(table)
    seen = float((between - within).mean())
    flat = table.reshape(len(table), -1)
    as_far = 0
    for _ in range(_RELABELLINGS):
        shuffled = rng.permuted(flat, axis=1).reshape(table.shape)
        one, other = _squares(shuffled)
        as_far += float((one - other).mean()) >= seen - 1e-12
    return (1 + as_far) / (1 + _RELABELLINGS)

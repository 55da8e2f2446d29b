"""Null distributions of statistics under permuted labels, and variance between groups.

Variance components: the shares of variance between groups and by chance.

Each group clicks at least twice, with new draws. With n draws per group, the mean square between
groups B and within them W of one target give the between-group variance (B - W) / n; its mean
over targets estimates it without bias, so it may come out below zero when there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from segmeter.core.seeds import generator
from segmeter.stats.intervals import Floats, Interval, Resampling

_MOST_NUMBERS = 4_000_000  # 32 MB at a time


@dataclass(frozen=True, slots=True)
class Null:
    """A statistic under relabelling: its mean, the middle 95 %, and p of what was seen.

    p is two-sided around the null's own mean, and never zero. `terms` are the targets' parts
    of the null's mean, where it is a mean of such parts.
    """

    mean: float
    low: float
    high: float
    p: float
    terms: Floats | None = None


def null_of(values: Floats, seen: float, terms: Floats | None = None) -> Null:
    """The null distribution of relabelled values, and the position of the observed value in it.

    >>> null_of(np.array([-1.0, 0.0, 1.0]), seen=1.0).p  # two as far out, and itself
    0.75
    """
    middle = float(values.mean())
    slack = 1e-12 * max(1.0, abs(seen))
    as_far = int(np.count_nonzero(np.abs(values - middle) >= abs(seen - middle) - slack))
    low, high = np.quantile(values, [0.025, 0.975])
    return Null(middle, float(low), float(high), (1 + as_far) / (1 + values.size), terms)


def permuted_within(
    table: Floats, columns: slice, times: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """Blocks `(times, rows, columns)` of a table with some columns shuffled within each row.

    >>> rng = np.random.default_rng(0)
    >>> (block,) = permuted_within(np.array([[9.0, 1.0, 2.0]]), slice(1, None), 3, rng)
    >>> block[:, 0, 0].tolist(), sorted(block[0, 0].tolist())
    ([9.0, 9.0, 9.0], [1.0, 2.0, 9.0])
    """
    step = max(1, _MOST_NUMBERS // table.size)
    for start in range(0, times, step):
        block = np.repeat(table[None], min(step, times - start), axis=0)
        block[..., columns] = rng.permuted(block[..., columns], axis=-1)
        yield block


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
    """How often shuffled draws are as grouped as the real ones (one-sided)."""
    rng = generator("components", seed)
    between, within = _squares(table)
    seen = float((between - within).mean())
    flat = table.reshape(len(table), -1)
    as_far = 0
    for block in permuted_within(flat, slice(None), _RELABELLINGS, rng):
        one, other = _squares(block.reshape(-1, *table.shape))
        as_far += int(np.count_nonzero((one - other).mean(axis=-1) >= seen - 1e-12))
    return (1 + as_far) / (1 + _RELABELLINGS)

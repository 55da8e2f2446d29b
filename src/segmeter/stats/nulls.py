"""Null distributions: what a statistic would be if labels did not matter, by exchanging them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from segmeter.stats.intervals import Floats

__all__ = ["Null", "null_of", "permuted_within"]

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

"""Pairwise comparisons: models on the targets that both have."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from segmeter.core.benchmarks import Difference
from segmeter.core.errors import BadInput
from segmeter.stats.comparisons import differences, holm
from segmeter.stats.intervals import Floats

__all__ = [
    "PairedValues",
    "Where",
    "corrected",
    "paired_difference",
    "pairwise_differences",
    "pairwise_tables",
]


@dataclass(frozen=True, slots=True)
class Where:
    """The group that models are compared within, and the statistic."""

    dataset: str
    user: str
    protocol: str
    measure: str


@dataclass(frozen=True, slots=True)
class PairedValues:
    """One value per target of a model, or several measures of each, `(targets, measures)`;
    `clusters` names the image of each."""

    model: str
    keys: Sequence[Hashable]
    clusters: Sequence[Hashable]
    values: Floats


def pairwise_differences(where: Where, samples: Sequence[PairedValues]) -> list[Difference]:
    """All pairs, corrected together.

    >>> import numpy as np
    >>> where = Where('grabcut', 'centre-click', 'corrected', 'noc@90')
    >>> a = PairedValues('a', [1, 2], [1, 2], np.array([3.0, 5.0]))
    >>> b = PairedValues('b', [1, 2], [1, 2], np.array([2.0, 2.0]))
    >>> [(d.first, d.second, d.value) for d in pairwise_differences(where, [a, b])]
    [('a', 'b', 2.0)]
    """
    return corrected(paired_difference(where, a, b) for a, b in combinations(samples, 2))


def pairwise_tables(wheres: Sequence[Where], samples: Sequence[PairedValues]) -> list[Difference]:
    """All pairs in several measures, the columns of the samples' values.

    Pairs of a measure are corrected together; measure by measure, in the order given.

    >>> pairwise_tables([], [])
    []
    """
    pairs = [
        _paired(wheres, a, b)
        for a, b in combinations(samples, 2)
        if _known(a) & _known(b)  # else there is nothing to compare
    ]
    return [d for k in range(len(wheres)) for d in corrected(pair[k] for pair in pairs)]


def paired_difference(where: Where, first: PairedValues, second: PairedValues) -> Difference:
    """One pair on the targets where both have a finite value, not yet corrected for others.

    >>> import numpy as np
    >>> where = Where('grabcut', 'centre-click', 'corrected', 'noc@90')
    >>> one = PairedValues('a', ['x', 'y', 'z'], ['x', 'y', 'z'], np.array([3.0, 5.0, 9.0]))
    >>> other = PairedValues('b', ['z', 'x'], ['z', 'x'], np.array([8.0, 1.0]))
    >>> paired_difference(where, one, other).targets
    2
    """
    one, other = (replace(p, values=p.values[:, None]) for p in (first, second))
    return _paired([where], one, other)[0]


def _paired(wheres: Sequence[Where], first: PairedValues, second: PairedValues) -> list[Difference]:
    """One pair in every measure; models that share no target cannot be compared."""
    known, there = (_whole(p.values) for p in (second, first))
    other = {key: i for i, key in enumerate(second.keys) if i in known}
    mine = [i for i, key in enumerate(first.keys) if i in there and key in other]
    theirs = [other[first.keys[i]] for i in mine]
    if not mine:
        raise BadInput(f"'{first.model}' and '{second.model}' share no target")
    gaps = first.values[mine] - second.values[theirs]
    found = differences(gaps, [first.clusters[i] for i in mine], seed=wheres[0].dataset)
    return [
        Difference(
            first.model,
            second.model,
            where.dataset,
            where.user,
            where.protocol,
            where.measure,
            paired.interval.value,
            paired.interval.low,
            paired.interval.high,
            paired.p,
            paired.p,
            paired.targets,
        )
        for where, paired in zip(wheres, found, strict=True)
    ]


def _known(sample: PairedValues) -> set[Hashable]:
    """The objects that have a number in every measure."""
    return {sample.keys[i] for i in _whole(sample.values)}


def _whole(values: Floats) -> set[int]:
    """Targets that have a number in every measure."""
    return set(np.flatnonzero(np.isfinite(values).all(axis=1)).tolist())


def corrected(family: Iterable[Difference]) -> list[Difference]:
    """A family of comparisons with p values that hold for all of them together (Holm).

    >>> corrected([])
    []
    """
    pairs = list(family)
    adjusted = holm([d.p for d in pairs])
    return [replace(d, p_holm=p) for d, p in zip(pairs, adjusted, strict=True)]

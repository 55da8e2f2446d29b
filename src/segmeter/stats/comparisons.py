"""Comparisons of models, paired by target: bootstrap intervals, paired permutation tests, Holm."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.benchmarks import Difference, Group
from segmeter.core.errors import BadInput
from segmeter.core.seeds import fingerprint, seeded
from segmeter.stats.intervals import Floats, Interval, Resampling

_EXACT_SCENES = 13  # 8192 sign patterns: all of them are tried
_AT_ONCE = 1 << 21  # signs in memory at a time, as numbers


@dataclass(frozen=True, slots=True)
class Paired:
    """First minus second on the same targets: mean, interval, and p of no difference."""

    interval: Interval
    p: float
    targets: int
    scenes: int


def difference(
    first: npt.ArrayLike, second: npt.ArrayLike, clusters: Sequence[Hashable], *, seed: object = 0
) -> Paired:
    """Compare two models target by target; targets in the same order for both.

    >>> paired = difference([3, 4, 5, 6], [1, 3, 2, 6], clusters=['a', 'b', 'c', 'd'])
    >>> float(paired.interval.value)
    1.5
    """
    gaps = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    return differences(gaps[:, None], clusters, seed=seed)[0]


def differences(
    gaps: npt.ArrayLike, clusters: Sequence[Hashable], *, seed: object = 0
) -> list[Paired]:
    """First minus second in several measures, `(targets, measures)`, under the same draws.

    >>> [float(p.interval.value) for p in differences([[1.0, 0.0], [3.0, 0.0]], ['a', 'b'])]
    [2.0, 0.0]
    """
    table = _finite(np.asarray(gaps, dtype=float))
    drawn = Resampling(clusters, seed=seed)
    p_values = paired_permutation_tests(drawn.sums(table), seed=seed)
    numbers = np.stack([table.mean(axis=0), *drawn.limits(table), p_values], axis=1).tolist()
    return [Paired(Interval(*limits), p, len(table), drawn.clusters) for *limits, p in numbers]


def paired_permutation_tests(
    sums: npt.ArrayLike, *, flips: int = 20_000, seed: object = 0
) -> Floats:
    """Two-sided p of scene sums of differences, `(scenes, measures)`, by exchanging the models.

    If the models were equal, each scene's sum could as well have the other sign. All patterns of
    signs are tried when scenes are few, else `flips` drawn ones, the same for all measures; the
    pattern that was seen counts as one of them, so p is never zero.

    >>> paired_permutation_tests([[1.0], [2.0], [3.0]]).tolist()  # of 8 patterns two are as far out
    [0.25]
    """
    values = _finite(np.asarray(sums, dtype=float))
    seen = np.abs(values.sum(axis=0))
    slack = 1e-12 * np.abs(values).sum(axis=0)
    as_far, tried = np.zeros(values.shape[1]), 0
    for signs in _signs(len(values), flips, seed):
        as_far += np.count_nonzero(np.abs(signs @ values) >= seen - slack, axis=0)
        tried += len(signs)
    if len(values) <= _EXACT_SCENES:
        return as_far / tried
    return (1 + as_far) / (1 + tried)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's (1979) step-down correction: p values that hold for all comparisons together.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    steps = np.arange(len(order), 0, -1) * np.asarray(p_values, dtype=float)[order]
    adjusted = np.empty(len(order))
    adjusted[order] = np.maximum.accumulate(np.fmin(1.0, steps))
    return [float(p) for p in adjusted]


def _finite(gaps: Floats) -> Floats:
    """Refuse differences that are no numbers: they would look like certainty."""
    wrong = gaps.size - int(np.count_nonzero(np.isfinite(gaps)))
    if wrong:
        raise BadInput(
            f"{wrong} of {gaps.size} differences are not finite; compare where both have a value"
        )
    return gaps


def _signs(scenes: int, flips: int, seed: object) -> Iterator[Floats]:
    """Patterns of signs, `(patterns, scenes)`, a block at a time."""
    if scenes <= _EXACT_SCENES:
        patterns = np.arange(2**scenes)[:, None] >> np.arange(scenes)
        yield 1.0 - 2.0 * (patterns & 1).astype(np.float64)
        return
    packed = _packed_flips(scenes, flips, fingerprint("flips", seed, scenes))
    block = max(1, _AT_ONCE // scenes)
    for start in range(0, flips, block):
        bits = np.unpackbits(packed[start : start + block], axis=1, count=scenes)
        yield (1 - 2 * bits.view(np.int8)).astype(np.float64)


@lru_cache(maxsize=2)  # a report uses the same signs in every table: 3 s of its 12 each time
def _packed_flips(scenes: int, flips: int, seed: str) -> npt.NDArray[np.uint8]:
    """Drawn patterns as bits, 1 for a minus, `(flips, bytes)`."""
    draw = seeded(seed)
    packed = np.empty((flips, -(-scenes // 8)), dtype=np.uint8)
    block = 2 * max(1, _AT_ONCE // scenes)
    for start in range(0, flips, block):
        rows = min(block, flips - start)
        packed[start : start + rows] = np.packbits(draw.integers(0, 2, (rows, scenes)) > 0, axis=1)
    packed.flags.writeable = False
    return packed


def first_shares(
    values: npt.ArrayLike, drawn: Resampling, better: Literal["higher", "lower"]
) -> Floats:
    """How often each model ranks first under resampling; adds up to one.

    `values` is `(models, targets)`, targets in the order of `drawn`. Models with equal means
    share the first rank.

    >>> drawn = Resampling(['a', 'b', 'c'])
    >>> first_shares([[1.0, 2.0, 1.0], [3.0, 4.0, 5.0]], drawn, 'lower').tolist()
    [1.0, 0.0]
    """
    means = drawn.means(np.asarray(values, dtype=float).T)
    cost = -means if better == "higher" else means
    first = cost == cost.min(axis=1, keepdims=True)
    return np.asarray((first / first.sum(axis=1, keepdims=True)).mean(axis=0))


def spearman(table: Floats) -> Floats:
    """Rank correlations between the columns of `(models, columns)`; equal values share ranks.

    >>> spearman(np.array([[1.0, 10.0], [2.0, 30.0], [3.0, 20.0]])).round(2).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    from scipy.stats import rankdata

    with np.errstate(invalid="ignore", divide="ignore"):
        return np.atleast_2d(np.corrcoef(rankdata(table, axis=0), rowvar=False))


def pairwise_tables(
    names: Sequence[str], groups: Sequence[Group], values: Sequence[Floats]
) -> list[Difference]:
    """All pairs of groups in several measures, measure by measure; p values are not corrected.

    `values` is `(targets, measures)` of each group.

    >>> where = ("grabcut", "centre-click", "corrected")
    >>> keys = {"a": tuple("xyz"), "b": tuple("zx")}
    >>> groups = [Group(model, *where, own, own) for model, own in keys.items()]
    >>> values = [np.array([[3.0], [5.0], [9.0]]), np.array([[8.0], [1.0]])]
    >>> [d.targets for d in pairwise_tables(["noc@90"], groups, values)]
    [2]
    """
    both = combinations(zip(groups, values, strict=True), 2)
    pairs = [_paired(names, *first, *second) for first, second in both]
    return [d for k in range(len(names)) for pair in pairs if pair for d in pair[k : k + 1]]


def _paired(
    names: Sequence[str], first: Group, ours: Floats, second: Group, theirs: Floats
) -> list[Difference]:
    """One pair in every measure on the targets where both have numbers; none where they share
    no target."""
    places = {key: i for i, key in enumerate(second.keys)}
    mine = [i for i, key in enumerate(first.keys) if key in places]
    gaps = difference_of(ours[mine], theirs[[places[first.keys[i]] for i in mine]])
    known = np.flatnonzero(~np.isnan(gaps).any(axis=1))
    if not known.size:
        return []
    clusters = [first.clusters[mine[k]] for k in known]
    found = differences(gaps[known], clusters, seed=first.dataset)
    head = (first.model, second.model, *first.comparison)
    limits = [(one.interval.value, one.interval.low, one.interval.high) for one in found]
    return [
        Difference(*head, name, *limit, one.p, one.p, one.targets, one.scenes, first.unit)
        for name, limit, one in zip(names, limits, found, strict=True)
    ]


def difference_of(ours: Floats, theirs: Floats) -> Floats:
    """Differences target by target; an infinite one counts as the largest of the others.

    So a model is not the better one for an empty mask, which is infinitely far from an object. NaN
    where both are infinite, or where no other difference tells how much that is.

    >>> difference_of(np.array([1.0, np.inf, 5.0]), np.array([3.0, 1.0, 4.0])).tolist()
    [-2.0, 2.0, 1.0]
    """
    with np.errstate(invalid="ignore"):
        gaps = ours - theirs
    most = np.abs(gaps).max(axis=0, initial=0.0, where=np.isfinite(gaps))
    most = np.where((most > 0) | ~np.isinf(gaps), most, np.nan)
    return np.asarray(np.clip(gaps, -most, most))

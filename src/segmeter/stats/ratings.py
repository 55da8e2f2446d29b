"""Ratings: whether the masks of one model are rated above those of another.

The `published` statistics are those of the Segment Anything supplement: a paired t-test and
a paired bootstrap over targets. Ratings are ordinal, several targets share an image and
raters differ, so the `corrected` ones are added: the signed-rank test, the probability of being
rated above, and a bootstrap that draws images and raters anew.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.seeds import generator
from segmeter.stats.intervals import Floats, Interval

__all__ = [
    "RatingDifference",
    "RatingSummary",
    "clustered_difference",
    "paired_bootstrap",
    "rater_adjusted",
    "rating_difference",
    "rating_summary",
]

_SCALE = 10
_Z95 = 1.96  # the deviate as it is printed, which the reference multiplies by
_PUBLISHED_SEED = 12345


@dataclass(frozen=True, slots=True)
class RatingSummary:
    """One model's ratings: mean, half widths of two 95 % intervals, counts of 1 to 10."""

    count: int
    mean: float
    sd: float
    t_half: float
    z_half: float
    histogram: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RatingDifference:
    """First minus second, paired by target.

    `interval` is the 99 % percentile bootstrap and `t_interval` Student's; `above` is the
    probability that the first is rated above the second, ties counting half; `effect` is the
    mean over the standard deviation of the differences (Cohen's dz).
    """

    count: int
    mean: float
    sd: float
    t: float
    p: float
    p_greater: float
    interval: tuple[float, float]
    bootstrap_se: float
    t_interval: tuple[float, float]
    wilcoxon_p: float
    above: float
    effect: float


def rating_summary(scores: npt.ArrayLike) -> RatingSummary:
    """Mean, spread and histogram of ratings from 1 to 10.

    >>> rating_summary([9, 10, 10, 7]).histogram
    (0, 0, 0, 0, 0, 0, 1, 0, 1, 2)
    """
    from scipy import stats

    given = _ratings(scores)
    sd = float(given.std(ddof=1)) if given.size > 1 else float("nan")
    error = float(sd / np.sqrt(given.size))
    freedom = max(given.size - 1, 1)
    return RatingSummary(
        given.size,
        float(given.mean()),
        sd,
        float(stats.t.ppf(0.975, freedom) * error),
        _Z95 * error,
        tuple(int(n) for n in np.bincount(given.astype(int), minlength=_SCALE + 1)[1:]),
    )


def rating_difference(
    first: npt.ArrayLike, second: npt.ArrayLike, *, level: float = 0.99
) -> RatingDifference:
    """Compare two models' ratings of the same targets, in the same order.

    The t-test is two-sided; `p_greater` is the one-sided p of the first being better. Where
    all differences are zero nothing speaks against equality, and every p is 1.

    >>> rating_difference([8, 9, 7], [8, 9, 7]).p
    1.0
    """
    gaps = _pairs(first, second)
    middle, sd = float(gaps.mean()), float(gaps.std(ddof=1))
    draws = paired_bootstrap(gaps)
    low, high = np.percentile(draws, [50 * (1 - level), 50 * (1 + level)])
    t, p, p_greater, inside = _t_test(gaps, level)
    return RatingDifference(
        gaps.size,
        middle,
        sd,
        t,
        p,
        p_greater,
        (float(low), float(high)),
        float(draws.std(ddof=1)),
        inside,
        _signed_rank(gaps),
        float((gaps > 0).mean() + (gaps == 0).mean() / 2),
        middle / sd if sd else 0.0,
    )


def paired_bootstrap(
    gaps: npt.ArrayLike, samples: int = 10_000, seed: int = _PUBLISHED_SEED
) -> Floats:
    """Means of resampled differences: one call of a PCG64 generator for all indices.

    >>> paired_bootstrap([1.0, 1.0], samples=3).tolist()
    [1.0, 1.0, 1.0]
    """
    values = np.asarray(gaps, dtype=float)
    drawn = np.random.default_rng(seed).integers(0, values.size, (samples, values.size))
    return np.asarray(values[drawn].mean(axis=1))


def clustered_difference(
    gaps: npt.ArrayLike,
    images: Sequence[Hashable],
    raters: Sequence[tuple[Hashable, Hashable]],
    *,
    samples: int = 2000,
    level: float = 0.99,
    seed: object = 0,
) -> Interval:
    """The mean difference, with images and raters both drawn anew.

    A pair weighs as often as its image was drawn times as often as each of its raters was
    (once where one person rated both): the pigeonhole bootstrap (Owen 2007). Draws without
    any pair are left out.

    >>> found = clustered_difference([1.0, 1.0], ['a', 'b'], [(1, 1), (2, 2)], samples=50)
    >>> found.value
    1.0
    """
    values = np.asarray(gaps, dtype=float)
    rng = generator("ratings", seed, values.size)
    weights = _drawn(images, samples, rng)
    people = sorted({person for pair in raters for person in pair}, key=str)
    of_person = _drawn_counts(len(people), samples, rng)
    place = {person: k for k, person in enumerate(people)}
    for i, (one, other) in enumerate(raters):
        weights[:, i] *= of_person[:, place[one]]
        if other != one:
            weights[:, i] *= of_person[:, place[other]]
    sums = weights.sum(axis=1)
    means = (weights @ values)[sums > 0] / sums[sums > 0]
    low, high = np.percentile(means, [50 * (1 - level), 50 * (1 + level)])
    return Interval(float(values.mean()), float(low), float(high))


def rater_adjusted(gaps: npt.ArrayLike, raters: Sequence[tuple[Hashable, Hashable]]) -> float:
    """The mean difference when strict and lenient raters are allowed for.

    Least squares of `gap = difference + effect(rater of first) - effect(rater of second)`;
    of several solutions the one with the smallest effects.

    >>> round(rater_adjusted([3.0, -1.0], [("kind", "strict"), ("strict", "kind")]), 6)
    1.0
    """
    values = np.asarray(gaps, dtype=float)
    people = sorted({person for pair in raters for person in pair}, key=str)
    place = {person: 1 + k for k, person in enumerate(people)}
    design = np.zeros((values.size, 1 + len(people)))
    design[:, 0] = 1.0
    for i, (one, other) in enumerate(raters):
        design[i, place[one]] += 1.0
        design[i, place[other]] -= 1.0
    solution = np.linalg.lstsq(design, values, rcond=None)[0]
    return float(solution[0])


def _t_test(gaps: Floats, level: float) -> tuple[float, float, float, tuple[float, float]]:
    """t, its two-sided and one-sided p, and the interval."""
    from scipy import stats

    middle, error = float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(gaps.size))
    if error == 0:
        return (0.0, 1.0, 1.0, (middle, middle)) if middle == 0 else _certain(middle)
    t, freedom = middle / error, gaps.size - 1
    reach = float(stats.t.ppf((1 + level) / 2, freedom)) * error
    return (
        t,
        float(2 * stats.t.sf(abs(t), freedom)),
        float(stats.t.sf(t, freedom)),
        (middle - reach, middle + reach),
    )


def _certain(middle: float) -> tuple[float, float, float, tuple[float, float]]:
    """All differences are the same and not zero."""
    return float(np.copysign(np.inf, middle)), 0.0, float(middle < 0), (middle, middle)


def _signed_rank(gaps: Floats) -> float:
    """Wilcoxon's two-sided p; differences of zero are left out."""
    from scipy import stats

    if not gaps.any():
        return 1.0
    return float(stats.wilcoxon(gaps).pvalue)


def _pairs(first: npt.ArrayLike, second: npt.ArrayLike) -> Floats:
    one, other = _ratings(first), _ratings(second)
    if one.size != other.size:
        raise BadInput(f"{one.size} ratings cannot be paired with {other.size}")
    if one.size < 2:
        raise BadInput("a comparison of ratings needs at least two targets that both have")
    return np.asarray(one - other)


def _ratings(scores: npt.ArrayLike) -> Floats:
    given = np.asarray(scores, dtype=float)
    if given.ndim != 1 or not given.size:
        raise BadInput("ratings are a list of numbers, and there are none")
    if not bool(((given >= 1) & (given <= _SCALE) & (given == np.rint(given))).all()):
        raise BadInput(f"ratings are whole numbers from 1 to {_SCALE}")
    return given


def _drawn(clusters: Sequence[Hashable], samples: int, rng: np.random.Generator) -> Floats:
    """How often each item's cluster is drawn, `(samples, items)`."""
    names = list(dict.fromkeys(clusters))
    place = {name: k for k, name in enumerate(names)}
    return _drawn_counts(len(names), samples, rng)[:, [place[name] for name in clusters]]


def _drawn_counts(many: int, samples: int, rng: np.random.Generator) -> Floats:
    return rng.multinomial(many, np.full(many, 1 / many), size=samples).astype(float)

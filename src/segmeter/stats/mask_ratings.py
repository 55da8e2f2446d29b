"""Ratings: whether the masks of one model are rated above those of another.

The `published` statistics are those of the Segment Anything supplement: a paired t-test and a
paired bootstrap over targets. Ratings are ordinal, targets share images, masks are rated several
times and raters differ. Therefore all ratings go into a mixed-effects model with raters and
targets as random effects, complemented by the signed-rank test, the probability of being rated
above, and intervals that resample images or raters.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped_pairs
from segmeter.stats.intervals import Floats, Interval, Resampling, codes, percentiles
from segmeter.stats.mixed_effects import MixedModel, fit_mixed

_SCALE = 10
_Z95 = 1.96  # the rounded deviate that the reference multiplies by
_PUBLISHED_SEED, _PUBLISHED_DRAWS = 12345, 10_000


@dataclass(frozen=True, slots=True)
class Ratings:
    """Ratings in long form: one entry per rating in each of the sequences.

    >>> r = Ratings(["a", "b"], ["dog/1", "dog/1"], ["dog", "dog"], ["r1", "r2"], [7, 9])
    >>> r.of("b").scores
    [9]
    """

    models: Sequence[str]
    targets: Sequence[str]
    images: Sequence[str]
    raters: Sequence[str]
    scores: Sequence[float]

    def of(self, *models: str) -> Ratings:
        keep = [k for k, name in enumerate(self.models) if name in models]
        columns = (self.models, self.targets, self.images, self.raters, self.scores)
        return Ratings(*([column[k] for k in keep] for column in columns))  # type: ignore[arg-type]  # each keeps its type

    def by_target(self, model: str) -> dict[str, float]:
        """The mean of all ratings of a model's mask, for every target."""
        own = self.of(model)
        found = grouped_pairs(zip(own.targets, own.scores, strict=True))
        return {target: float(np.mean(scores)) for target, scores in found.items()}


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


@dataclass(frozen=True, slots=True)
class Contrast:
    """A difference of two models by the mixed-effects model."""

    first: str
    second: str
    value: float
    low: float
    high: float
    se: float
    df: float
    p: float


@dataclass(frozen=True, slots=True)
class RatingModel:
    """The mixed-effects model of all ratings: one mean per model, random raters and targets."""

    models: tuple[str, ...]
    fitted: MixedModel
    df: float

    def mean(self, model: str) -> Interval:
        weights = np.array([float(name == model) for name in self.models])
        value, low, high, _, _ = self._estimate(weights)
        return Interval(value, low, high)

    def contrast(self, first: str, second: str) -> Contrast:
        """First minus second, with a t-test."""
        weights = np.array([float(n == first) - float(n == second) for n in self.models])
        value, low, high, se, p = self._estimate(weights)
        return Contrast(first, second, value, low, high, se, self.df, p)

    def _estimate(self, weights: Floats) -> tuple[float, float, float, float, float]:
        from scipy import stats

        value = float(weights @ self.fitted.coefficients)
        se = float(np.sqrt(weights @ self.fitted.covariance @ weights))
        reach = float(stats.t.ppf(0.975, self.df)) * se
        p = float(2 * stats.t.sf(abs(value) / se, self.df)) if se > 0 else float(value == 0)
        return value, value - reach, value + reach, se, p


def fit_ratings(ratings: Ratings) -> RatingModel:
    """Fit `score ~ model + (1 | rater) + (1 | rater:model) + (1 | target) + (1 | target:model)`.

    REML. The interactions make the test one about new raters and new targets, as a maximal model
    does (Barr et al. 2013); a factor that the data cannot separate from the residual is left out.
    Degrees of freedom by containment: the smaller of raters and targets, less one.

    >>> scores = [5, 6, 7, 8, 6, 6, 8, 9]
    >>> found = fit_ratings(Ratings(list("aabbaabb"), list("12121212"), list("12121212"),
    ...                             list("rsrstutu"), scores))
    >>> round(found.contrast("b", "a").value, 2)
    2.25
    """
    models = tuple(sorted(set(ratings.models)))
    if len(ratings.scores) < len(models) + 2:
        raise BadInput("a mixed-effects model needs more ratings than there are")
    scores = np.asarray(ratings.scores, dtype=float)
    design = np.equal.outer(ratings.models, models).astype(float)
    factors: dict[str, Sequence[Hashable]] = {
        "target:model": list(zip(ratings.targets, ratings.models, strict=True)),
        "rater:model": list(zip(ratings.raters, ratings.models, strict=True)),
        "target": list(ratings.targets),
        "rater": list(ratings.raters),
    }
    fitted = fit_mixed(scores, design, _identifiable(factors, scores.size))
    df = min(len(set(ratings.targets)), len(set(ratings.raters))) - 1
    return RatingModel(models, fitted, float(max(1, df)))


def _identifiable(
    factors: Mapping[str, Sequence[Hashable]], size: int
) -> dict[str, Sequence[Hashable]]:
    """Factors with at least two levels, fewer than ratings, and different from each other."""
    kept: dict[str, Sequence[Hashable]] = {}
    seen: set[tuple[int, ...]] = set()
    for name, levels in factors.items():
        pattern = tuple(codes(levels).tolist())
        if 1 < len(set(pattern)) < size and pattern not in seen:
            seen.add(pattern)
            kept[name] = levels
    return kept


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


def rating_difference(first: npt.ArrayLike, second: npt.ArrayLike) -> RatingDifference:
    """Compare two models' scores of the same targets, in the same order, with 99 % intervals.

    Scores may be means of several ratings. The t-test is two-sided; `p_greater` is the one-sided
    p of the first being better. If all differences are zero every p is 1.

    >>> rating_difference([8, 9, 7], [8, 9, 7]).p
    1.0
    """
    from scipy import stats

    gaps = _pairs(first, second)
    middle, sd = float(gaps.mean()), float(gaps.std(ddof=1))
    rng = np.random.default_rng(_PUBLISHED_SEED)  # one call of PCG64 for all indices
    draws = gaps[rng.integers(0, gaps.size, (_PUBLISHED_DRAWS, gaps.size))].mean(axis=1)
    low, high = np.percentile(draws, [0.5, 99.5])
    t, p, p_greater, inside = _t_test(gaps)
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
        float(stats.wilcoxon(gaps).pvalue) if gaps.any() else 1.0,  # leaves out differences of zero
        float((gaps > 0).mean() + (gaps == 0).mean() / 2),
        middle / sd if sd else 0.0,
    )


def resampled_difference(
    ratings: Ratings, first: str, second: str, by: Literal["images", "raters"]
) -> Interval:
    """The mean over targets of the difference, with an interval that resamples images or raters.

    A target's ratings are averaged first; of raters, those that were drawn, as often as they were.
    One image or rater alone gives no limits.

    >>> r = Ratings(["a", "b"] * 3, list("112233"), list("112233"), ["r"] * 6, [5, 7, 6, 9, 4, 6])
    >>> resampled_difference(r, "b", "a", "images").value
    2.333...
    """
    both = ratings.of(first, second)
    one, other = both.by_target(first), both.by_target(second)
    common = sorted(one.keys() & other.keys())
    if not common:
        raise BadInput(f"'{first}' and '{second}' share no rated target")
    gaps = np.array([one[name] - other[name] for name in common])
    if by == "images":
        images = dict(zip(both.targets, both.images, strict=True))
        return Resampling([images[n] for n in common], seed=(first, second)).interval(gaps)
    place = {name: k for k, name in enumerate(common)}
    rows = [
        (2 * place[target] + (model == second), rater, score)
        for model, target, rater, score in zip(
            both.models, both.targets, both.raters, both.scores, strict=True
        )
        if target in place
    ]
    cells, raters, scores = (list(column) for column in zip(*rows, strict=True))
    drawn = Resampling(raters, seed=(first, second))
    compute = partial(_mean_differences, np.array(cells), np.array(scores, float), len(common))
    draws = drawn.statistic(compute, len(rows))
    return percentiles(float(gaps.mean()), draws, drawn.clusters)


def _mean_differences(
    cell: npt.NDArray[np.int64], scores: Floats, targets: int, drawn: Floats
) -> Floats:
    """The mean difference from how often each rating counts; NaN where no target is left.

    `cell` is twice the target's place, plus one for the second model.
    """
    found = np.full(len(drawn), np.nan)
    for k, counts in enumerate(drawn):
        total, many = (
            np.bincount(cell, weights, minlength=2 * targets).reshape(targets, 2)
            for weights in (counts * scores, counts)
        )
        both = (many > 0).all(axis=1)
        if both.any():
            means = total[both] / many[both]
            found[k] = (means[:, 0] - means[:, 1]).mean()
    return found


def _t_test(gaps: Floats) -> tuple[float, float, float, tuple[float, float]]:
    """t, its two-sided and one-sided p, and the 99 % interval."""
    from scipy import stats

    middle, error = float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(gaps.size))
    if error == 0:  # all differences are the same
        both = (1.0, 1.0) if middle == 0 else (0.0, float(middle < 0))
        return float(np.sign(middle) * np.inf) if middle else 0.0, *both, (middle, middle)
    test = stats.ttest_1samp(gaps, 0.0)
    t, p, inside = float(test.statistic), float(test.pvalue), test.confidence_interval(0.99)
    return t, p, float(stats.t.sf(t, test.df)), (float(inside.low), float(inside.high))


def _pairs(first: npt.ArrayLike, second: npt.ArrayLike) -> Floats:
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if one.ndim != 1 or one.shape != other.shape:
        raise BadInput(f"{one.size} ratings cannot be paired with {other.size}")
    if one.size < 2:
        raise BadInput("a comparison of ratings needs at least two targets that both models have")
    for scores in (one, other):
        if not bool(((scores >= 1) & (scores <= _SCALE)).all()):
            raise BadInput(f"ratings are numbers from 1 to {_SCALE}")
    return np.asarray(one - other)


def _ratings(scores: npt.ArrayLike) -> Floats:
    given = np.asarray(scores, dtype=float)
    if given.ndim != 1 or not given.size:
        raise BadInput("ratings are a list of numbers, and there are none")
    if not bool(((given >= 1) & (given <= _SCALE) & (given == np.rint(given))).all()):
        raise BadInput(f"ratings are whole numbers from 1 to {_SCALE}")
    return given

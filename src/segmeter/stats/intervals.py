"""Intervals: the bootstrap over scenes.

Targets of one scene share an image, so scenes are resampled, not targets. A mean over
targets is then a ratio, and a resample is a row of weights w over scenes:

    mean* = sum_c w_c S_c / sum_c w_c n_c,    w ~ multinomial(C; 1/C, ..., 1/C)

with S_c the sum of scene c's values and n_c how many it has: one matrix product for all
resamples, all rounds and all models at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.seeds import fingerprint, seeded

Floats = npt.NDArray[np.float64]

_AT_ONCE = 1 << 21  # draws in memory at a time
_MOST_NUMBERS = 1 << 23  # weights that are kept as floats
_MOST_OF_A_BYTE = 255  # draws of one scene


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and the limits of its confidence interval."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> Interval:
        """The same in another unit; a positive factor keeps the limits in their order.

        >>> Interval(0.5, 0.25, 0.75).times(100)
        Interval(value=50.0, low=25.0, high=75.0)
        """
        return Interval(self.value * factor, self.low * factor, self.high * factor)

    def if_enough(self, clusters: int, fewest: int) -> Interval:
        """The same, without limits if there are too few images or patients for them.

        >>> Interval(0.5, 0.25, 0.75).if_enough(4, fewest=5)
        Interval(value=0.5, low=nan, high=nan)
        """
        return self if clusters >= fewest else Interval(self.value, np.nan, np.nan)


def codes(names: Iterable[Hashable]) -> npt.NDArray[np.intp]:
    """The number of each name, by first appearance.

    >>> codes("aba").tolist()
    [0, 1, 0]
    """
    place: dict[Hashable, int] = {}
    return np.array([place.setdefault(name, len(place)) for name in names], dtype=np.intp)


@lru_cache(maxsize=16)  # a report resamples the same scenes in every statistic
def _codes_of(names: tuple[Hashable, ...]) -> npt.NDArray[np.intp]:
    found = codes(names)
    found.flags.writeable = False
    return found


class Resampling:
    """Resamples of scenes; the same draws for every model, so that differences are paired.

    `clusters` are the scenes of the targets. The same `seed`, which may be anything, and scenes
    give the same draws everywhere.
    """

    def __init__(
        self, clusters: Sequence[Hashable], *, resamples: int = 2000, seed: object = 0
    ) -> None:
        if len(clusters) == 0:
            raise BadInput("an interval needs at least one target, and there is none")
        self.cluster = _codes_of(tuple(clusters))
        self.clusters = int(self.cluster.max()) + 1
        self.resamples = resamples
        self._counts = np.bincount(self.cluster).astype(float)
        self._seed = fingerprint("bootstrap", seed, self.clusters)

    def statistic(self, compute: Callable[[Floats], Floats], size: int) -> Floats:
        """A statistic of every resample from how often each target counts in it.

        `compute` gets `(some resamples, targets)` and returns a number for each of them; `size`
        is how many numbers it holds per resample, so that few are computed at a time.

        >>> Resampling("ab", resamples=5).statistic(lambda counts: counts.sum(axis=1), 2)
        array([2., 2., 2., 2., 2.])
        """
        parts = (weights[:, self.cluster] for weights in self._blocks(size))
        return np.concatenate([compute(counts) for counts in parts])

    def quantiles(self, values: npt.ArrayLike, share: float) -> Floats:
        """A quantile of the known values of every resample; `(targets, columns)`, NaN if unknown.

        >>> Resampling("ab", resamples=4).quantiles([[1.0, 3.0], [2.0, np.nan]], 0.5).tolist()
        [2.0, 2.0, 2.0, 2.0]
        """
        columns = _columns(values)
        targets, places = np.nonzero(~np.isnan(columns))
        if len(targets) == 0:
            return np.full(self.resamples, np.nan)
        order = np.argsort(columns[targets, places], kind="stable")
        ordered, owners = columns[targets, places][order], self.cluster[targets[order]]
        # Each scene's counts up to the end of each block of ordered values show which block holds
        # a quantile; only that block is counted value by value.
        step = max(1, isqrt(len(ordered)))
        blocks = -(-len(ordered) // step)
        cells = owners * blocks + np.arange(len(ordered)) // step
        counted = np.bincount(cells, minlength=self.clusters * blocks)
        up_to = counted.reshape(self.clusters, blocks).cumsum(axis=1).astype(float)
        inside = np.append(owners, np.zeros(step, np.intp))  # the last block may be shorter

        def place_of(edge: Floats, weights: Floats, ends: Floats) -> npt.NDArray[np.intp]:
            """Place of the value with rank `edge`, from 0, in each resample; `(resamples, 1)`."""
            block = np.minimum((ends <= edge).sum(axis=1, keepdims=True), blocks - 1)
            before = np.take_along_axis(np.insert(ends, 0, 0, axis=1), block, axis=1)
            own = np.take_along_axis(weights, inside[block * step + np.arange(step)], axis=1)
            found = block[:, 0] * step + (before + own.cumsum(axis=1) <= edge).sum(axis=1)
            return np.asarray(np.minimum(found, len(ordered) - 1))

        def compute(weights: Floats) -> Floats:
            """Linear between the two nearest, as `numpy.quantile`."""
            ends = weights @ up_to
            place = (ends[:, -1:] - 1) * share
            edges = np.floor(place), np.ceil(place)
            below, above = (ordered[place_of(edge, weights, ends)] for edge in edges)
            part = place[:, 0] % 1
            with np.errstate(invalid="ignore"):  # between two infinite values
                between = np.where(below == above, below, below + part * (above - below))
            return np.where(ends[:, -1] > 0, np.where(part == 0, below, between), np.nan)

        return np.concatenate([compute(w) for w in self._blocks(self.clusters + step)])

    def sums(self, values: npt.ArrayLike) -> Floats:
        """Sums of each scene's values, `(scenes, columns)`."""
        columns = _columns(values)
        if columns.shape[0] != self.cluster.size:
            raise BadInput(
                f"{columns.shape[0]} values for {self.cluster.size} targets cannot be resampled"
            )
        sums = np.zeros((self.clusters, columns.shape[1]))
        np.add.at(sums, self.cluster, columns)
        return sums

    def totals(self, values: npt.ArrayLike) -> Floats:
        """The sum in every resample, `(resamples, columns)`; values `(targets, columns)`."""
        return self._weighted(self.sums(values))

    def means(self, values: npt.ArrayLike) -> Floats:
        """The mean in every resample, `(resamples, columns)`; values `(targets, columns)`."""
        return np.asarray(self.totals(values) / self._sizes)

    def interval(self, values: npt.ArrayLike) -> Interval:
        """The mean of one value per target, with its interval."""
        low, high = self.limits(values)
        return Interval(float(_columns(values).mean()), float(low[0]), float(high[0]))

    def limits(self, values: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Limits of the mean of each column.

        Bias-corrected and accelerated (Efron 1987), with tail areas widened from the normal
        to Student's t for few scenes (Hesterberg 2015): on skewed, clustered click counts
        this covers best among seven ways tried (docs/statistics.md).
        """
        columns = _columns(values)
        if self.clusters == 1:
            unknown = np.full(columns.shape[1], np.nan)
            return unknown, unknown.copy()
        middle = columns.mean(axis=0)
        away = columns - middle
        sums = self.sums(away)
        left = (sums.sum(axis=0) - sums) / (self._counts.sum() - self._counts)[:, None]
        low, high = self._accelerated(self.means(away), left, 1e-9 * np.abs(away).max(axis=0))
        return middle + low, middle + high

    def ratio(self, above: npt.ArrayLike, below: npt.ArrayLike) -> Interval:
        """The ratio of two sums over the same targets, with its interval.

        The ratio itself is resampled, so that the limits are values of resamples.
        """
        over, under = (self.sums(values)[:, 0] for values in (above, below))
        value = float(over.sum() / under.sum())
        if self.clusters == 1:
            return Interval(value, float("nan"), float("nan"))
        drawn = self._weighted(over) / self._weighted(under) - value
        left = (over.sum() - over) / (under.sum() - under) - value
        low, high = self._accelerated(drawn[:, None], left[:, None], np.array([1e-9]))
        return Interval(value, value + float(low[0]), value + float(high[0]))

    def _accelerated(self, drawn: Floats, left: Floats, slack: Floats) -> tuple[Floats, Floats]:
        """Limits of columns of resampled differences to the estimate.

        `left` are the same with one scene left out. Resamples that hit the estimate itself count
        half, and those within `slack` of it count as hits, so that rounding does not matter.
        """
        from scipy import special  # slow to import, and seldom needed

        below = ((drawn < -slack).mean(axis=0) + (drawn <= slack).mean(axis=0)) / 2
        bias = special.ndtri(np.clip(below, 1e-4, 1 - 1e-4))
        speed, reach = _skewness(left), _reach(self.clusters)
        tails = [bias + (bias + z) / (1 - speed * (bias + z)) for z in (-reach, reach)]
        low, high = _quantiles(drawn, special.ndtr(np.stack(tails)))
        return low, high

    @cached_property
    def _weights(self) -> npt.NDArray[Any]:
        """How often each scene is drawn in each resample; not every statistic needs it."""
        return _weights(self.clusters, self.resamples, self._seed)

    @cached_property
    def _sizes(self) -> Floats:
        """Targets in each resample, `(resamples, 1)`."""
        first = self._counts[0]
        if (self._counts == first).all():  # every resample has as many scenes
            return np.full((self.resamples, 1), first * self.clusters)
        return self._weighted(self._counts)[:, None]

    def _weighted(self, sums: Floats) -> Floats:
        """Sums of the scenes in every resample; many scenes a block of resamples at a time."""
        if self._weights.dtype == np.float64:
            return np.asarray(self._weights @ sums)
        return np.concatenate([weights @ sums for weights in self._blocks(self.clusters)])

    def _blocks(self, size: int) -> Iterator[Floats]:
        """The weights as floats, some resamples at a time, of which each needs `size` numbers."""
        block = max(1, _AT_ONCE // max(1, size))
        for start in range(0, self.resamples, block):
            yield self._weights[start : start + block].astype(float)


def _reach(clusters: int) -> float:
    """Normal deviate of the limits, widened for few scenes (Hesterberg 2015)."""
    from scipy import special  # slow to import, and seldom needed

    freedom = clusters - 1
    return float(special.stdtrit(freedom, 0.975) * np.sqrt(clusters / freedom))


def percentiles(value: float, draws: Floats, clusters: int) -> Interval:
    """A number with percentiles of what resampled sets of `clusters` images give as limits.

    The tails are widened for few images. No limits without draws, or from a single image, which
    allows no inference to others.

    >>> percentiles(2.0, np.array([1.0, 2.0, np.nan, 3.0]), clusters=2)
    Interval(value=2.0, low=1.0, high=3.0)
    """
    from scipy import special  # slow to import, and seldom needed

    known = draws[~np.isnan(draws)]
    if clusters < 2 or not known.size:
        return Interval(value, np.nan, np.nan)
    tail = float(special.ndtr(-_reach(clusters)))
    finite = bool(np.isfinite(known).all())  # nothing lies between infinite values
    low, high = np.quantile(known, (tail, 1 - tail), method="linear" if finite else "nearest")
    return Interval(value, float(low), float(high))


def _skewness(left: Floats) -> Floats:
    """The acceleration: a sixth of the skewness of the leave-one-scene-out estimates."""
    away = left.mean(axis=0) - left
    spread = (away**2).sum(axis=0) ** 1.5
    flat = spread < 1e-300
    return np.where(flat, 0.0, (away**3).sum(axis=0) / (6 * np.where(flat, 1.0, spread)))


def share_interval(flags: npt.ArrayLike, clusters: Sequence[Hashable]) -> Interval:
    """A share of targets with Wilson's interval, which has a width even if all targets agree.

    With no failure among fifty targets, the bootstrap would give [0, 0]. Wilson's limits use the
    number of targets divided by the design effect (how much more the share varies because targets
    of a scene are correlated); if all flags agree, it cannot be estimated, and the number of scenes
    is used.

    >>> share = share_interval([0] * 50, list(range(50)))
    >>> round(share.low, 3), round(share.high, 3)
    (0.0, 0.071)
    """
    from scipy import special  # slow to import, and seldom needed

    raised = np.asarray(flags, dtype=float)
    drawn = Resampling(clusters, resamples=1)
    share = float(raised.mean())
    size = _effective_size(drawn, raised, share)
    z = float(special.ndtri(0.975))
    middle = (share + z * z / (2 * size)) / (1 + z * z / size)
    reach = z / (1 + z * z / size) * np.sqrt(share * (1 - share) / size + (z / (2 * size)) ** 2)
    low = 0.0 if share == 0 else middle - reach
    high = 1.0 if share == 1 else middle + reach
    return Interval(share, float(max(low, 0.0)), float(min(high, 1.0)))


def _effective_size(drawn: Resampling, raised: Floats, share: float) -> float:
    """The number of independent targets with the same variance."""
    targets, scenes = raised.size, drawn.clusters
    plain = share * (1 - share) / targets
    if plain == 0 or scenes < 2:
        return float(scenes)
    away = drawn.sums(raised - share)[:, 0]
    clustered = float((away**2).sum()) * scenes / (scenes - 1) / targets**2
    return targets / max(1.0, clustered / plain)


@lru_cache(maxsize=2)  # every statistic of a dataset uses the same draws
def _weights(clusters: int, resamples: int, seed: str) -> npt.NDArray[Any]:
    """How often each scene is drawn in each resample: multinomial, counted from draws.

    As floats if there are few; for many scenes as bytes, which take 0.1 GB for 50 000 scenes and
    2000 resamples instead of 0.8.
    """
    draw = seeded(seed)
    block = max(1, _AT_ONCE // clusters)
    kind = np.float64 if clusters * resamples <= _MOST_NUMBERS else np.uint8
    counts: npt.NDArray[Any] = np.empty((resamples, clusters), dtype=kind)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        cells = draw.integers(0, clusters, (rows, clusters)) + clusters * np.arange(rows)[:, None]
        found = np.bincount(cells.ravel(), minlength=rows * clusters).reshape(rows, clusters)
        if counts.dtype == np.uint8 and found.max() > _MOST_OF_A_BYTE:
            counts = counts.astype(np.uint32)
        counts[start : start + rows] = found
    counts.flags.writeable = False
    return counts


def _columns(values: npt.ArrayLike) -> Floats:
    array = np.asarray(values, dtype=float)
    return array[:, None] if array.ndim == 1 else array


def _quantiles(drawn: Floats, areas: Floats) -> Floats:
    """Each column's quantiles at its own areas, `(areas, columns)`."""
    ordered = np.sort(drawn, axis=0)
    place = np.clip(np.nan_to_num(areas), 0, 1) * (len(ordered) - 1)
    before = np.floor(place).astype(np.intp)
    after = np.minimum(before + 1, len(ordered) - 1)
    column = np.arange(ordered.shape[1])
    part = place - before
    return np.asarray(ordered[before, column] * (1 - part) + ordered[after, column] * part)

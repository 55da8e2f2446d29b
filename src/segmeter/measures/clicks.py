"""Click similarity of two samples of clicks.

Points are `(n, 2)` arrays; distances along the two axes are divided by the object's sides where a
measure needs them, so both must come in the same order, `(y, x)` with `(height, width)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.measures import measure
from segmeter.kernels import compiled

Floats = npt.NDArray[np.float64]
Sides = tuple[float, float]

# A sample of clicks counts as drawn from the other's distribution unless p falls to this level.
ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class KolmogorovSmirnov:
    """The two-sample statistic in the plane and its approximate p-value (NaN if undefined)."""

    distance: float
    p: float

    @property
    def alike(self) -> bool:
        return self.p > ALPHA


@dataclass(frozen=True, slots=True)
class ScribbleShape:
    """A stroke in an object, free of the object's scale.

    `coverage` is the share of the object's pixels that are no farther from the stroke than the
    object's deepest pixel is from its outline: about 1 for a stroke along the whole middle line.
    """

    coverage: float
    centredness: float  # mean depth of the points over the greatest depth; 0 for points outside
    length: float  # over the square root of the object's area


def scribble_shape(points: npt.ArrayLike, target: Mask) -> ScribbleShape:
    """The shape of a stroke of pixel centres `(n, 2)` in an object.

    >>> bar = Mask.box((9, 30), (2, 0), (7, 30))
    >>> shape = scribble_shape([(4, x) for x in range(2, 28)], bar)
    >>> round(shape.coverage, 2), round(shape.centredness, 2), round(shape.length, 2)
    (1.0, 1.0, 2.04)
    """
    from scipy import ndimage

    stroke, bits = as_points(points), np.pad(target.dense(), 1)
    depth = ndimage.distance_transform_edt(bits)
    places = np.rint(stroke).astype(int).clip(0, np.array(target.shape) - 1) + 1
    drawn = np.ones(bits.shape, bool)
    drawn[tuple(places.T)] = False
    near = ndimage.distance_transform_edt(drawn) <= depth.max()
    steps = np.linalg.norm(np.diff(stroke, axis=0), axis=1)
    return ScribbleShape(
        float(np.count_nonzero(near & bits) / max(1, target.area)),
        float((depth[tuple(places.T)] / max(depth.max(), 1.0)).mean()),
        float(steps.sum() / math.sqrt(max(1, target.area))),
    )


@measure("click-pl1", range=(0.0, math.inf), better="lower", cite="antonov2024")
def pl1(ground_truth: npt.ArrayLike, prediction: npt.ArrayLike, sides: Sides = (1.0, 1.0)) -> float:
    """Mean over all pairs of clicks of the distances along the axes, in object sides.

    Not zero for equal distributions; `click-energy` is. By sorting, in O(n log n).

    >>> round(pl1([(0, 0), (2, 2)], [(0, 0), (4, 2)], sides=(4, 2)), 3)
    0.875
    """
    a, b = as_points(ground_truth), as_points(prediction)
    pairs = len(a) * len(b)
    return sum(_pair_distances(a[:, k], b[:, k]) / pairs / sides[k] for k in (0, 1))


@measure("click-energy", range=(-math.inf, math.inf), better="lower", cite="szekely2004")
def energy(
    ground_truth: npt.ArrayLike, prediction: npt.ArrayLike, sides: Sides = (1.0, 1.0)
) -> float:
    """Half the energy distance with PL1's metric: PL1 minus the samples' own spread.

    Unbiased: zero on average for two samples of one distribution, so it may come out below zero.

    >>> round(energy([(0, 0), (2, 2)], [(0, 0), (2, 2)]), 6) <= 0
    True
    """
    a, b = as_points(ground_truth), as_points(prediction)
    if min(len(a), len(b)) < 2:
        raise BadInput("the energy distance needs at least two clicks on each side")
    # Pairs of a click with itself are left out, hence n - 1.
    own = [pl1(z, z, sides) * len(z) / (len(z) - 1) for z in (a, b)]
    return pl1(a, b, sides) - 0.5 * (own[0] + own[1])


@measure("click-wd", range=(0.0, math.inf), better="lower", cite="antonov2024")
def wasserstein(
    ground_truth: npt.ArrayLike, prediction: npt.ArrayLike, sides: Sides | None = None
) -> float:
    """Wasserstein distance of two samples of clicks, in object diagonals.

    Exact optimal transport with Euclidean ways in pixels; without `sides` it stays in pixels.

    >>> wasserstein([(0, 0), (0, 1)], [(3, 1), (3, 0)])
    3.0
    """
    a, b = as_points(ground_truth), as_points(prediction)
    costs = np.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=2))
    way = _assignment(costs) if len(a) == len(b) else _transport(costs)
    return way if sides is None else way / math.hypot(*sides)


@measure("click-ks", range=(0.0, 1.0), better="higher", cite="fasano1987")
def ks(ground_truth: npt.ArrayLike, prediction: npt.ArrayLike) -> float:
    """1 if the 2D Kolmogorov-Smirnov test does not distinguish two samples, else 0.

    >>> clicks = [(0, 0), (1, 2), (2, 1), (3, 3)]
    >>> ks(clicks, clicks)
    1.0
    """
    return float(ks_2d(ground_truth, prediction).alike)


def ks_2d(ground_truth: npt.ArrayLike, prediction: npt.ArrayLike) -> KolmogorovSmirnov:
    """Fasano and Franceschini's two-sample test, with every click as origin of quadrants.

    Each sample's own clicks carry a correction of 1/n, so that a sample against itself has
    distance 1/n. A coordinate that does not vary makes p NaN.

    >>> clicks = [(0, 0), (1, 2), (2, 1), (3, 3)]
    >>> ks_2d(clicks, clicks).p >= 0.5
    True
    """
    from scipy.special import kolmogorov  # NaN for NaN

    a, b = as_points(ground_truth), as_points(prediction)
    counts = _quadrants(a, b)
    gap = _shares(counts[:3], len(a))
    gap -= _shares(counts[3:], len(b))
    distance = (_farthest(gap[:, : len(a)]) + _farthest(-gap[:, len(a) :])) / 2
    effective = math.sqrt(len(a) * len(b) / (len(a) + len(b)))
    spread = math.sqrt(1 - (_correlation(a) ** 2 + _correlation(b) ** 2) / 2)
    scale = distance * effective / (1 + spread * (0.25 - 0.75 / effective))
    return KolmogorovSmirnov(distance, float(kolmogorov(scale)))


def as_points(points: npt.ArrayLike) -> Floats:
    """Finite points as an `(n, 2)` array of at least one row.

    >>> as_points([(1, 2), (3, 4)]).shape
    (2, 2)
    """
    array = np.ascontiguousarray(points, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 2 or not len(array):
        raise BadInput(f"clicks come as n x 2 numbers, n at least 1, not {array.shape}")
    if not np.isfinite(array).all():
        raise BadInput("a click has a coordinate that is not a number")
    return array


def _pair_distances(a: Floats, b: Floats) -> float:
    """Sum of |a_i - b_j| over all pairs: b's prefix sums looked up at each a."""
    b = np.sort(b)
    below = np.searchsorted(b, a)
    sums = np.concatenate([[0.0], np.cumsum(b)])
    return float(np.sum(a * (2 * below - len(b)) + sums[-1] - 2 * sums[below]))


def _shares(counts: npt.NDArray[np.int32], n: int) -> Floats:
    """Shares of a sample in the four quadrants of each origin, its lower edges included."""
    both, down, right = counts
    parts = [both, down - both, right - both, n - down - right + both]
    return np.asarray(np.stack(parts) / n)


def _farthest(gap: Floats) -> float:
    """Largest difference of shares around one's own clicks, which count 1/n less there."""
    step = 1 / gap.shape[1]
    gap[0] -= step
    return float(max(-gap.min(), gap.max() + step))


def _quadrants(a: Floats, b: Floats) -> npt.NDArray[np.int32]:
    """For each click of both, how many of `a` lie at or below it: in both coordinates, in the
    first, in the second; then how many of `b`."""
    if compiled is None:
        return _plain_quadrants(a, b)
    points = np.concatenate([a, b])
    counts = np.empty((6, len(points)), dtype=np.int32)
    across, up = (np.argsort(points[:, k]) for k in (0, 1))
    compiled.quadrants(points, len(a), across, up, counts)
    return counts


def _plain_quadrants(a: Floats, b: Floats) -> npt.NDArray[np.int32]:
    rows = []
    for origin in np.concatenate([a, b]):
        below = [sample <= origin for sample in (a, b)]
        rows.append([part for z in below for part in (z.all(axis=1).sum(), *z.sum(axis=0))])
    return np.array(rows, dtype=np.int32).T


def _correlation(points: Floats) -> float:
    """Pearson's r of the two coordinates; NaN when one does not vary."""
    if (points == points[0]).all(axis=0).any():
        return math.nan
    return float(np.asarray(np.corrcoef(points, rowvar=False))[0, 1])


def _assignment(costs: Floats) -> float:
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(costs)
    return float(costs[rows, columns].mean())


def _transport(costs: Floats) -> float:
    """Between samples of different size, each click splits its weight as needed."""
    return float((_plain_transport if compiled is None else compiled.transport)(costs))


def _plain_transport(costs: Floats) -> float:
    """Repeat every click until both samples are equally many, then assign."""
    n, m = costs.shape
    common = math.lcm(n, m)
    return _assignment(np.repeat(np.repeat(costs, common // n, axis=0), common // m, axis=1))

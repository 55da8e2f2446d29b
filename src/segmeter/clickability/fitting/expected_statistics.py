"""Expected statistics of clicks under a click prior, as published tables report them.

Per target the tables hold, measured at real clicks, NSS and PDE of the uniform and of the
distance map, and the mean distance (PL1) to clicks drawn from each. All of them are means
over the clicks of a function of the pixel, so a prior predicts them exactly, without a draw.
A `Shape` keeps a target on a coarse grid, fast enough for fitting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.clickability.maps import depth_px, distance
from segmeter.clickability.prior import REACH, Numbers
from segmeter.core.masks import Mask

Grid = npt.NDArray[np.float32]
Places = npt.NDArray[np.float64]
_CELLS = 72
# Added to sum and deviation by the original, see segmeter.measures.clickability_maps.
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class ExpectedStatistics:
    """Expected statistics of clicks on one target.

    `inside` is the share of clicks on the target, `gain` their mean depth over that of a
    uniform click, `pl1_uniform` and `pl1_depth` the mean distances to clicks drawn from the
    two baseline maps, in box sides; variances are those of a single click.
    """

    inside: float
    gain: float
    nss: float
    pl1_uniform: float
    pl1_depth: float
    gain_variance: float = math.nan
    pl1_variance: float = math.nan


@dataclass(frozen=True, slots=True)
class Shape:
    """A target on a grid of at most 72 cells a side, with a margin for leaking clicks.

    `near` are the cells within reach of the target, `middle` how far rows and columns lie from the
    middle of its box, in its sides.
    """

    cell_px: int
    diagonal_px: float
    box: tuple[int, int]
    area: int
    filled: Grid
    depth: Grid
    published: Grid
    near: Grid
    middle: tuple[Grid, Grid]
    uniform: tuple[Grid, Grid]
    by_depth: tuple[Grid, Grid]
    away: tuple[Grid, Grid]
    nss_scale: float
    nss_shift: float


def shape_of(mask: Mask, sides: tuple[int, int] | None = None) -> Shape:
    """The grid of a target: filled pixels a cell, mean depth, marginals of the baselines.

    `sides` are the box sides that PL1 is measured in, where not the mask's own.
    """
    height, width = mask.bits.shape
    sides = sides or (height, width)
    cell = max(1, math.ceil(max(height, width) / _CELLS))
    diagonal = math.hypot(*mask.shape)
    margin = math.ceil(REACH * diagonal / cell) + 1
    ringed, plain = distance(mask, "corrected").weights, distance(mask, "published").weights
    filled = _cells(mask.bits, cell, margin)
    some = np.maximum(filled, 1)
    depth, published = (_cells(d * mask.bits, cell, margin) / some for d in (ringed, plain))
    total = float(plain.sum(dtype=np.float64))
    even, deep = filled / mask.area, filled * published / total
    rows, columns = ((np.arange(n) - margin) * cell + (cell - 1) / 2 for n in filled.shape)
    return Shape(
        cell,
        diagonal,
        sides,
        mask.area,
        filled,
        depth.astype(np.float32),
        published.astype(np.float32),
        np.asarray(depth_px(filled == 0) * cell <= REACH * diagonal + cell / 2, dtype=np.float32),
        (
            ((rows - (height - 1) / 2) / height).astype(np.float32),
            ((columns - (width - 1) / 2) / width).astype(np.float32),
        ),
        _running(even),
        _running(deep),
        (
            _mean_away(rows, even.sum(axis=1), sides[0]),
            _mean_away(columns, even.sum(axis=0), sides[1]),
        ),
        *_nss_line(plain, total, math.prod(mask.shape)),
    )


def _mean_away(places: Places, chance: npt.NDArray[np.floating], side: int) -> Grid:
    """How far each place lies from a draw of the marginal `chance`, in box sides, on average."""
    gaps = np.abs(np.subtract.outer(places, places)) / side
    return np.asarray(gaps @ chance, dtype=np.float32)


def _nss_line(weights: Grid, total: float, pixels: int) -> tuple[float, float]:
    """Scale and shift from a pixel's depth to its NSS, the map taken over the whole image."""
    density = weights.astype(np.float64) / total
    deviation = math.sqrt(float((density**2).sum()) / pixels - 1 / pixels**2) + _EPSILON
    return 1 / (total * deviation), -1 / (pixels * deviation)


def expect(shape: Shape, numbers: Numbers) -> ExpectedStatistics:
    """A prior's statistics on the grid; their means within 1 % of the exact ones."""
    rows, columns = (np.exp(-0.5 * (m / numbers.spread) ** 2) for m in shape.middle)
    weights = shape.filled * cv2.pow(shape.depth, numbers.depth) * rows[:, None] * columns[None]
    weights /= weights.sum()
    sigma = numbers.jitter * shape.diagonal_px / shape.cell_px
    loose = weights
    if sigma > 0.15:
        loose = cv2.GaussianBlur(weights, (0, 0), sigma, borderType=cv2.BORDER_CONSTANT)
        loose = loose * shape.near
        loose /= loose.sum()
    covered = shape.filled / shape.cell_px**2 if sigma > 0.15 else 1.0
    inside = (1 - numbers.sloppy) * weights + numbers.sloppy * loose * covered
    clicks = (1 - numbers.sloppy) * weights + numbers.sloppy * loose
    return _statistics(shape, inside, clicks)


def _statistics(shape: Shape, inside: Grid, clicks: Grid) -> ExpectedStatistics:
    depth = float((inside * shape.published).sum())
    depth_squared = float((inside * shape.published**2).sum())
    mean = float((shape.filled * shape.published).sum()) / shape.area
    sums = _running(clicks)
    chances = clicks.sum(axis=1), clicks.sum(axis=0)
    variance = sum(
        float(c @ a**2) - float(c @ a) ** 2 for c, a in zip(chances, shape.away, strict=True)
    )
    return ExpectedStatistics(
        float(inside.sum()),
        depth / mean,
        depth * shape.nss_scale + shape.nss_shift,
        _apart(sums, shape.uniform, shape.cell_px, shape.box),
        _apart(sums, shape.by_depth, shape.cell_px, shape.box),
        (depth_squared - depth**2) / mean**2,
        variance,
    )


def _cells(values: npt.NDArray[np.generic], cell: int, margin: int) -> Grid:
    """Sums over square cells, with empty cells around."""
    height, width = (math.ceil(n / cell) for n in values.shape)
    whole = np.zeros((height * cell, width * cell), dtype=np.float64)
    whole[: values.shape[0], : values.shape[1]] = values
    sums = whole.reshape(height, cell, width, cell).sum(axis=(1, 3))
    return np.pad(sums, margin).astype(np.float32)


def _running(grid: npt.NDArray[np.floating]) -> tuple[Grid, Grid]:
    """Running sums of the two marginals."""
    rows, columns = (np.cumsum(grid.sum(axis=1 - k, dtype=np.float64)) for k in (0, 1))
    return rows.astype(np.float32), columns.astype(np.float32)


def _apart(
    a: tuple[Grid, Grid], b: tuple[Grid, Grid], step: float, sides: tuple[int, ...]
) -> float:
    """Mean distance along the axes of draws from two distributions, from their running sums."""
    parts = zip(a, b, sides, strict=True)
    return sum(float((p * (1 - q) + q * (1 - p)).sum()) * step / side for p, q, side in parts)

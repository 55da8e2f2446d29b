"""Polygons as COCO fills them, to the pixel.

COCO's rule: corners are rounded on a grid five times as fine, sides are drawn there pixel by
pixel, and wherever a side passes the centre line of a column, the column's pixels below it
change sides. It differs from other fillers by a rim of pixels; the published annotations mean
this one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask

__all__ = ["fill"]

_FINE = 5
_FARTHEST = 1 << 17

Whole = npt.NDArray[np.int64]


def fill(polygon: Sequence[float], shape: tuple[int, int]) -> Mask:
    """The pixels of a polygon `x0, y0, x1, y1, ...` in a picture of `(H, W)`.

    >>> fill([1, 1, 4, 1, 4, 3, 1, 3], (4, 5)).dense().astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 1, 1, 1, 0],
           [0, 1, 1, 1, 0],
           [0, 0, 0, 0, 0]])
    """
    height, width = shape
    x, y = _walk(_corners(polygon))
    crossed = np.flatnonzero(x[1:] != x[:-1])
    # The step between two columns of the fine grid belongs to the left one of them.
    column = (np.minimum(x[crossed], x[crossed + 1]) + 0.5) / _FINE - 0.5
    row = (np.minimum(y[crossed], y[crossed + 1]) + 0.5) / _FINE - 0.5
    seen = (column == np.floor(column)) & (column >= 0) & (column <= width - 1)
    if not seen.any():
        return Mask.empty(shape)
    return _between(column[seen].astype(np.int64), np.ceil(np.clip(row[seen], 0, height)), shape)


def _between(column: Whole, row: npt.NDArray[np.float64], shape: tuple[int, int]) -> Mask:
    """Every column's pixels from its 1st crossing to its 2nd, its 3rd to its 4th, and so on.

    A closed line passes each column an even number of times, so the work is done in the
    box around the crossings.
    """
    top, left = int(row.min()), int(column.min())
    high, wide = int(row.max()) - top, int(column.max()) - left + 1
    places = (column - left) * (high + 1) + (row.astype(np.int64) - top)
    changes = np.bincount(places, minlength=wide * (high + 1)).reshape(wide, high + 1)
    inside = np.cumsum(changes[:, :high], axis=1) % 2 == 1
    return Mask.of(inside.T, (top, left), shape)


def _corners(polygon: Sequence[float]) -> Whole:
    """Corners on the fine grid, the first repeated at the end, as `(n + 1, 2)` of x, y."""
    try:
        flat = np.asarray(polygon, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput("a polygon is a list of numbers x, y, x, y, ...") from error
    if flat.ndim != 1 or flat.size < 4 or flat.size % 2:
        raise BadInput("a polygon is a list of at least two corners x, y, x, y, ...")
    if not (np.abs(flat) < _FARTHEST).all():
        raise BadInput("a polygon has a corner far outside any picture")
    # Toward zero, as a C cast rounds.
    fine = (flat.reshape(-1, 2) * _FINE + 0.5).astype(np.int64)
    return np.vstack([fine, fine[:1]])


def _walk(corners: Whole) -> tuple[Whole, Whole]:
    """All points of the sides on the fine grid, in order, ends of sides included twice.

    A side has a point a step along its longer extent, the other coordinate rounded at one
    half. It is computed from the smaller end on, so that it has the same points both ways.
    """
    start, end = corners[:-1], corners[1:]
    extent = np.abs(end - start)
    flat = extent[:, 0] >= extent[:, 1]
    steps = extent.max(axis=1)
    # Along the longer extent, and across it.
    along = np.where(flat[:, None], [0, 1], [1, 0])
    start, end = np.take_along_axis(start, along, 1), np.take_along_axis(end, along, 1)
    backward = start[:, 0] > end[:, 0]
    first, last = np.where(backward[:, None], (end, start), (start, end))
    slope = (last[:, 1] - first[:, 1]) / np.maximum(steps, 1)
    side = np.repeat(np.arange(steps.size), steps + 1)
    step = np.arange(side.size) - np.repeat(np.cumsum(steps + 1) - steps - 1, steps + 1)
    step = np.where(backward[side], steps[side] - step, step)
    long = first[side, 0] + step
    short = (first[side, 1] + slope[side] * step + 0.5).astype(np.int64)
    return np.where(flat[side], long, short), np.where(flat[side], short, long)

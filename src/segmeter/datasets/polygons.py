"""Polygons as COCO fills them, to the pixel.

COCO's rule: corners are rounded on a grid five times as fine, sides are drawn there pixel by
pixel, and wherever a side passes the centre line of a column, the column's pixels below it
change sides. It differs from other fillers by a rim of pixels; the published annotations mean
this one.

Only those passes are computed, a bounded number of sides at a time, and pixels only inside the
polygon's own box: what a file claims decides neither memory nor time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask

__all__ = ["fill", "fill_all"]

_FINE = 5
_CENTRE = 2  # the centre line of column c lies between 5 c + 2 and 5 c + 3
_FARTHEST = 1 << 17
_AT_ONCE = 1 << 18  # passes computed together
_MOST_PASSES = 1 << 23
_MOST_FILLED = 1 << 30

Whole = npt.NDArray[np.int64]
Real = npt.NDArray[np.float64]


def fill(polygon: Sequence[float], shape: tuple[int, int]) -> Mask:
    """The pixels of a polygon `x0, y0, x1, y1, ...` in an image of `(H, W)`.

    >>> fill([1, 1, 4, 1, 4, 3, 1, 3], (4, 5)).dense().astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 1, 1, 1, 0],
           [0, 1, 1, 1, 0],
           [0, 0, 0, 0, 0]])
    """
    start, end = _sides(_corners(polygon))
    columns = _columns(start, end, shape[1])
    passes = int((columns[:, 1] - columns[:, 0]).sum())
    if passes > _MOST_PASSES:
        raise BadInput(f"a polygon passes {passes} columns; at most {_MOST_PASSES} are filled")
    if passes == 0:
        return Mask.empty(shape)
    rows = np.clip(_row((np.minimum(start[:, 1], end[:, 1]), np.maximum(start[:, 1], end[:, 1]))),
                   0, shape[0])  # fmt: skip
    seen = columns[:, 1] > columns[:, 0]
    top, bottom = int(rows[0][seen].min()), int(rows[1][seen].max())
    left, right = int(columns[seen, 0].min()), int(columns[seen, 1].max())
    if bottom == top:
        return Mask.empty(shape)
    # Every column's pixels from its 1st pass to its 2nd, its 3rd to its 4th, and so on.
    turned = np.zeros((right - left, bottom - top + 1), dtype=bool)
    for column, row in _passes(start, end, columns):
        places = (column - left) * (bottom - top + 1) + (np.clip(row, top, bottom) - top)
        found, times = np.unique(places, return_counts=True)
        turned.reshape(-1)[found[times % 2 == 1]] ^= True
    inside = np.logical_xor.accumulate(turned[:, :-1], axis=1)
    return Mask.of(np.ascontiguousarray(inside.T), (top, left), shape)


def fill_all(polygons: Iterable[Sequence[float]], shape: tuple[int, int]) -> Mask:
    """The pixels of any of several polygons.

    >>> fill_all([[0, 0, 2, 0, 2, 2, 0, 2], [3, 0, 5, 0, 5, 2, 3, 2]], (4, 5)).area
    8
    """
    parts = list(polygons)
    boxes = [_box(_corners(polygon), shape) for polygon in parts]
    if sum(math.prod(high - low) for low, high in boxes) > _MOST_FILLED:
        raise BadInput("its polygons cover the image over and over")
    if len(parts) < 2:
        return fill(parts[0], shape) if parts else Mask.empty(shape)
    low = np.min([low for low, _ in boxes], axis=0)
    painted = np.zeros(np.max([high for _, high in boxes], axis=0) - low, dtype=bool)
    for polygon in parts:
        part = fill(polygon, shape)
        y, x = part.low - low if part else (0, 0)
        painted[y : y + part.bits.shape[0], x : x + part.bits.shape[1]] |= part.bits
    return Mask.of(painted, (int(low[0]), int(low[1])), shape)


def _box(corners: Whole, shape: tuple[int, int]) -> tuple[Whole, Whole]:
    """First pixel `(y, x)` of a box that holds the polygon, and one past the last."""
    low = np.clip(corners.min(axis=0)[::-1] // _FINE, 0, shape)
    return low, np.clip(corners.max(axis=0)[::-1] // _FINE + 2, low, shape)


def _corners(polygon: Sequence[float]) -> Whole:
    """Corners on the fine grid, the first repeated at the end, as `(n + 1, 2)` of x, y."""
    try:
        flat = np.asarray(polygon, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadInput("a polygon is a list of numbers x, y, x, y, ...") from error
    if flat.ndim != 1 or flat.size < 4 or flat.size % 2:
        raise BadInput("a polygon is a list of at least two corners x, y, x, y, ...")
    if not (np.abs(flat) < _FARTHEST).all():
        raise BadInput("a polygon has a corner far outside any image")
    # Toward zero, as a C cast rounds.
    fine = (flat.reshape(-1, 2) * _FINE + 0.5).astype(np.int64)
    return np.vstack([fine, fine[:1]])


def _sides(corners: Whole) -> tuple[Whole, Whole]:
    """Both ends of each side, the end with the smaller coordinate of the longer extent first.

    A side has a point per step along its longer extent, the other coordinate rounded at one
    half. It is computed from the smaller end on, so that it has the same points both ways.
    """
    start, end = corners[:-1], corners[1:]
    extent = np.abs(end - start)
    longer = np.where(extent[:, 0] >= extent[:, 1], 0, 1)[:, None]
    backward = np.take_along_axis(start, longer, 1) > np.take_along_axis(end, longer, 1)
    return np.where(backward, end, start), np.where(backward, start, end)


def _columns(start: Whole, end: Whole, width: int) -> Whole:
    """First column whose centre line a side passes, and one past the last, `(n, 2)`."""
    low, high = np.minimum(start[:, 0], end[:, 0]), np.maximum(start[:, 0], end[:, 0])
    first = np.maximum(-((_CENTRE - low) // _FINE), 0)
    beyond = np.minimum((high - _CENTRE - 1) // _FINE + 1, width)
    return np.stack([first, np.maximum(beyond, first)], axis=1)


def _row(fine: Any) -> Any:
    """The first pixel below a place of the fine grid."""
    return np.ceil((np.asarray(fine) + 0.5) / _FINE - 0.5).astype(np.int64)


def _passes(start: Whole, end: Whole, columns: Whole) -> Iterator[tuple[Whole, Whole]]:
    """Columns that sides pass, and the first row below each pass, some sides at a time."""
    many = columns[:, 1] - columns[:, 0]
    kept = many > 0
    start, end, first, many = start[kept], end[kept], columns[kept, 0], many[kept]
    batch = (np.cumsum(many) - 1) // _AT_ONCE
    edges = np.flatnonzero(np.diff(batch, prepend=-1, append=-1))
    for low, high in pairwise(edges.tolist()):
        side = np.repeat(np.arange(low, high), many[low:high])
        before = np.cumsum(many[low:high]) - many[low:high]
        column = np.arange(side.size) - np.repeat(before, many[low:high]) + first[side]
        yield column, _row(_height(start[side], end[side], column * _FINE + _CENTRE))


def _height(start: Whole, end: Whole, x: Whole) -> Whole:
    """The upper of a side's two points at `x` and `x + 1` on the fine grid."""
    extent = np.abs(end - start)
    flat = extent[:, 0] >= extent[:, 1]
    steps = np.maximum(extent.max(axis=1), 1)
    rise = np.where(flat, end[:, 1] - start[:, 1], end[:, 0] - start[:, 0]) / steps
    along_x = _at(start[:, 1], rise, x - start[:, 0])
    flat_height = np.minimum(along_x, _at(start[:, 1], rise, x + 1 - start[:, 0]))
    return np.where(flat, flat_height, start[:, 1] + _step_before(start[:, 0], rise, x))


def _at(first: Whole, slope: Real, step: Whole) -> Whole:
    """The shorter extent's coordinate after some steps, rounded at one half."""
    return np.asarray((first + slope * step + 0.5).astype(np.int64))


def _step_before(first: Whole, slope: Real, x: Whole) -> Whole:
    """The last step of a steep side on one side of the line between `x` and `x + 1`.

    Solved for the step, then moved to where the rounded coordinate itself changes.
    """
    safe = np.where(slope == 0, 1.0, slope)
    step = np.floor((x + 0.5 - first) / safe).astype(np.int64) - 2
    for _ in range(4):
        after = _at(first, slope, step + 1)
        step += np.where(slope > 0, after <= x, after > x)
    return step

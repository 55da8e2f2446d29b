"""Non-maximum suppression: of masks that overlap too much the better one stays.

Candidates are taken by score, the highest first, ties in the order given; each removes the
later ones that overlap it by more than the threshold.

`published` compares boxes in single precision and takes the last pixel for the box's end, so
a mask one pixel wide has a box without area and is never removed; at 0.3, 0.6 and 0.8 an
overlap of exactly the threshold is above it. `corrected` counts pixels in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.kernels import compiled

__all__ = ["plain_suppress_boxes", "suppress_boxes", "suppress_masks"]

Boxes = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]
Overlaps = Callable[[int, Places], npt.NDArray[np.float64]]


def suppress_boxes(
    boxes: npt.ArrayLike,
    scores: npt.ArrayLike,
    threshold: float,
    protocol: ProtocolName = "published",
) -> Places:
    """Indices of the boxes that stay, best first.

    Parameters
    ----------
    boxes
        `(n, 4)`: first and last column and row, `x0 y0 x1 y1`, both inside.

    Examples
    --------
    >>> suppress_boxes([[0, 0, 10, 10], [1, 0, 11, 10], [30, 0, 40, 10]], [.5, .9, .1], 0.7)
    array([1, 2])
    """
    dtype = np.float32 if protocol == "published" else np.float64
    corners: npt.NDArray[Any] = np.asarray(boxes, dtype=dtype).reshape(-1, 4)
    if protocol == "corrected":
        corners = corners + np.array([0, 0, 1, 1])
    order = _ranked(scores)
    if compiled is None:
        return plain_suppress_boxes(corners, order, threshold)
    kept = compiled.suppress_boxes(np.ascontiguousarray(corners), order, threshold)
    return np.asarray(kept, dtype=np.intp)


def plain_suppress_boxes(
    corners: npt.NDArray[Any], order: npt.NDArray[np.int64], threshold: float
) -> Places:
    """Plain twin of the kernel; rounds in the precision of the corners."""
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])

    def overlaps(one: int, others: Places) -> npt.NDArray[np.float64]:
        low = np.maximum(corners[one, :2], corners[others, :2])
        high = np.minimum(corners[one, 2:], corners[others, 2:])
        shared = np.maximum(high - low, 0).prod(axis=1, dtype=corners.dtype)
        with np.errstate(invalid="ignore"):
            return np.asarray(shared / (areas[one] + areas[others] - shared), dtype=np.float64)

    return _greedy(order, overlaps, threshold)


def suppress_masks(masks: Sequence[Mask], scores: npt.ArrayLike, threshold: float) -> Places:
    """Indices of the masks that stay, best first, by the overlap of the masks themselves.

    A ring and the disc inside it have one box; here both stay.
    """

    def overlaps(one: int, others: Places) -> npt.NDArray[np.float64]:
        first = masks[one]
        shared = np.array([first.overlap(masks[i]) for i in others], dtype=np.float64)
        union = first.area + np.array([masks[i].area for i in others]) - shared
        return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)

    return _greedy(_ranked(scores), overlaps, threshold)


def _ranked(scores: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The highest score first, ties in the order given."""
    known: Scores = np.asarray(scores, dtype=np.float32)
    if np.isnan(known).any():
        raise BadInput("a mask whose score is not a number cannot be ranked")
    return np.argsort(-known, kind="stable").astype(np.int64)


def _greedy(left: npt.NDArray[np.int64], overlaps: Overlaps, threshold: float) -> Places:
    kept: list[int] = []
    while left.size:
        best, left = int(left[0]), left[1:]
        kept.append(best)
        # No number (0 / 0) is not above the threshold: both stay.
        left = left[~(overlaps(best, left) > threshold)]
    return np.array(kept, dtype=np.intp)

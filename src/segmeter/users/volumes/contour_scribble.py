"""Contour scribbles: a stroke along the outline of the target where the mask went over it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.connected_components import largest_component
from segmeter.core.masks import Bits, Mask

__all__ = ["ContourScribble", "contour_scribble"]

Pixel = tuple[int, int]

_DILATION_PX = 2
_LENGTH_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class ContourScribble:
    """A stroke of connected pixels, in raster order and in the order of drawing."""

    pixels: tuple[Pixel, ...]
    drawn: tuple[Pixel, ...]


def contour_scribble(ground_truth: Bits, prediction: Bits, start: float) -> ContourScribble | None:
    """A stroke along the outline of a plane's dilated ground truth, starting on the prediction.

    The outline, dilated by 2 pixels, is cut at six tenths of its length around a point that
    lies on the prediction; of what that makes the largest connected part stays, the first in
    raster order on a tie. None where no point of the outline lies on the prediction.

    Parameters
    ----------
    ground truth, prediction
        One plane `(rows, columns)` of target and mask, whole.
    start
        In [0, 1): which of the possible points is the middle of the stroke.
    """
    outline = _outline(ground_truth)
    on_prediction = np.flatnonzero(prediction[outline[:, 0], outline[:, 1]]) if len(outline) else ()
    if len(on_prediction) == 0:
        return None
    middle = int(on_prediction[int(start * len(on_prediction))])
    length = round(_LENGTH_SHARE * len(outline))
    first = middle - length // 2
    stroke = outline[np.arange(first, first + length) % len(outline)]
    drawn = np.zeros(ground_truth.shape, dtype=bool)
    drawn[stroke[:, 0], stroke[:, 1]] = True
    kept = largest_component(Mask.of(drawn), tie="first")
    pixels = np.argwhere(kept.bits) + kept.low
    return ContourScribble(
        tuple((int(y), int(x)) for y, x in pixels),
        tuple(dict.fromkeys((int(y), int(x)) for y, x in stroke if kept[y, x])),
    )


def _outline(ground_truth: Bits) -> npt.NDArray[np.int64]:
    """Pixels along the contours of the dilated ground truth, one contour after the other.

    A plane of one row or column has none: nothing can be drawn around what fills it.
    """
    import cv2
    from skimage.measure import find_contours

    if min(ground_truth.shape) < 2:
        return np.zeros((0, 2), dtype=np.int64)
    radius = _DILATION_PX
    y, x = np.ogrid[-radius : radius + 1, -radius : radius + 1]
    disk = (y * y + x * x <= radius * radius).astype(np.uint8)
    grown = cv2.dilate(ground_truth.astype(np.uint8), disk)
    found: list[npt.NDArray[np.float64]] = find_contours(  # type: ignore[no-untyped-call]
        grown.astype(float), 0.5, fully_connected="low"
    )  # skimage ships no types
    if not found:
        return np.zeros((0, 2), dtype=np.int64)
    return np.asarray(np.rint(np.concatenate(found)), dtype=np.int64)

"""Bands along outlines, whose IoU is Boundary IoU."""

from __future__ import annotations

import math

import cv2
import numpy as np

from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits, Mask
from segmeter.core.measures import measure
from segmeter.kernels import compiled
from segmeter.measures.references import REFERENCES

__all__ = ["band", "band_reach", "boundary_iou"]


@measure(
    "boundary-iou", both_empty=1.0, one_empty=0.0, cite=REFERENCES["cheng2021"], dimensions=(2,)
)
def boundary_iou(ground_truth: Mask, prediction: Mask, ignore: Mask | None = None) -> float:
    """IoU of the two bands of pixels near each mask's own outline.

    A band holds the pixels within 2 % of the image's diagonal of the outside. It is
    taken before pixels are ignored, so the edge towards an ignored band counts. Where all of
    both bands is ignored, the bands of what is judged are compared instead.

    >>> square = Mask.box((50, 50), (10, 10), (40, 40))
    >>> boundary_iou(square, square)
    1.0
    """
    if len(ground_truth.shape) != 2:
        raise BadInput("boundary IoU compares masks of images; nsd and hd95 compare volumes")
    reach = band_reach(ground_truth.shape)
    ours, theirs = band(ground_truth, reach), band(prediction, reach)
    if ignore is not None:
        ours, theirs = ours - ignore, theirs - ignore
    if not ours and not theirs and ignore is not None:
        ours, theirs = (band(mask - ignore, reach) for mask in (ground_truth, prediction))
    both = ours.overlap(theirs)
    return both / (ours.area + theirs.area - both)


def band_reach(shape: tuple[int, ...]) -> int:
    """2 % of the diagonal in whole pixels, halves to even, at least one.

    >>> band_reach((480, 640))
    16
    """
    return max(1, round(0.02 * math.hypot(*shape)))


def band(mask: Mask, reach: int) -> Mask:
    """The mask's pixels within `reach` (chessboard) of the outside; kept with the mask.

    >>> band(Mask.box((9, 9), (1, 1), (8, 8)), 1).area
    24
    """
    return mask.derived(("band", reach), lambda: _band(mask, reach))


def _band(mask: Mask, reach: int) -> Mask:
    if not mask:
        return mask
    # The box is tight and the band holds every outermost pixel: no new box to find.
    find = _plain_band if compiled is None else compiled.band
    return Mask(mask.shape, mask.low, find(mask.bits, reach))


def _plain_band(bits: Bits, reach: int) -> Bits:
    """The pixels removed by an erosion with a square of side `2 reach + 1`."""
    square = np.ones((2 * reach + 1,) * 2, dtype=np.uint8)
    inner = cv2.erode(
        bits.view(np.uint8), square, borderType=cv2.BORDER_CONSTANT, borderValue=(0.0,)
    )
    outer: Bits = bits & ~inner.astype(bool)
    return outer

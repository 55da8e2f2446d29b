"""Region measures of one object: how much of it the prediction holds.

All take `(ground_truth, prediction)` and, where the data has pixels that are not judged, `ignore`.
"""

from __future__ import annotations

import math

import numpy as np

from segmeter.core.masks import Bits, Mask
from segmeter.core.measures import measure
from segmeter.kernels import compiled


@measure("iou", both_empty=1.0, one_empty=0.0, cite="jaccard1912")
def iou(ground_truth: Mask, prediction: Mask, ignore: Mask | None = None) -> float:
    """Intersection over union (Jaccard index, J).

    >>> iou(Mask.box((4, 4), (0, 0), (2, 4)), Mask.box((4, 4), (1, 0), (3, 4)))
    0.333...
    """
    both, ground_truths, predictions = _areas(ground_truth, prediction, ignore)
    return both / (ground_truths + predictions - both)


@measure("dice", both_empty=1.0, one_empty=0.0, cite="dice1945")
def dice(ground_truth: Mask, prediction: Mask, ignore: Mask | None = None) -> float:
    """Twice the shared pixels over the pixels of both (F of precision and recall).

    >>> dice(Mask.box((4, 4), (0, 0), (2, 4)), Mask.box((4, 4), (1, 0), (2, 4)))
    0.6666666666666666
    """
    both, ground_truths, predictions = _areas(ground_truth, prediction, ignore)
    return 2 * both / (ground_truths + predictions)


@measure("precision", both_empty=1.0, one_empty=0.0)
def precision(ground_truth: Mask, prediction: Mask, ignore: Mask | None = None) -> float:
    """Share of the prediction that is right.

    >>> precision(Mask.box((4, 4), (0, 0), (2, 4)), Mask.box((4, 4), (1, 0), (2, 4)))
    1.0
    """
    both, _, predictions = _areas(ground_truth, prediction, ignore)
    return both / predictions


@measure("recall", both_empty=1.0, one_empty=0.0)
def recall(ground_truth: Mask, prediction: Mask, ignore: Mask | None = None) -> float:
    """Share of the ground truth that was found.

    >>> recall(Mask.box((4, 4), (0, 0), (2, 4)), Mask.box((4, 4), (1, 0), (2, 4)))
    0.5
    """
    both, ground_truths, _ = _areas(ground_truth, prediction, ignore)
    return both / ground_truths


def _areas(ground_truth: Mask, prediction: Mask, ignore: Mask | None) -> tuple[int, int, int]:
    """Judged pixels of both together, of the ground truth and of the prediction."""
    if ignore is not None:
        ground_truth, prediction = ground_truth - ignore, prediction - ignore
    return ground_truth.overlap(prediction), ground_truth.area, prediction.area


@measure("boundary-iou", both_empty=1.0, one_empty=0.0, cite="cheng2021", dimensions=(2,))
def boundary_iou(ground_truth: Mask, prediction: Mask, ignore: Mask | None = None) -> float:
    """IoU of the two bands of pixels near each mask's own outline.

    A band holds the pixels within 2 % of the image's diagonal of the outside. It is
    taken before pixels are ignored, so the edge towards an ignored band counts. Where all of
    both bands is ignored, the bands of what is judged are compared instead.

    >>> square = Mask.box((50, 50), (10, 10), (40, 40))
    >>> boundary_iou(square, square)
    1.0
    """
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
    """The mask's pixels within `reach` (chessboard) of the outside; cached with the mask.

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
    import cv2

    square = np.ones((2 * reach + 1,) * 2, dtype=np.uint8)
    inner = cv2.erode(
        bits.view(np.uint8), square, borderType=cv2.BORDER_CONSTANT, borderValue=(0.0,)
    )
    outer: Bits = bits & ~inner.astype(bool)
    return outer

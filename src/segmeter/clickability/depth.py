"""Depth: how far each pixel of a region lies from its edge, in the same bits every time."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

__all__ = ["depth_px"]


def depth_px(inside: npt.NDArray[np.bool_] | npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Distance in pixels from every pixel of a region to the nearest one outside, `(H, W)`.

    OpenCV's own roots differ in their last bit from call to call, by where in state a row
    begins; a square of a distance is a whole number, and its root is the same always.

    >>> depth_px(np.array([[0, 0, 0], [0, 1, 1], [0, 1, 1]], np.uint8))[2].tolist()
    [0.0, 1.0, 2.0]
    """
    roots = cv2.distanceTransform(inside.view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    squared = np.rint(np.square(roots, dtype=np.float64))
    return np.sqrt(squared, out=squared).astype(np.float32)

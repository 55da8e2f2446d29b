"""Outlines: masks as SVG paths, no finer than the eye can see on the page."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask
from segmeter.report.elements import path

__all__ = ["outline_path"]

_LONGEST_PATH = 5000  # characters; beyond, the outline is drawn coarser


def outline_path(mask: Mask, scale: float) -> str:
    """The mask's border in scene coordinates; holes are parts of the path (even-odd fill).

    `scale` is page pixels per scene pixel: detail below half a page pixel is dropped.
    """
    if not mask:
        return ""
    contours = _contours(mask, scale)
    tolerance = 0.4 / scale
    path = _joined(contours, tolerance)
    while len(path) > _LONGEST_PATH and tolerance * scale < 8:
        tolerance *= 1.7
        path = _joined(contours, tolerance)
    return path


def _contours(mask: Mask, scale: float) -> list[npt.NDArray[np.float64]]:
    """Closed polygons along pixel borders, traced at twice the page's resolution."""
    import cv2

    height, width = mask.bits.shape
    factor = min(2.0 * scale, 4.0)
    size = max(1, round(width * factor)), max(1, round(height * factor))
    kind = cv2.INTER_NEAREST if factor >= 1 else cv2.INTER_AREA
    drawn = cv2.resize(mask.bits.astype(np.uint8) * 255, size, interpolation=kind) > 127
    padded = np.pad(drawn.astype(np.uint8), 1)
    traced, _ = cv2.findContours(padded, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    step = np.array([width / size[0], height / size[1]])
    low = np.array(mask.low[::-1], dtype=float)
    # Traced through pixel centres of the padded drawing: back to its borders' frame.
    return [(c[:, 0, :].astype(float) - 0.5) * step + low for c in traced]


def _joined(contours: list[npt.NDArray[np.float64]], tolerance: float) -> str:
    import cv2

    pieces = []
    for contour in contours:
        points = cv2.approxPolyDP(contour.astype(np.float32)[:, None], tolerance, True)[:, 0]
        if len(points) >= 3 or len(contours) == 1:
            pieces.append(path(points, closed=True))
    return "".join(pieces)

"""Augmentation of training samples: mirrored; in the corrected recipe colour and scale too."""

from __future__ import annotations

import math

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.clickability.letterbox import Letterbox
from segmeter.core.models import ProtocolName

__all__ = ["varied"]

Floats = npt.NDArray[np.float32]
_COLOURS = 3
_ERROR_REGION = 4
_SMALLEST, _LARGEST = 0.75, 1.5
# In deviations of the normalised colours.
_BRIGHTER, _TINT = 0.4, 0.15


def varied(
    planes: Floats, box: Letterbox, rng: np.random.Generator, protocol: ProtocolName = "corrected"
) -> Floats:
    """Planes `(7, F, F)` as another photographer might have taken them."""
    if protocol == "corrected":
        planes = _scaled(_coloured(planes, box, rng), rng)
    if rng.random() < 0.5:
        planes = planes[..., ::-1]
    return np.ascontiguousarray(planes)


def _coloured(planes: Floats, box: Letterbox, rng: np.random.Generator) -> Floats:
    """Contrast, brightness, tint and saturation of the image; padding stays as it is."""
    (y, x), (height, width) = box.low, box.size
    inside = (slice(0, _COLOURS), slice(y, y + height), slice(x, x + width))
    colours = planes[inside]
    grey = colours.mean(axis=0, keepdims=True)
    colours = grey + (colours - grey) * rng.uniform(0.5, 1.5)
    colours = colours * rng.uniform(0.7, 1.4) + rng.uniform(-_BRIGHTER, _BRIGHTER)
    planes = planes.copy()
    planes[inside] = colours + rng.uniform(-_TINT, _TINT, (_COLOURS, 1, 1))
    return planes


def _scaled(planes: Floats, rng: np.random.Generator) -> Floats:
    """Larger or smaller and moved, with the error region still inside the frame."""
    frame = planes.shape[-1]
    filled = planes[_ERROR_REGION] > 0.5
    ends = [np.flatnonzero(filled.any(axis=1 - k)) for k in (0, 1)]
    if not ends[0].size:
        return planes
    low = np.array([e[0] for e in ends], dtype=float)
    high = np.array([e[-1] + 1 for e in ends], dtype=float)
    most = max(_SMALLEST, min(_LARGEST, 0.95 * frame / float((high - low).max())))
    scale = math.exp(rng.uniform(math.log(_SMALLEST), math.log(most)))
    # The frame's middle stays about where it is, unless the error region would leave.
    shift = frame / 2 * (1 - scale) + rng.uniform(-0.1, 0.1, 2) * frame
    shift = np.clip(shift, -scale * low, frame - scale * high)
    way = np.array([[scale, 0, shift[1]], [0, scale, shift[0]]])
    flags = cv2.INTER_LINEAR
    moved = [cv2.warpAffine(plane, way, (frame, frame), flags=flags) for plane in planes]
    return np.stack(moved)

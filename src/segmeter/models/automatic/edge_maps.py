"""Edges from automatic masks: where the probability of some mask changes fastest.

Segment Anything's zero-shot edges: every mask's probability is differentiated (Sobel), only
the mask's outer boundary counts, and the strongest mask wins at each pixel.

`published` follows the public reproduction: zeros around the image, so the frame is an edge
wherever a mask touches it; a boundary two pixels wide; the map stretched from its lowest to
its highest value. `corrected` repeats the outermost pixels, takes the pixels just outside the mask,
and keeps the gradient of the mask that won, which tells the direction across the edge: on a
crest the map's own gradient vanishes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Bits
from segmeter.core.models import ProtocolName

__all__ = ["EdgeMap", "edge_map", "outer_boundary", "probability_gradient", "stretched"]

Single = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EdgeMap:
    """Strength of edges `(H, W)`, and the gradient of the mask that is strongest at each pixel.

    `winner` is that mask's place in the list; the first one of equal masks.
    """

    strength: Single
    down: Single
    across: Single
    winner: npt.NDArray[np.int32]


def edge_map(
    maps: Iterable[Single],
    shape: tuple[int, int],
    protocol: ProtocolName = "published",
    threshold: float = 0.0,
    frame_px: int = 0,
) -> EdgeMap:
    """The strongest edge of many masks at each pixel, not yet stretched to 0..1.

    Parameters
    ----------
    maps
        Each mask's logits `(H, W)`.
    frame_px
        A band around the image that is set to zero.
    """
    strength, down, across = (np.zeros(shape, dtype=np.float32) for _ in range(3))
    winner = np.zeros(shape, dtype=np.int32)
    for place, logits in enumerate(maps):
        dy, dx = probability_gradient(logits, protocol)
        rise = np.sqrt(dx * dx + dy * dy) * outer_boundary(logits > threshold, protocol)
        if frame_px:
            rise[:frame_px] = rise[-frame_px:] = 0
            rise[:, :frame_px] = rise[:, -frame_px:] = 0
        better = rise > strength if place else np.ones(shape, dtype=bool)
        for kept, new in ((strength, rise), (down, dy), (across, dx)):
            np.copyto(kept, new, where=better)
        winner[better] = place
    return EdgeMap(strength, down, across, winner)


def probability_gradient(logits: Single, protocol: ProtocolName) -> tuple[Single, Single]:
    """Derivatives of the probability along y and x, by Sobel's unnormalised 3 x 3 filters."""
    from scipy.special import expit

    return _sobel(np.asarray(expit(logits), dtype=np.float32), protocol)


def outer_boundary(bits: Bits, protocol: ProtocolName) -> Bits:
    """Pixels where a mask's edge may lie."""
    import cv2

    if protocol == "published":
        dy, dx = _sobel(bits.astype(np.float32), protocol)
        return np.asarray((dx != 0) | (dy != 0))
    grown = cv2.dilate(bits.astype(np.uint8), np.ones((3, 3), np.uint8))
    return np.asarray((grown > 0) & ~bits)


def stretched(strength: Single, protocol: ProtocolName = "published") -> Single:
    """A map in 0..1: from its lowest to its highest value, or (`corrected`) by its highest alone.

    A map of one value only has no number in it as published, and stays as it is when corrected.
    """
    if protocol == "corrected":
        most = strength.max(initial=0)
        return strength / most if most > 0 else strength
    low, high = strength.min(), strength.max()
    with np.errstate(invalid="ignore"):
        return np.asarray((strength - low) / (high - low), dtype=np.float32)


def _sobel(values: Single, protocol: ProtocolName) -> tuple[Single, Single]:
    import cv2

    border = cv2.BORDER_CONSTANT if protocol == "published" else cv2.BORDER_REPLICATE

    def along(dx: int, dy: int) -> Any:
        return cv2.Sobel(values, cv2.CV_32F, dx, dy, ksize=3, borderType=border)

    return along(0, 1), along(1, 0)

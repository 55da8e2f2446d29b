"""Clickability maps: how likely each pixel of an error region is to be clicked.

A map keeps weights only inside the box of the error region; they need not sum to one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.scenes import Scene, Target


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


Weights = npt.NDArray[np.float32]

# People's dots are blurred by this many pixels on a full-HD image, less on smaller ones.
SIGMA = 5.0
_FULL_HD = math.hypot(1920, 1080)


@dataclass(frozen=True, slots=True)
class ClickabilityMap:
    """Weights of the pixels in a box of a scene."""

    shape: tuple[int, int]  # of the whole scene
    low: tuple[int, int]  # first pixel of the box
    weights: Weights  # the box's content, not negative

    @classmethod
    def of(cls, values: npt.NDArray[np.floating]) -> ClickabilityMap:
        """A map of a whole image."""
        if values.ndim != 2 or not np.isfinite(values).all() or (values < 0).any():
            raise BadInput("a clickability map is H x W of finite numbers, none below zero")
        height, width = values.shape
        return cls((height, width), (0, 0), np.ascontiguousarray(values, dtype=np.float32))

    def dense(self) -> Weights:
        """The whole scene's weights."""
        whole = np.zeros(self.shape, dtype=np.float32)
        rows, columns = self.weights.shape
        whole[self.low[0] : self.low[0] + rows, self.low[1] : self.low[1] + columns] = self.weights
        return whole

    def on(self, error_region: Mask) -> ClickabilityMap:
        """The part of the map that lies on an error region, in the error region's box."""
        low = (error_region.low[0], error_region.low[1])
        same = (self.low, self.weights.shape) == (low, error_region.bits.shape)
        weights = self.weights if same else self.dense()[error_region.window]
        return ClickabilityMap(self.shape, low, weights * error_region.bits)

    def without(self, points: Iterable[Sequence[float]]) -> ClickabilityMap:
        """The map with the given pixels set to zero, so that no pixel is clicked twice."""
        weights = None
        for point in points:
            y, x = (round(p) - a for p, a in zip(point, self.low, strict=True))
            if 0 <= y < self.weights.shape[0] and 0 <= x < self.weights.shape[1]:
                weights = self.weights.copy() if weights is None else weights
                weights[y, x] = 0
        return self if weights is None else ClickabilityMap(self.shape, self.low, weights)


@dataclass(frozen=True, slots=True)
class ClickRegion:
    """An error region that is to be clicked; `first` when nothing was segmented yet."""

    scene: Scene
    target: Target
    mask: Mask
    first: bool
    protocol: ProtocolName


ClickSource = Callable[[ClickRegion], ClickabilityMap]
"""Gives the map of where people would click."""


def uniform(error_region: Mask) -> ClickabilityMap:
    """Every wrong pixel alike (UD)."""
    return _over(error_region, error_region.bits.astype(np.float32))


def distance(error_region: Mask, protocol: ProtocolName = "corrected") -> ClickabilityMap:
    """Depth as weight (DT), largest 1.

    `published` does not count the image's border as an edge of the error region; `corrected` does.
    """
    if not error_region:
        return uniform(error_region)
    # Outside the box there is nothing of the error region, except where the image ends.
    corrected, bits = protocol == "corrected", error_region.bits
    ends = zip(error_region.low, error_region.high, error_region.shape, strict=True)
    ring = [(int(corrected or low > 0), int(corrected or high < n)) for low, high, n in ends]
    inside = tuple(slice(a, a + n) for (a, _), n in zip(ring, bits.shape, strict=True))
    inner = depth_px(np.pad(bits.view(np.uint8), ring))[inside]
    return _over(error_region, np.ascontiguousarray(inner / inner.max()))


def from_clicks(
    clicks: npt.ArrayLike,
    error_region: npt.NDArray[np.floating] | Mask,
    sigma: float = SIGMA,
    protocol: ProtocolName = "published",
) -> ClickabilityMap:
    """A map from real clicks `(y, x)`: blurred dots on a softened error region.

    `published` does what the authors' code does: the error region's edge is softened by 0.7 % of
    the diagonal, cut to whole pixels, and the result is left with its largest value near 1;
    `corrected` does what the paper says: 1 % of the diagonal, and a sum of 1.
    """
    soft = soft_error_region(error_region, protocol)
    values = soft * blurred_clicks(clicks, (soft.shape[0], soft.shape[1]), sigma)
    if protocol == "corrected":
        values /= values.sum()
    return ClickabilityMap.of(values)


def blurred_clicks(clicks: npt.ArrayLike, shape: tuple[int, int], sigma: float = SIGMA) -> Weights:
    """Clicks as blurred dots, largest 1; clicks outside are moved to the border."""
    points = np.asarray(clicks, dtype=np.int64).reshape(-1, 2)
    if not len(points):
        raise BadInput("a clickability map needs at least one click")
    radius = sigma * math.hypot(*shape) / _FULL_HD
    y, x = (np.clip(points[:, k], 0, shape[k] - 1) for k in (0, 1))
    dots = np.zeros(shape, dtype=np.float32)
    np.add.at(dots, (y, x), np.float32(255 * 2 * math.pi * radius**2 / len(points)))
    side = math.ceil(7 * radius)
    side += 1 - side % 2
    border = cv2.BORDER_CONSTANT
    blurred = cv2.GaussianBlur(dots, (side, side), radius, sigmaY=radius, borderType=border)
    return np.asarray(blurred / blurred.max(), dtype=np.float32)


def soft_error_region(
    error_region: npt.NDArray[np.floating] | Mask, protocol: ProtocolName
) -> Weights:
    """The error region with a softened edge, since people miss by a little."""
    from scipy import ndimage

    hard = error_region.dense() if isinstance(error_region, Mask) else error_region
    diagonal = math.hypot(*hard.shape)
    radius = (
        0.01 * diagonal if protocol == "corrected" else int(5 * diagonal / (500 * math.sqrt(2)))
    )
    if not radius:
        return hard.astype(np.float32)
    return np.asarray(ndimage.gaussian_filter(hard.astype(np.float32), radius), dtype=np.float32)


def _over(error_region: Mask, weights: Weights) -> ClickabilityMap:
    shape, low = error_region.shape, error_region.low
    return ClickabilityMap((shape[0], shape[1]), (low[0], low[1]), weights)

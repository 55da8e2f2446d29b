"""Clickability maps: how likely each pixel of an error region is to be clicked.

A map keeps weights only inside the box of the error region; they need not sum to one.

The click prior predicts where people click from the shape of the error region alone:

    p(pixel) ~ depth^a * exp(-r^2 / 2 s^2), and a share of the clicks jitters

Depth is the distance to the error region's edge, r the distance to the middle of its box in units
of the box's sides. The jittering share is moved by a Gaussian in units of the image's
diagonal, so that some clicks leak over the edge, at most 1 % of the diagonal far: people
whose clicks fell farther away were not counted. Numbers and their intervals come from
the statistics of 475 544 real clicks; `docs/clickability.md` describes the fit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits, Mask
from segmeter.core.models import ProtocolName
from segmeter.core.scenes import Scene, Target
from segmeter.kernels import compiled

Weights = npt.NDArray[np.float32]
# People's dots are blurred by this many pixels on a full-HD image, less on smaller ones.
SIGMA = 5.0
_FULL_HD = math.hypot(1920, 1080)
Round = Literal["first", "later"]
# A click counts if it misses the object by at most this share of the image's diagonal.
REACH = 0.01
_LEAST_JITTER = 0.1  # pixels


def depth_px(inside: npt.NDArray[np.bool_] | npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Distance in pixels from every pixel of a region to the nearest one outside, `(H, W)`.

    OpenCV's own roots differ in their last bit from call to call, by where in memory a row
    begins; the square of a distance is a whole number, whose root is always the same.

    >>> depth_px(np.array([[0, 0, 0], [0, 1, 1], [0, 1, 1]], np.uint8))[2].tolist()
    [0.0, 1.0, 2.0]
    """
    roots = cv2.distanceTransform(inside.view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    squared = np.rint(np.square(roots, dtype=np.float64))
    return np.sqrt(squared, out=squared).astype(np.float32)


@dataclass(frozen=True, slots=True)
class ClickabilityMap:
    """Weights of the pixels in a box of a scene."""

    shape: tuple[int, int]  # of the whole scene
    low: tuple[int, int]  # first pixel of the box
    weights: Weights  # the box's content, not negative

    @classmethod
    def of(cls, values: npt.NDArray[np.floating]) -> ClickabilityMap:
        if values.ndim != 2 or not np.isfinite(values).all() or (values < 0).any():
            raise BadInput("a clickability map is H x W of finite numbers, none below zero")
        height, width = values.shape
        return cls((height, width), (0, 0), np.ascontiguousarray(values, dtype=np.float32))

    def dense(self) -> Weights:
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
    """Uniform over wrong pixels (UD)."""
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
    `corrected` follows the paper: 1 % of the diagonal, and a sum of 1.
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
    published = int(5 * diagonal / (500 * math.sqrt(2)))
    radius = 0.01 * diagonal if protocol == "corrected" else published
    if not radius:
        return hard.astype(np.float32)
    return np.asarray(ndimage.gaussian_filter(hard.astype(np.float32), radius), dtype=np.float32)


def _over(error_region: Mask, weights: Weights) -> ClickabilityMap:
    shape, low = error_region.shape, error_region.low
    return ClickabilityMap((shape[0], shape[1]), (low[0], low[1]), weights)


@dataclass(frozen=True, slots=True)
class Numbers:
    depth: float  # exponent of depth
    spread: float  # standard deviation of the pull to the box's middle, in box sides
    sloppy: float  # share of clicks that jitter
    jitter: float  # standard deviation of the jitter, in image diagonals


def prior(
    error_region: Mask, numbers: Numbers | None = None, round: Round = "first"
) -> ClickabilityMap:
    """Click density of people who correct an error region; the box grows by clicks that miss it.

    >>> map = prior(Mask.box((100, 100), (20, 30), (60, 90)))
    >>> [int(i) for i in np.unravel_index(map.dense().argmax(), map.shape)]
    [39, 59]
    """
    found = numbers or shipped(round)
    if not error_region:
        return _over(error_region, np.zeros((0, 0), np.float32))
    diagonal = math.hypot(*error_region.shape)
    margin, shape = math.ceil(REACH * diagonal), error_region.shape
    low = tuple(max(0, a - margin) for a in error_region.low)
    high = tuple(min(n, b + margin) for b, n in zip(error_region.high, shape, strict=True))
    inside = error_region.crop(low, high)
    weights = steady(inside, found)
    if found.sloppy > 0:
        loose = jittered(weights, inside, found.jitter * diagonal, REACH * diagonal)
        mixed = cv2.addWeighted(weights, 1 - found.sloppy, loose, found.sloppy, 0.0)
        weights = np.asarray(mixed, dtype=np.float32)
    return ClickabilityMap((shape[0], shape[1]), (low[0], low[1]), weights)


def prior_on(
    error_region: Mask, numbers: Numbers | None = None, round: Round = "first"
) -> ClickabilityMap:
    """The part of the prior that lies on the error region: `prior(error_region).on(error_region)`.

    Nothing is computed outside the error region: thin slivers cost a twentieth (perf/prior.py).
    """
    found = numbers or shipped(round)
    if compiled is None or not error_region:
        return prior(error_region, found).on(error_region)
    (top, left), (height, width) = error_region.low, error_region.shape
    numbers_px = kernel_numbers(found, (height, width))
    weights = compiled.prior_on(error_region.bits, (top, left, height, width), numbers_px)
    return ClickabilityMap((height, width), (top, left), weights)


@lru_cache(maxsize=64)
def kernel_numbers(numbers: Numbers, shape: tuple[int, int]) -> tuple[Any, ...]:
    """The numbers as the kernels take them: lengths in pixels, the Gaussian's taps."""
    diagonal = math.hypot(*shape)
    sigma = numbers.jitter * diagonal
    taps = np.zeros(0, dtype=np.float32)
    if sigma >= _LEAST_JITTER:
        # As wide as cv2.GaussianBlur makes it for float32.
        side = int(np.rint(8 * sigma + 1)) | 1
        taps = cv2.getGaussianKernel(side, sigma, cv2.CV_32F).ravel().astype(np.float32)
    return numbers.depth, numbers.spread, numbers.sloppy, taps, REACH * diagonal


def steady(inside: Bits, numbers: Numbers) -> npt.NDArray[np.float32]:
    """The clicks that do not jitter: depth and the pull of the middle, summing to one."""
    ringed = np.pad(inside.view(np.uint8), 1)
    depth = depth_px(ringed)[1:-1, 1:-1]
    rows, columns = (_pull(np.asarray(inside.any(axis=1 - k)), numbers.spread) for k in (0, 1))
    # Only where there is something to weigh: 2 x less time, more on a thin error region.
    deep = depth[inside]
    values = cv2.pow(deep / deep.max(), numbers.depth).ravel()
    values *= np.multiply.outer(rows, columns)[inside]
    weights = np.zeros(inside.shape, dtype=np.float32)
    weights[inside] = values / values.sum(dtype=np.float64)
    return weights


def jittered(
    weights: npt.NDArray[np.float32], inside: Bits, sigma_px: float, reach_px: float
) -> npt.NDArray[np.float32]:
    """Clicks moved by a Gaussian, those beyond reach dropped, summing to one."""
    if sigma_px < _LEAST_JITTER:
        return weights
    blurred = cv2.GaussianBlur(weights, (0, 0), sigma_px, borderType=cv2.BORDER_CONSTANT)
    moved = np.asarray(blurred, dtype=np.float32)
    if not inside.all():
        moved *= depth_px(~inside) <= reach_px
    moved /= np.float32(moved.sum(dtype=np.float64))
    return moved


@cache
def shipped(round: Round = "first") -> Numbers:
    return Numbers(**{name: entry["value"] for name, entry in table()[round].items()})


@cache
def table() -> dict[str, Any]:
    """The shipped file: per round each number with its 95 % interval and where it is from."""
    text = resources.files("segmeter.clickability").joinpath("prior.json").read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def _pull(filled: Bits, spread: float) -> npt.NDArray[np.float32]:
    """The Gaussian around the middle of the filled stretch, in units of its length."""
    places = np.flatnonzero(filled)
    first, length = places[0], places[-1] - places[0] + 1
    away = (np.arange(filled.size) - (first + (length - 1) / 2)) / length
    return np.asarray(np.exp(-0.5 * (away / spread) ** 2), dtype=np.float32)

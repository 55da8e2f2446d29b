"""The click prior: where people click, from the shape of the error region alone.

    p(pixel) ~ depth^a * exp(-r^2 / 2 s^2), and a share of the clicks jitters

Depth is the distance to the error region's edge, r the distance to the middle of its box in units
of the box's sides. The jittering share is moved by a Gaussian in units of the image's
diagonal, so that some clicks leak over the edge, at most 1 % of the diagonal far: people
whose clicks fell farther away were not counted. Numbers and their doubt come from the
statistics of 475 544 real clicks; `docs/clickability.md` tells how.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.clickability.maps import ClickabilityMap, depth_px
from segmeter.core.masks import Bits, Mask
from segmeter.kernels import compiled

Round = Literal["first", "later"]
# A click counts if it misses the object by at most this share of the image's diagonal.
REACH = 0.01
_LEAST_JITTER = 0.1  # pixels


@dataclass(frozen=True, slots=True)
class Numbers:
    """The prior's four numbers."""

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
        return ClickabilityMap(
            (error_region.shape[0], error_region.shape[1]), (0, 0), np.zeros((0, 0), np.float32)
        )
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
    """The fitted numbers that come with the package."""
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

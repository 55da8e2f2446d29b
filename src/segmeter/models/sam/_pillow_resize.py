"""Pillow's bilinear enlarging of 8-bit images, on a device: the same bytes, without the host.

Pillow weighs the pixels within reach of each new one in whole numbers of 2^-22, first along
the rows, then along the columns, and rounds to 8 bits after each. Sums of whole numbers do not
depend on their order, so a GPU finds exactly what Pillow does (tests/models/sam/test_frames.py).
Where an image gets smaller, versions of Pillow differ in which axis comes first: that is left
to Pillow itself.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from torch import Tensor

from segmeter.models.sam._device_copies import arriving

__all__ = ["enlarged"]

_BITS = 22


def enlarged(pixels: Tensor, size: tuple[int, int]) -> Tensor:
    """Pixels `(H, W, C)` of uint8 at a size that is smaller along neither axis, uint8 too."""
    return _along(_along(pixels, 1, size[1]), 0, size[0])


def _along(pixels: Tensor, axis: int, count: int) -> Tensor:
    if pixels.shape[axis] == count:
        return pixels  # Pillow leaves such an axis alone
    places, weights = (arriving(a, pixels.device) for a in _taps(pixels.shape[axis], count))
    shape = [1, 1, 1]
    shape[axis] = count
    values = pixels.int()
    summed = values.index_select(axis, places[0]) * weights[0].view(shape)
    for place, weight in zip(places[1:], weights[1:], strict=True):
        summed += values.index_select(axis, place) * weight.view(shape)
    return ((summed + (1 << (_BITS - 1))) >> _BITS).clamp(0, 255).byte()


def _taps(pixels: int, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """For each new pixel the old ones within its reach, and their weights: `(taps, count)`."""
    scale = pixels / count
    reach = max(scale, 1.0)
    centre = (np.arange(count) + 0.5) * scale
    first = np.maximum((centre - reach + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + reach + 0.5).astype(np.int64), pixels)
    tap = np.arange(2 * math.ceil(reach) + 1)[:, None]
    away = np.abs((tap + first - centre + 0.5) * (1.0 / reach))
    shares = np.where((tap < last - first) & (away < 1.0), 1.0 - away, 0.0)
    total = np.zeros(count)
    for share in shares:  # in Pillow's order: the sum is rounded
        total += share
    weights = (0.5 + shares / total * (1 << _BITS)).astype(np.int32)
    places = np.minimum(first + tap, pixels - 1)
    return np.ascontiguousarray(places), np.where(shares > 0, weights, 0)

"""The click prior in volumes: where a person would click on an error region of voxels.

    p(voxel) ~ depth^a * exp(-r^2 / 2 s^2)

The law and its numbers are those of images (`prior`), with depth in millimetres and r in
units of the box's three sides. No recorded clicks in volumes stand behind it: it carries over
what 475 544 clicks on images say, and leaves out the jitter over the edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from segmeter.clickability.groups import Share
from segmeter.clickability.prior import Numbers, Round, shipped
from segmeter.core.distance_transform import squared_depths
from segmeter.core.masks import Mask

__all__ = ["draw_voxel", "volume_prior"]

Weights = npt.NDArray[np.float64]
Voxel = tuple[int, ...]


def volume_prior(
    error_region: Mask,
    spacing_mm: Sequence[float],
    numbers: Numbers | None = None,
    round: Round = "first",
) -> Weights:
    """The weight of every voxel of the error region's box, summing to one.

    >>> weights = volume_prior(Mask.box((9, 9, 9), (2, 2, 2), (7, 7, 7)), (1, 1, 1))
    >>> [int(i) for i in np.unravel_index(weights.argmax(), weights.shape)]
    [2, 2, 2]
    """
    found, bits = numbers or shipped(round), error_region.bits
    depth = np.sqrt(squared_depths(bits, spacing_mm))
    weights = np.where(bits, (depth / max(depth.max(), 1e-12)) ** found.depth, 0.0)
    for axis, side in enumerate(bits.shape):
        away = (np.arange(side) - (side - 1) / 2) / side
        pull = np.exp(-0.5 * (away / found.spread) ** 2)
        weights *= pull.reshape([-1 if a == axis else 1 for a in range(bits.ndim)])
    return np.asarray(weights / weights.sum())


def draw_voxel(
    error_region: Mask,
    weights: Weights,
    share: Share,
    uniform: float,
    clicked: Iterable[Voxel] = (),
) -> Voxel | None:
    """The voxel at a uniform place within a share of the mass; None if nothing is left.

    Voxels stand in order of weight, equal ones in raster order, so that a share from 0.9 to 1
    holds the likeliest tenth of clicks. No voxel is clicked twice.
    """
    left = weights.copy()
    for voxel in clicked:
        place = tuple(v - a for v, a in zip(voxel, error_region.low, strict=True))
        if all(0 <= p < n for p, n in zip(place, left.shape, strict=True)):
            left[place] = 0.0
    order = np.argsort(left, axis=None, kind="stable")
    mass = np.cumsum(left.ravel()[order])
    if mass.size == 0 or mass[-1] <= 0:
        return None
    at = (share[0] + uniform * (share[1] - share[0])) * mass[-1]
    last = min(int(np.searchsorted(mass, at, side="right")), mass.size - 1)
    found = np.unravel_index(int(order[last]), left.shape)
    return tuple(int(p) + a for p, a in zip(found, error_region.low, strict=True))

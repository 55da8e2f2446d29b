"""Clicks as in the CVPR 2025 challenge on interactive segmentation of volumes.

A box first, where the case has one: first and last slice, and the target's box in the middle
one. Then a click in the middle of the largest wrong part, in voxels, image border included.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from segmeter.core.connected_components import largest_component
from segmeter.core.distance_transform import squared_depths
from segmeter.core.masks import Mask, joint_box
from segmeter.core.prompts import Box, Click
from segmeter.users.volumes.slices import foreground_slices

__all__ = ["MiddleClick", "challenge_box", "click_curve_area", "middle_click"]

# The challenge draws ties with this seed, set again for each click.
_TIE_SEED = 42
_LARGE_VOXELS = 60_000_000


@dataclass(frozen=True, slots=True)
class MiddleClick:
    """A click and what it was chosen from."""

    click: Click
    component_voxels: int
    squared_depth: int
    equally_deep: int


def challenge_box(target: Mask) -> Box:
    """First to last slice, with the rows and columns of the middle one, all inside.

    The middle slice is the one half way through the list of the target's slices.
    """
    own = foreground_slices(target)
    middle = target.slice(own[len(own) // 2])
    return Box((own[0], *middle.low), (own[-1], *(h - 1 for h in middle.high)))


def middle_click(
    target: Mask, prediction: Mask, rng: np.random.Generator | None = None
) -> MiddleClick | None:
    """A click on the deepest voxel of the largest wrong part; None when nothing is wrong.

    False negatives and false positives that touch are one part, as in the challenge's
    script; the first in raster order is taken on a tie. Ties of depth are drawn: by the
    script's own generator, seeded each time, unless another is given. Above 6e7 voxels
    depth is found on every second voxel, as there.
    """
    low, high = joint_box(target, prediction)
    wrong = Mask.of(target.crop(low, high) ^ prediction.crop(low, high), low, target.shape)
    if not wrong:
        return None
    part = largest_component(wrong)
    step = 2 if np.prod(target.shape) > _LARGE_VOXELS else 1
    thin = _thinned(part, step)
    depth = np.rint(squared_depths(thin.bits, (1.0, 1.0, 1.0)))
    deepest = np.argwhere(depth == depth.max()) + thin.low
    if rng is None:
        chosen = int(np.random.RandomState(_TIE_SEED).randint(len(deepest)))
    else:
        chosen = int(rng.integers(len(deepest)))
    voxel = tuple(int(c) * step for c in deepest[chosen])
    return MiddleClick(Click(voxel, target[voxel]), part.area, int(depth.max()), len(deepest))


def click_curve_area(scores: list[float]) -> float:
    """The challenge's area: trapezoids over the clicks' scores, the box step left out.

    >>> click_curve_area([0.5, 0.6, 0.6, 0.7, 0.7, 0.8])
    2.7...
    """
    clicks = scores[1:]
    return float(sum((a + b) / 2 for a, b in pairwise(clicks)))


def _thinned(part: Mask, step: int) -> Mask:
    if step == 1:
        return part
    start = tuple(-a % step for a in part.low)
    bits = part.bits[tuple(slice(s, None, step) for s in start)]
    if not bits.any():
        return part
    low = tuple((a + s) // step for a, s in zip(part.low, start, strict=True))
    return Mask.of(bits, low, tuple(-(-n // step) for n in part.shape))

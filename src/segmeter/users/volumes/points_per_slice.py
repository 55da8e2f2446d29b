"""Points in every slice: random ones, positive and negative ones, or the centre."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask
from segmeter.core.prompts import Click
from segmeter.users.drawn_pixels import pixel_at
from segmeter.users.volumes.random_streams import Draws
from segmeter.users.volumes.slices import Centre, centre_of, foreground_slices

__all__ = ["alternating_points_per_slice", "centre_point_per_slice", "points_per_slice"]

Pixels = npt.NDArray[np.int64]

# Negative points lie in a ring around the object: dilated by the first, then by the second.
_GAP_PX, _RING_PX = 2, 3


def points_per_slice(target: Mask, count: int, draws: Draws) -> list[Click]:
    """Random pixels of the target in each of its slices, ascending, then in drawn order.

    A slice with fewer pixels gives all of them and repeats some, so that each has `count`.
    """
    draws.restart()
    clicks = []
    for z in foreground_slices(target):
        here = target.slice(z)
        pixels = np.flatnonzero(here.bits)  # in raster order
        if len(pixels) >= count:
            chosen = draws.choose(len(pixels), count)
        else:
            more = draws.repeat(len(pixels), count - len(pixels))
            chosen = [*range(len(pixels)), *more]
        clicks += [Click((z, *pixel_at(here, int(pixels[i]))), True) for i in chosen]
    return clicks


def alternating_points_per_slice(target: Mask, count: int, draws: Draws) -> list[Click]:
    """Half positive, half negative pixels of each slice; the odd one is positive.

    Negative ones lie 2 to 5 pixels outside. All positives come first, then all negatives, in
    spite of the name, which is the original's. Nothing is repeated to fill up.
    """
    draws.restart()
    on, off = [], []
    for z in foreground_slices(target):
        here = target.slice(z)
        inside, around = np.flatnonzero(here.bits), _ring(here)
        chosen = draws.choose(len(inside), min((count + 1) // 2, len(inside)))
        on += [Click((z, *pixel_at(here, int(inside[i]))), True) for i in chosen]
        chosen = draws.choose(len(around), min(count // 2, len(around))) if len(around) else []
        off += [Click((z, *map(int, around[i])), False) for i in chosen]
    return [*on, *off]


def centre_point_per_slice(target: Mask, centre: Centre = "mass") -> list[Click]:
    """The middle of the largest component in every slice."""
    return [
        Click((z, *centre_of(target.slice(z), centre)), True) for z in foreground_slices(target)
    ]


def _ring(mask: Mask) -> Pixels:
    """Pixels around a mask that are neither next to it nor far."""
    import cv2

    reach = _GAP_PX + _RING_PX
    low = tuple(max(0, a - reach) for a in mask.low)
    high = tuple(min(n, h + reach) for h, n in zip(mask.high, mask.shape, strict=True))
    inner = cv2.dilate(mask.crop(low, high).astype(np.uint8), _disk(_GAP_PX))
    outer = cv2.dilate(inner, _disk(_RING_PX))
    return np.argwhere((outer > 0) & (inner == 0)) + low


def _disk(radius: int) -> npt.NDArray[np.uint8]:
    y, x = np.ogrid[-radius : radius + 1, -radius : radius + 1]
    return np.asarray(y * y + x * x <= radius * radius, dtype=np.uint8)

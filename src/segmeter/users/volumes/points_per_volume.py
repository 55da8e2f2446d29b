"""Points for models that see the whole volume."""

from __future__ import annotations

from typing import Literal

import numpy as np

from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Click
from segmeter.users.drawn_pixels import pixel_at
from segmeter.users.volumes.interpolation import interpolated_points
from segmeter.users.volumes.random_streams import Draws
from segmeter.users.volumes.slices import check_target

__all__ = ["centre_points_per_volume", "centroid", "points_per_volume"]

_SEEDS = 5


def points_per_volume(target: Mask, count: int, draws: Draws) -> list[Click]:
    """Different random voxels of the target, in drawn order."""
    check_target(target)
    draws.restart()
    voxels = np.flatnonzero(target.bits)  # a third of the memory of their coordinates
    chosen = draws.choose(len(voxels), min(count, len(voxels)))
    return [Click(pixel_at(target, int(voxels[i])), True) for i in chosen]


def centroid(target: Mask) -> list[Click]:
    """The mean voxel, cut to whole numbers; it may lie outside the target."""
    check_target(target)
    mean = (np.argwhere(target.bits) + target.low).mean(axis=0)
    return [Click(tuple(int(c) for c in mean), True)]


def centre_points_per_volume(
    target: Mask,
    count: int,
    protocol: ProtocolName,
    *,
    patch: int | None = 128,
    along: Literal["z", "x"] = "z",
) -> list[Click]:
    """Points spaced along the middle line of the target, its ends left out.

    Parameters
    ----------
    patch
        Only points within a cube of so many voxels around their mean, the part that
        SAM-Med3D sees; None takes all (SegVol).
    along
        The axis by which points are ordered. The original orders SegVol's by x.
    """
    points = [click.point for click in interpolated_points(target, _SEEDS, protocol)]
    if patch is not None:
        middle = np.mean(points, axis=0)
        half = patch / 2
        points = [p for p in points if np.all((middle - half <= p) & (p < middle + half))]
    points.sort(key=lambda p: p[0 if along == "z" else 2])
    places = np.linspace(0, len(points) - 1, count + 2).astype(int)[1:-1]
    return [Click(points[i], True) for i in dict.fromkeys(int(i) for i in places)]

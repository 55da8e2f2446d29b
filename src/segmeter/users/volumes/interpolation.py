"""Interpolation: a person prompts a few slices, the slices between follow along a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Box, Click
from segmeter.users.volumes.random_streams import Draws
from segmeter.users.volumes.slices import (
    Centre,
    centre_of,
    median_slice,
    seed_slices,
    tight_box,
)

__all__ = ["box_seeds", "interpolated_boxes", "interpolated_points", "point_seeds"]

Corners = list[int]  # x0, y0, x1, y1


def point_seeds(
    target: Mask, count: int, protocol: ProtocolName, centre: Centre = "box"
) -> dict[int, tuple[int, int]]:
    """The points that a person gives: the middle of each seed slice."""
    return {z: centre_of(target.slice(z), centre) for z in seed_slices(target, count, protocol)}


def interpolated_points(
    target: Mask, count: int, protocol: ProtocolName, centre: Centre = "box"
) -> list[Click]:
    """One positive point in every slice from the first seed to the last.

    Points between seeds may miss the target, and lie in slices that do not hold it.
    """
    seeds = point_seeds(target, count, protocol, centre)
    return [Click((z, y, x), True) for z, (y, x) in _between(seeds)]


def box_seeds(
    target: Mask, count: int, protocol: ProtocolName, shaken: int = 0, draws: Draws | None = None
) -> dict[int, Corners]:
    """The boxes that a person draws, `(x0, y0, x1, y1)` each, shaken by up to so many pixels.

    x1 and y1 are the last column and row in `corrected`, one past them in `published`.
    """
    wanted = seed_slices(target, count, protocol)
    slices = sorted(set(wanted)) if len(wanted) > 1 else [median_slice(target)]
    seeds = {}
    for z in slices:
        box, past = tight_box(target.slice(z), z), _past(protocol)
        ends = [int(box.high[2]) + past, int(box.high[1]) + past]
        corners = [int(box.low[2]), int(box.low[1]), *ends]
        if shaken and draws is not None:
            corners = _shaken(corners, draws.shifts(shaken), target.shape)
        seeds[z] = corners
    return seeds


def interpolated_boxes(
    target: Mask, count: int, protocol: ProtocolName, shaken: int = 0, draws: Draws | None = None
) -> list[Box]:
    """One box in every slice from the first seed to the last; it may have no width.

    `published` interpolates and rounds ends that are one past the last pixel.
    """
    past = _past(protocol)
    seeds = box_seeds(target, count, protocol, shaken, draws)
    boxes = []
    for z, (x0, y0, x1, y1) in _between(seeds):
        if shaken:
            x0, x1, y0, y1 = min(x0, x1), max(x0, x1), min(y0, y1), max(y0, y1)
        boxes.append(Box((z, y0, x0), (z, y1 - past, x1 - past)))
    return boxes


def _past(protocol: ProtocolName) -> int:
    """How far behind the last pixel a box ends."""
    return 1 if protocol == "published" else 0


def _between(seeds: Mapping[int, Sequence[int]]) -> list[tuple[int, list[int]]]:
    """Values of every slice, each on a line between seeds, rounded half to even."""
    given = sorted(seeds)
    values = np.array([seeds[z] for z in given], dtype=float)
    every = np.arange(given[0], given[-1] + 1)
    lines = np.stack([np.interp(every, given, column) for column in values.T], axis=1)
    rounded = np.rint(lines).astype(int).tolist()
    return [(int(z), row) for z, row in zip(every, rounded, strict=True)]


def _shaken(corners: Corners, moves: Sequence[int], shape: Sequence[int]) -> Corners:
    """A box moved by its four shifts, inside the slice; a flat one grows by a pixel each way."""
    last_x, last_y = shape[2] - 1, shape[1] - 1
    moved = [c + m for c, m in zip(corners, moves, strict=True)]
    x0, x1 = (min(max(moved[i], 0), last_x) for i in (0, 2))
    y0, y1 = (min(max(moved[i], 0), last_y) for i in (1, 3))
    if x0 >= x1:
        x0, x1 = max(0, x0 - 1), min(last_x, x1 + 1)
    if y0 >= y1:
        y0, y1 = max(0, y0 - 1), min(last_y, y1 + 1)
    return [x0, y0, x1, y1]

"""Boxes of a volume's target: one in every slice, or one for the whole."""

from __future__ import annotations

from segmeter.core.masks import Mask
from segmeter.core.prompts import Box
from segmeter.users.volumes.slices import check_target, foreground_slices, tight_box

__all__ = ["box_3d", "box_per_slice", "boxes_from_3d_box"]


def box_per_slice(target: Mask) -> list[Box]:
    """A tight box around all of the target in each of its slices."""
    return [tight_box(target.slice(z), z) for z in foreground_slices(target)]


def boxes_from_3d_box(target: Mask) -> list[Box]:
    """The whole target's box, repeated in every slice from its first to its last."""
    own = foreground_slices(target)
    whole = Mask.box(target.shape[1:], target.low[1:], target.high[1:])
    return [tight_box(whole, z) for z in range(own[0], own[-1] + 1)]


def box_3d(target: Mask) -> Box:
    """First and last voxel on each axis, both inside."""
    check_target(target)
    return Box(target.low, tuple(h - 1 for h in target.high))

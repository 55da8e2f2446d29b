"""Outlines as COCO writes them: run lengths, polygons, or boxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.datasets.polygons import fill_all

__all__ = ["outline"]


def outline(segmentation: Any, size: tuple[int, int], where: str) -> Mask:
    """A mask from COCO's run lengths, polygons, or boxes.

    As in COCO's own library, lists are boxes `x, y, width, height` when the first has four
    numbers.
    """
    try:
        if segmentation is None:
            raise BadInput("there is none; give it a 'segmentation' or leave it out")
        if isinstance(segmentation, Mapping):
            return _unpacked(segmentation, size)
        parts = list(segmentation)
        if parts and len(parts[0]) == 4:
            parts = [_corners(*box) for box in parts]
        return fill_all(parts, size)
    except (BadInput, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{where}: its outline cannot be read: {str(error)[:120]}") from error


def _unpacked(runs: Mapping[str, Any], size: tuple[int, int]) -> Mask:
    """A mask from run lengths, if it claims the image's size, upright or lying."""
    claimed = runs.get("size")
    if not isinstance(claimed, list | tuple) or sorted(claimed) != sorted(size):
        raise BadInput(f"it claims an image of {str(claimed)[:40]}, but this is {list(size)}")
    return Mask.from_coco(runs)


def _corners(x: float, y: float, width: float, height: float) -> list[float]:
    if width < 0 or height < 0:
        raise BadInput(f"a box of {width} x {height} pixels")
    return [x, y, x, y + height, x + width, y + height, x + width, y]

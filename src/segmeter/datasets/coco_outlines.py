"""Outlines as COCO writes them: polygons, run lengths or boxes, filled by `pycocotools`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask

_FARTHEST = 1 << 17  # pycocotools allocates memory for every pixel along a side


def fill(polygons: Iterable[Sequence[float]], size: tuple[int, int]) -> Mask:
    """The union of polygons `x0, y0, x1, y1, ...` in an image of `(H, W)`.

    >>> fill([[1, 1, 4, 1, 4, 3, 1, 3]], (4, 5)).dense().astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 1, 1, 1, 0],
           [0, 1, 1, 1, 0],
           [0, 0, 0, 0, 0]])
    """
    from pycocotools import mask as coco

    parts = [np.asarray(polygon, dtype=np.float64) for polygon in polygons]
    for part in parts:
        if part.ndim != 1 or part.size < 4 or part.size % 2:
            raise BadInput("a polygon is a list of numbers x, y, x, y, ... of two corners or more")
        if not np.isfinite(part).all() or np.abs(part).max() > _FARTHEST:
            raise BadInput(f"a corner is farther than {_FARTHEST} pixels from the image")
    areas = [part.tolist() for part in parts if part.size > 4]  # two corners enclose nothing
    if not areas:
        return Mask.empty(size)
    return Mask.from_coco(coco.merge(coco.frPyObjects(areas, *size)))


def outline(segmentation: Any, size: tuple[int, int], where: str) -> Mask:
    """A mask from COCO's run lengths, polygons, or boxes.

    As in COCO's own library, lists are boxes `x, y, width, height` when the first has four
    numbers.
    """
    try:
        if segmentation is None:
            raise BadInput("there is none; give it a 'segmentation' or leave it out")
        if isinstance(segmentation, Mapping):
            claimed = segmentation.get("size")
            if not isinstance(claimed, list | tuple) or sorted(claimed) != sorted(size):
                raise BadInput(f"it is for an image of {str(claimed)[:40]}, not {list(size)}")
            return Mask.from_coco(segmentation)
        parts = list(segmentation)
        if parts and len(parts[0]) == 4:
            parts = [_corners(*box) for box in parts]
        return fill(parts, size)
    except (BadInput, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{where}: its outline cannot be read: {str(error)[:120]}") from error


def _corners(x: float, y: float, width: float, height: float) -> list[float]:
    if width < 0 or height < 0:
        raise BadInput(f"a box of {width} x {height} pixels")
    return [x, y, x, y + height, x + width, y + height, x + width, y]

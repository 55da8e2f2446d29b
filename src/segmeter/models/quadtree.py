"""Quadtree: the baseline that never looks at the image.

The frame is halved again and again into 1024 equal boxes, and the lines are numbered by
the level at which they are drawn, so that joining weaker lines first climbs the tree. A
measure worth having prefers any segmenter that looks to this one.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import SweptByRegions, capable
from segmeter.core.models import ModelCard, Segmentation
from segmeter.core.scenes import Scene

__all__ = ["QUADTREE_REGIONS", "Quadtree", "quadtree_levels"]

QUADTREE_REGIONS = (2, 3, 4, 8, 16, 20, 32, 40, 50, 64, 80, 128, 160, 256, 320, 400, 800)

Whole = npt.NDArray[np.int64]
_CUTS = 32


@catalogue.methods.add("quadtree", summary="equal boxes, whatever the image shows; a baseline")
@capable(SweptByRegions)
class Quadtree:
    """A hierarchy of boxes.

    Parameters
    ----------
    turned
        Build landscape images as portrait ones and turn them, as the published scores
        did; otherwise the tree is built for the image's own size.
    """

    def __init__(self, turned: bool = False) -> None:
        self.turned = turned
        self.card = ModelCard(
            name="quadtree",
            summary="equal boxes, whatever the image shows; a baseline",
            abilities=frozenset({"automatic"}),
            citation="Pont-Tuset, Marques. Measures and meta-measures for the supervised "
            "evaluation of image segmentation. CVPR 2013",
            family="classical",
        )

    region_counts = QUADTREE_REGIONS

    def segment(self, scene: Scene) -> Segmentation:
        height, width = scene.shape
        if self.turned and width > height:
            return Segmentation(levels=np.rot90(quadtree_levels(width, height)).copy())
        return Segmentation(levels=quadtree_levels(height, width))


def quadtree_levels(height: int, width: int) -> npt.NDArray[np.float32]:
    """The quadtree's contour map: each line's number is its strength.

    >>> int(quadtree_levels(64, 48).max())
    1954
    """
    levels = np.zeros((2 * height + 1, 2 * width + 1), dtype=np.float32)
    number = 1
    for level in range(1, 5):
        rows, columns = _cuts(height, level), _cuts(width, level)
        number = _draw_lines(levels, rows, columns, number)
        number = _draw_lines(levels.T, columns, _cuts(height, level + 1), number)
    _draw_middle(levels, _cuts(height, 5)[0], _cuts(width, 5)[0], number)
    levels[0], levels[-1] = levels[1], levels[-2]
    levels[:, 0], levels[:, -1] = levels[:, 1], levels[:, -2]
    return levels


def _cuts(length: int, level: int) -> Whole:
    """Contour-map rows (or columns) of a level's cuts: every one, every second, fourth..."""
    every = 2 ** (level - 1)
    first_after = 1 + np.arange(every, _CUTS, every) * length // _CUTS
    return 2 * (first_after - 1)


def _draw_lines(levels: npt.NDArray[np.float32], lines: Whole, across: Whole, number: int) -> int:
    """Draw each line in pieces between the lines across, a new number a piece."""
    ends = [1, *(across + 1).tolist(), levels.shape[1] - 1]
    for line in lines.tolist():
        for begin, end in pairwise(ends):
            levels[line, begin:end] = number
            number += 1
    return number


def _draw_middle(levels: npt.NDArray[np.float32], row: int, column: int, number: int) -> None:
    """The last two cuts: the middle row in two pieces, then the middle column whole."""
    levels[row, 1 : column + 1] = number + 1
    levels[row, column + 1 : -1] = number + 2
    levels[1:-1, column] = number + 3

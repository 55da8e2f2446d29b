"""Matching: which boundary pixels of two maps can stand for each other, one to one.

Pixels may pair when they lie at most a tolerance apart. Of all ways to pair them we take one
with the most pairs, and of those one with the least total distance (in hundredths of a
pixel). The answer is exact and the same on every run; the original's is neither. Several
answers may be equally good: the written rule that chooses is in `segmeter.measures._matching`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.kernels import compiled
from segmeter.measures import _matching
from segmeter.measures.outlines import Outline

__all__ = ["MAX_DIST", "match", "tolerance_px"]

MAX_DIST = 0.0075
"""Usual tolerance as a share of the diagonal: 4.34 pixels for 321 x 481."""

_MOST_DIST = 0.5


def match(
    ground_truth: Outline, prediction: Outline, max_dist: float = MAX_DIST
) -> npt.NDArray[np.int32]:
    """For each boundary pixel of the prediction the index of its match in the ground truth, or -1.

    >>> one = Outline((9, 9), np.array([40]))
    >>> two = Outline((9, 9), np.array([39, 42]))
    >>> match(two, one, 0.1).tolist(), match(one, two, 0.1).tolist()
    ([0], [0, -1])
    """
    if ground_truth.shape != prediction.shape:
        sizes = [f"{w} x {h}" for h, w in (prediction.shape, ground_truth.shape)]
        raise BadInput(
            f"the result is {sizes[0]} but a ground truth is {sizes[1]}; "
            "both must be of the image's size"
        )
    reach_squared = math.floor(tolerance_px(prediction.shape, max_dist) ** 2)
    solve = _matching.match if compiled is None else compiled.match_pixels
    partners: npt.NDArray[np.int32] = solve(
        prediction.places, ground_truth.places, prediction.shape[1], reach_squared
    )
    return partners


def tolerance_px(shape: tuple[int, int], max_dist: float = MAX_DIST) -> float:
    """The tolerance in pixels of a grid: `max_dist` times its diagonal.

    >>> round(tolerance_px((321, 481)), 2)
    4.34
    """
    if not 0 <= max_dist <= _MOST_DIST:
        raise BadInput(f"tolerance {max_dist} is no share of the diagonal from 0 to {_MOST_DIST}")
    return max_dist * math.sqrt(shape[0] ** 2 + shape[1] ** 2)

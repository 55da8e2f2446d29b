"""Response maps: IoU after a first click at every pixel of an object, or of a moved box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.capabilities import ScoresSingleClicks
from segmeter.core.error_regions import deepest
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Request, render
from segmeter.core.prompts import Box, Click, Prompt
from segmeter.core.scenes import Target
from segmeter.measures.objects import band_reach, boundary_iou, iou
from segmeter.stats.intervals import Floats
from segmeter.users.box_prompts import jitter_reach

Places = npt.NDArray[np.int64]
Progress = Callable[[int, int], None] | None
"""Called with how many prompts are done, and of how many."""
_AT_ONCE, _SHIFTS = 64, 11  # prompts; places of a box along each axis


@dataclass(frozen=True, slots=True)
class ScoreMap:
    """IoU and Boundary IoU of a click at each pixel `low + stride * (row, column)`.

    Maps are NaN where a click would not be valid.
    """

    target: Target
    low: tuple[int, int]
    stride: int
    iou: Floats
    boundary_iou: Floats
    centre: tuple[int, int]
    centre_iou: float

    @property
    def clicks(self) -> int:
        return int(np.isfinite(self.iou).sum())

    def statistics(self, threshold: float = 0.5) -> dict[str, float]:
        """Statistics of the map.

        `mean`, `spread` (standard deviation), `worst` and `best` are of IoU over all clicks
        tried, `centre` is that of the centre click; `bad_share` is the share of the object where
        IoU stays below the threshold; `nearest_bad_px` are the pixels from the centre click to
        the nearest click that does (NaN if none does), `nearest_bad_relative` the same in
        diagonals of the object's box.
        """
        tried = np.isfinite(self.iou)
        values = self.iou[tried]
        bad = tried & (np.nan_to_num(self.iou, nan=1.0) < threshold)
        places = np.argwhere(bad) * self.stride + np.array(self.low)
        away = np.hypot(*(places - np.array(self.centre)).T)
        nearest = float(away.min()) if len(away) else float("nan")
        nearest = 0.0 if self.centre_iou < threshold else nearest
        return {
            "mean": float(values.mean()),
            "spread": float(values.std()),
            "worst": float(values.min()),
            "best": float(values.max()),
            "centre": self.centre_iou,
            "bad_share": float(bad.sum() / tried.sum()),
            "nearest_bad_px": nearest,
            "nearest_bad_relative": nearest / float(np.hypot(*self.target.mask.bits.shape)),
        }

    def extreme(self, worst: bool = True) -> tuple[tuple[int, int], float]:
        """The click with the lowest (or highest) IoU, first in raster order among equals."""
        flat = int(np.nanargmin(self.iou) if worst else np.nanargmax(self.iou))
        row, column = divmod(flat, self.iou.shape[1])
        point = (self.low[0] + self.stride * row, self.low[1] + self.stride * column)
        return point, float(self.iou[row, column])


def click_response_map(
    encoded: EncodedScene, target: Target, stride: int = 1, progress: Progress = None, **speed: Any
) -> ScoreMap:
    """Try a first click at every `stride`-th pixel of the object that is judged.

    Any model will do. One that scores single clicks itself, as the SAM family does, decodes
    thousands at a time; `speed` has the options of the fast path (`dtype`, `compiled`, `boundary`).
    """
    valid = target.mask if target.ignore is None else target.mask - target.ignore
    if not valid:
        raise BadInput(f"target '{target.id}' has no pixel that could be clicked")
    rows, columns = (np.arange(a, b, stride) for a, b in zip(valid.low, valid.high, strict=True))
    tried = valid.dense()[np.ix_(rows, columns)]
    if not tried.any():
        height, width = valid.bits.shape
        raise BadInput(
            f"no click that lies on target '{target.id}' is left at a stride of {stride} pixels; "
            f"take a smaller one, its box is {height} x {width}"
        )
    places = np.argwhere(tried) * stride + np.array(valid.low)
    point = deepest(valid).point
    assert point is not None  # the mask is not empty
    centre = (int(point[0]), int(point[1]))
    points = np.concatenate([np.array([centre]), places])
    scores = single_click_scores(encoded, points, target, progress=progress, **speed)
    if scores is None:
        clicks: list[Prompt] = [Click((int(y), int(x))) for y, x in points]
        scores = score_prompts(encoded, target, clicks, progress)
    maps = np.full((2, *tried.shape), np.nan)
    maps[:, tried] = scores[1:].T
    low = (int(valid.low[0]), int(valid.low[1]))
    return ScoreMap(target, low, stride, maps[0], maps[1], centre, float(scores[0, 0]))


@dataclass(frozen=True, slots=True)
class ShiftMap:
    """IoU of the tight box moved as a whole, `(down, across)`, by so many pixels each."""

    iou: Floats
    down_px: Floats
    across_px: Floats


def shift_map(encoded: EncodedScene, target: Target, progress: Progress = None) -> ShiftMap:
    """Try the tight box at a lattice of shifts within jitter; zero is in the middle."""
    down, across = (np.linspace(-reach, reach, _SHIFTS) for reach in jitter_reach(target))
    tight, last = Box.around(target.mask), np.array(target.mask.shape) - 1.0
    boxes: list[Prompt] = []
    for shift in product(down, across):
        low, high = (np.clip(np.add(end, shift), 0, last) for end in (tight.low, tight.high))
        boxes.append(Box(tuple(low.tolist()), tuple(high.tolist())))
    scores = score_prompts(encoded, target, boxes, progress)[:, 0]
    return ShiftMap(scores.reshape(_SHIFTS, _SHIFTS), down, across)


def single_click_scores(
    encoded: EncodedScene, points: Places, target: Target, *, boundary: bool = True, **speed: Any
) -> Floats | None:
    """IoU and Boundary IoU `(n, 2)` of lone clicks; None without a fast path."""
    if not isinstance(encoded, ScoresSingleClicks):
        return None
    judge, reach = partial(_judged, boundary=boundary), band_reach(target.mask.shape)
    return encoded.single_click_scores(points, target, judge, reach if boundary else 0, **speed)


def score_prompts(
    encoded: EncodedScene, target: Target, prompts: list[Prompt], progress: Progress = None
) -> Floats:
    """IoU and Boundary IoU `(n, 2)` after each prompt alone."""
    scores: list[tuple[float, float]] = []
    for start in range(0, len(prompts), _AT_ONCE):
        requests = [Request((prompt,)) for prompt in prompts[start : start + _AT_ONCE]]
        scores.extend(_judged(target, mask) for mask in render(encoded, encoded.predict(requests)))
        if progress is not None:
            progress(len(scores), len(prompts))
    return np.array(scores).reshape(-1, 2)


def _judged(target: Target, mask: Mask, boundary: bool = True) -> tuple[float, float]:
    both = target.mask, mask, target.ignore
    return iou(*both), boundary_iou(*both) if boundary else float("nan")

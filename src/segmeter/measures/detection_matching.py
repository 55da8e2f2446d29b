"""Detection matching as COCO and LVIS do it, with any measure of overlap.

Libraries count masks and boxes; this also matches by boundaries, and gives the same numbers for
resampled images. The rules are those of the COCO evaluator:

- detections go by score, stable, the best first; each takes the free ground truth it overlaps most,
  at or above the threshold; among equal overlaps the later ground truth in the list;
- ignored ground truths (crowd regions, sizes outside the range) come last, and a detection that
  has matched a regular one skips them; a crowd region may be matched many times;
- a detection that matched an ignored ground truth, or none and is outside the range, is not
  counted;
- precision is made monotone from the right and sampled at recall 0, 0.01 ... 1, the first
  place where recall reaches it; 0 where it is never reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask

Real = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Side = Sequence[Any] | npt.NDArray[Any]

THRESHOLDS: Real = np.linspace(0.5, 0.95, 10)
RECALLS: Real = np.linspace(0.0, 1.0, 101)
_NEVER_EXACT = 1 - 1e-10
_MOST_NUMBERS = 1 << 23


@dataclass(frozen=True, slots=True)
class Cell:
    """One image's ground truths and detections of one class, in the order of their lists.

    `overlaps` is detections x ground truths. `forgiving` means that not every object of the class
    is outlined there (LVIS), so that a detection without a ground truth is no error.
    """

    image: int
    category: int
    scores: Real
    areas: Real
    ground_truth_areas: Real
    crowd: Flags
    overlaps: Real
    forgiving: bool = False


@dataclass(frozen=True, slots=True)
class Matched:
    """Matches of a cell's detections: `hit` and `ignored` are thresholds x detections."""

    image: int
    category: int
    scores: Real
    hit: Flags
    ignored: Flags
    ground_truths: int


def match(cell: Cell, sizes: tuple[float, float] = (0.0, np.inf), most: int = 100) -> Matched:
    """Match one cell; `sizes` is the range of areas, both ends in it.

    >>> one = np.array([16.0])
    >>> cell = Cell(1, 1, np.array([0.9]), one, one, np.array([False]), np.array([[0.8]]))
    >>> int(match(cell).hit.sum())
    7
    """
    outside = (cell.ground_truth_areas < sizes[0]) | (cell.ground_truth_areas > sizes[1])
    ignore = cell.crowd | outside
    ranked = np.argsort(-cell.scores, kind="stable")[:most]
    taken = taken_by(cell.overlaps[ranked], ignore, cell.crowd)
    hit = taken >= 0
    ignored = hit & flags_at(ignore, taken)
    areas = cell.areas[ranked]
    forgiven = (areas < sizes[0]) | (areas > sizes[1]) | cell.forgiving
    ignored |= ~hit & forgiven
    return Matched(
        cell.image, cell.category, cell.scores[ranked], hit, ignored, int((~ignore).sum())
    )


def taken_by(
    overlaps: Real, ignore: Flags, crowd: Flags, thresholds: Real = THRESHOLDS
) -> npt.NDArray[np.intp]:
    """Which ground truth each detection takes, `(thresholds, detections)`, -1 for none.

    `overlaps` is detections x ground truths, the best detection first; thresholds ascend.

    >>> regular = np.array([False])
    >>> taken_by(np.array([[0.6], [0.9]]), regular, regular, np.array([0.5, 0.75])).tolist()
    [[0, -1], [-1, 0]]
    """
    least = np.minimum(thresholds, _NEVER_EXACT)
    levels, last = np.arange(least.size), overlaps.shape[1] - 1
    taken = np.full((least.size, len(overlaps)), -1, dtype=np.intp)
    free = np.ones((least.size, overlaps.shape[1]), dtype=bool)
    for k in np.flatnonzero(overlaps.max(axis=1, initial=-1.0) >= least[0]):
        # Ignored ground truths are looked at only where no regular one was taken.
        for kind in (~ignore, ignore):
            values = np.where(free & kind, overlaps[k], -1.0)
            best = last - np.argmax(values[:, ::-1], axis=1)
            reached = (taken[:, k] < 0) & (values[levels, best] >= least)
            taken[reached, k] = best[reached]
            free[reached, best[reached]] = crowd[best[reached]]
    return taken


def flags_at(flags: Flags, places: npt.NDArray[np.intp]) -> Flags:
    """Flags of places, where place -1 has none.

    >>> flags_at(np.array([True]), np.array([0, -1])).tolist()
    [True, False]
    """
    return np.append(flags, False)[places]


def pairwise_iou(ones: Side, others: Side, crowd: Flags | None = None) -> Real:
    """IoU of all pairs of masks of images, or of boxes (x, y, width, height); `(n, m)`.

    Where the other is a crowd region, the share of the one inside it. An empty mask has 0.

    >>> pairwise_iou([(0, 0, 4, 4)], [(0, 0, 8, 4)]).tolist()
    [[0.5]]
    >>> pairwise_iou([Mask.box((4, 4), (0, 0), (2, 4))], [Mask.box((4, 4), (1, 0), (3, 4))])
    array([[0.33333333]])
    """
    from pycocotools import mask as coco

    if not len(ones) or not len(others):
        return np.zeros((len(ones), len(others)))
    sides = [
        [mask.to_coco() for mask in side] if isinstance(side[0], Mask) else np.array(side, float)
        for side in (ones, others)
    ]
    crowds = np.zeros(len(others)) if crowd is None else crowd
    found = np.array(coco.iou(*sides, crowds.astype(np.uint8)), dtype=float)
    if (found < 0).any():
        raise BadInput("masks of images of different sizes cannot be compared")
    return found


def average_precision(matched: Sequence[Matched], weights: Real | None = None) -> Real:
    """Average precision of one class for weighted images, `(resamples, thresholds)`.

    `matched` are the class's cells in order of their images. `weights` is resamples x images: how
    often each was drawn, by default once. NaN in a resample in which no ground truth of the class
    was drawn.

    >>> one = np.array([16.0])
    >>> cell = Cell(1, 1, np.array([0.9]), one, one, np.array([False]), np.array([[0.8]]))
    >>> average_precision([match(cell)]).round(3).tolist()
    [[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]]
    """
    if weights is None:
        weights = np.ones((1, 1 + max(m.image for m in matched)))
    hit, ignored, images = _pooled(matched)
    ground_truths = np.zeros(weights.shape[1])
    for m in matched:
        ground_truths[m.image] += m.ground_truths
    totals = weights @ ground_truths
    made = np.zeros((len(weights), THRESHOLDS.size))
    step = max(1, _MOST_NUMBERS // max(1, hit.size))
    for start in range(0, len(weights), step):
        part = slice(start, start + step)
        drawn = weights[part][:, None, images]
        with np.errstate(invalid="ignore", divide="ignore"):
            good = np.cumsum(drawn * (hit & ~ignored), axis=2)
            bad = np.cumsum(drawn * (~hit & ~ignored), axis=2)
            recall = np.nan_to_num(good / totals[part, None, None])
        precision = good / (good + bad + np.spacing(1))
        envelope = np.maximum.accumulate(precision[..., ::-1], axis=-1)[..., ::-1]
        # A detection sets the precision at the levels between its predecessor's recall and its own.
        reached = np.searchsorted(RECALLS, recall, side="right")
        levels = np.diff(reached, axis=-1, prepend=0)
        made[part] = (levels * envelope).sum(axis=-1) / RECALLS.size
    made[totals == 0] = np.nan
    return made


def recall_of(matched: Sequence[Matched]) -> Real:
    """Share of the ground truths of one class that are matched, by threshold."""
    hits = np.add.reduce([(m.hit & ~m.ignored).sum(axis=1) for m in matched])
    return np.asarray(hits / sum(m.ground_truths for m in matched))


def _pooled(matched: Sequence[Matched]) -> tuple[Flags, Flags, npt.NDArray[np.intp]]:
    """Hits, ignored ones and images of all detections of a class, the best first."""
    if not matched:
        nothing = np.zeros((THRESHOLDS.size, 0), dtype=bool)
        return nothing, nothing, np.zeros(0, dtype=np.intp)
    order = np.argsort(-np.concatenate([m.scores for m in matched]), kind="stable")
    hit = np.concatenate([m.hit for m in matched], axis=1)[:, order]
    ignored = np.concatenate([m.ignored for m in matched], axis=1)[:, order]
    images = np.concatenate([np.full(m.scores.size, m.image, dtype=np.intp) for m in matched])
    return hit, ignored, images[order]

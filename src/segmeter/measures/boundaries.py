"""Boundary measures: how many boundary pixels of one side the other side has too.

For a guess with boundary D and ground truths with boundaries B_1 .. B_K: precision is the
share of D matched with *at least one* truth, recall the share of all B_k together that is
matched, F_b = 2PR / (P + R). So precision forgives what any person drew, and recall asks for
what every person drew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits, Mask
from segmeter.core.measures import measure
from segmeter.measures.label_maps import Labels
from segmeter.measures.matching import MAX_DIST, match
from segmeter.measures.objects_and_parts import harmonic
from segmeter.measures.outlines import Grid, Outline, mask_outline, outline
from segmeter.measures.references import REFERENCES

__all__ = [
    "BoundaryCounts",
    "boundary_counts",
    "boundary_f",
    "boundary_f_contour",
    "count_boundaries",
    "morphological_f",
    "object_boundary_f",
    "outlines",
]

Truths = Labels | Sequence[Labels]


@dataclass(frozen=True, slots=True)
class BoundaryCounts:
    """Boundary pixels, all and matched, of a guess and of its ground truths together.

    Precision, recall and F are those of one picture under the rule `seism`: an empty truth
    gives R = 1 and P = 0, an empty guess P = 1 and R = 0, and two empty maps F = 0.
    """

    matched_truth: int
    truth: int
    matched_guess: int
    guess: int
    matched_each: tuple[int, ...] = ()

    @property
    def defined(self) -> bool:
        """Whether there is any boundary to judge."""
        return self.truth + self.guess > 0

    @property
    def precision(self) -> float:
        if self.truth == 0:
            return 0.0
        return self.matched_guess / self.guess if self.guess else 1.0

    @property
    def recall(self) -> float:
        return self.matched_truth / self.truth if self.truth else 1.0

    @property
    def f(self) -> float:
        return harmonic(self.precision, self.recall)


@measure("fb", cite=REFERENCES["martin2004"], dimensions=(2,))
def boundary_f(truths: Truths, guess: Labels, max_dist: float = MAX_DIST) -> float:
    """F of boundary pixels on the pixel grid: thinned, matched one to one.

    >>> left_right = np.array([[1, 1, 2, 2]] * 4)
    >>> boundary_f(left_right, left_right), boundary_f(left_right, np.ones((4, 4), int))
    (1.0, 0.0)
    """
    return boundary_counts(truths, guess, "pixel", max_dist).f


@measure("fb-contour", cite=REFERENCES["martin2004"], dimensions=(2,))
def boundary_f_contour(truths: Truths, guess: Labels, max_dist: float = MAX_DIST) -> float:
    """F of boundary pieces on the contour grid, between pixels: matched, not thinned.

    >>> labels = np.array([[1, 1, 2, 2]] * 4)
    >>> boundary_f_contour(labels, labels)
    1.0
    """
    return boundary_counts(truths, guess, "contour", max_dist).f


@measure("fb-object", both_empty=1.0, one_empty=0.0, cite=REFERENCES["martin2004"], dimensions=(2,))
def object_boundary_f(
    truth: Mask, guess: Mask, ignore: Mask | None = None, max_dist: float = MAX_DIST
) -> float:
    """F of the pixels of two objects' outlines, matched one to one; 1 if neither has one.

    >>> square = Mask.box((20, 20), (5, 5), (15, 15))
    >>> object_boundary_f(square, square)
    1.0
    """
    ours, theirs = (mask_outline(m) for m in _judged(truth, guess, ignore))
    counts = count_boundaries([ours], theirs, max_dist)
    return counts.f if counts.defined else 1.0


@measure(
    "fb-morphological",
    both_empty=1.0,
    one_empty=0.0,
    cite=REFERENCES["perazzi2016"],
    dimensions=(2,),
)
def morphological_f(
    truth: Mask, guess: Mask, ignore: Mask | None = None, tolerance: float = 0.008
) -> float:
    """F of the pixels of two objects' outlines that lie near the other: no pairing.

    Near is within `tolerance` of the diagonal, rounded up, or within so many pixels when
    it is 1 or more. Several pixels may lean on one, so the value is never far below that
    of `fb-object` and often above it.

    >>> square = Mask.box((20, 20), (5, 5), (15, 15))
    >>> morphological_f(square, Mask.box((20, 20), (5, 6), (15, 16)))
    1.0
    """
    ours, theirs = (mask_outline(m, thinned=False) for m in _judged(truth, guess, ignore))
    if not len(ours) and not len(theirs):
        return 1.0
    radius = _radius(truth.shape, tolerance)
    precision = float(_near(ours, theirs, radius).mean()) if len(theirs) else 1.0
    recall = float(_near(theirs, ours, radius).mean()) if len(ours) else 1.0
    return harmonic(precision, recall)


def boundary_counts(
    truths: Truths,
    guess: Labels,
    grid: Grid = "pixel",
    max_dist: float = MAX_DIST,
    threads: int = 1,
) -> BoundaryCounts:
    """Count the matched boundary pixels of a partition against one or several truths.

    >>> labels = np.array([[1, 1, 2, 2]] * 4)
    >>> boundary_counts(labels, labels)
    BoundaryCounts(matched_truth=4, truth=4, matched_guess=4, guess=4, matched_each=(4,))
    """
    return count_boundaries(outlines(truths, grid), outline(guess, grid), max_dist, threads)


def outlines(truths: Truths, grid: Grid = "pixel") -> list[Outline]:
    """Outlines of ground truths, to be found once and used for many guesses.

    >>> [len(outline) for outline in outlines(np.array([[1, 1, 2, 2]] * 4))]
    [4]
    """
    several = [truths] if isinstance(truths, np.ndarray) else truths
    return [outline(t, grid, f"ground truth {place}") for place, t in enumerate(several, 1)]


def count_boundaries(
    truths: Sequence[Outline], guess: Outline, max_dist: float = MAX_DIST, threads: int = 1
) -> BoundaryCounts:
    """Count the matched pixels of a boundary map, taken as it is, against several truths.

    >>> (outline,) = outlines(np.array([[1, 1, 2, 2]] * 4))
    >>> count_boundaries([outline], outline)
    BoundaryCounts(matched_truth=4, truth=4, matched_guess=4, guess=4, matched_each=(4,))
    """
    if len(truths) == 0:
        raise BadInput("a result needs at least one ground truth to be compared with")
    pair = partial(_matched, guess=guess, max_dist=max_dist)
    if threads > 1 and len(truths) > 1:
        with ThreadPoolExecutor(threads) as pool:
            matched = list(pool.map(pair, truths))
    else:
        matched = [pair(truth) for truth in truths]
    each = tuple(int(np.count_nonzero(m)) for m in matched)
    union = int(np.count_nonzero(np.logical_or.reduce(matched)))
    return BoundaryCounts(sum(each), sum(map(len, truths)), union, len(guess), each)


def _matched(truth: Outline, guess: Outline, max_dist: float) -> Bits:
    """Which pixels of the guess have a partner."""
    matched: Bits = match(truth, guess, max_dist) >= 0
    return matched


def _judged(truth: Mask, guess: Mask, ignore: Mask | None) -> tuple[Mask, Mask]:
    truth.check_frame(guess)
    return (truth, guess) if ignore is None else (truth - ignore, guess - ignore)


def _radius(shape: tuple[int, ...], tolerance: float) -> int:
    if not tolerance >= 0:
        raise BadInput(f"tolerance {tolerance} is negative; give a share of the diagonal or pixels")
    return math.ceil(tolerance * math.hypot(*shape)) if tolerance < 1 else int(tolerance)


def _near(outline: Outline, points: Outline, radius: int) -> Bits:
    """Which of `points` lie within a disc of some pixel of the outline.

    A row of the disc is a stretch of raster indices; two look-ups tell whether the outline
    has a pixel in it.
    """
    width = outline.shape[1]
    y, x = np.divmod(points.places, width)
    near = np.zeros(len(points), dtype=bool)
    for dy in range(-radius, radius + 1):
        half = math.isqrt(radius * radius - dy * dy)
        start = (y + dy) * width
        first = np.searchsorted(outline.places, start + np.maximum(x - half, 0))
        beyond = np.searchsorted(outline.places, start + np.minimum(x + half, width - 1), "right")
        near |= beyond > first
    return near

"""Boundary measures: how many boundary pixels of one side the other side has too.

For a prediction with boundary D and ground truths with boundaries B_1 .. B_K: precision is the
share of D matched with *at least one* ground truth, recall the share of all B_k together that is
matched, F_b = 2PR / (P + R). So a boundary drawn by any annotator counts for precision, while
recall requires those of all annotators.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits, Mask
from segmeter.core.measures import measure
from segmeter.core.morphology import fill_ignored
from segmeter.measures.matching import MAX_DIST, match
from segmeter.measures.objects_and_parts import harmonic
from segmeter.measures.outlines import Grid, Outline, mask_outline, outline
from segmeter.measures.tables import GroundTruths, Labels


@dataclass(frozen=True, slots=True)
class BoundaryCounts:
    """Boundary pixels, all and matched, of a prediction and of its ground truths together.

    Precision, recall and F are those of one image under the rule `seism`: an empty ground truth
    gives R = 1 and P = 0, an empty prediction P = 1 and R = 0, and two empty maps F = 0.
    """

    matched_ground_truth: int
    ground_truth: int
    matched_prediction: int
    prediction: int
    matched_each: tuple[int, ...] = ()

    @property
    def defined(self) -> bool:
        """Whether there is any boundary to score."""
        return self.ground_truth + self.prediction > 0

    @property
    def precision(self) -> float:
        if self.ground_truth == 0:
            return 0.0
        return self.matched_prediction / self.prediction if self.prediction else 1.0

    @property
    def recall(self) -> float:
        return self.matched_ground_truth / self.ground_truth if self.ground_truth else 1.0

    @property
    def f(self) -> float:
        return harmonic(self.precision, self.recall)


@measure("fb", cite="martin2004", dimensions=(2,))
def boundary_f(
    ground_truths: GroundTruths, prediction: Labels, max_dist: float = MAX_DIST
) -> float:
    """F of boundary pixels on the pixel grid: thinned, matched one to one.

    >>> left_right = np.array([[1, 1, 2, 2]] * 4)
    >>> boundary_f(left_right, left_right), boundary_f(left_right, np.ones((4, 4), int))
    (1.0, 0.0)
    """
    return boundary_counts(ground_truths, prediction, "pixel", max_dist).f


@measure("fb-contour", cite="martin2004", dimensions=(2,))
def boundary_f_contour(
    ground_truths: GroundTruths, prediction: Labels, max_dist: float = MAX_DIST
) -> float:
    """F of boundary pieces on the contour grid, between pixels: matched, not thinned.

    >>> labels = np.array([[1, 1, 2, 2]] * 4)
    >>> boundary_f_contour(labels, labels)
    1.0
    """
    return boundary_counts(ground_truths, prediction, "contour", max_dist).f


@measure("fb-object", both_empty=1.0, one_empty=0.0, cite="martin2004", dimensions=(2,))
def object_boundary_f(
    ground_truth: Mask, prediction: Mask, ignore: Mask | None = None, max_dist: float = MAX_DIST
) -> float:
    """F of the pixels of two objects' outlines, matched one to one; 1 if neither has one.

    >>> square = Mask.box((20, 20), (5, 5), (15, 15))
    >>> object_boundary_f(square, square)
    1.0
    """
    ground_truth.check_frame(prediction)
    ours, theirs = (mask_outline(fill_ignored(m, ignore)) for m in (ground_truth, prediction))
    counts = count_boundaries([ours], theirs, max_dist)
    return counts.f if counts.defined else 1.0


@measure("fb-morphological", both_empty=1.0, one_empty=0.0, cite="perazzi2016", dimensions=(2,))
def morphological_f(
    ground_truth: Mask, prediction: Mask, ignore: Mask | None = None, tolerance: float = 0.008
) -> float:
    """F of the pixels of two objects' outlines that lie near the other: no pairing.

    Near is within `tolerance` of the diagonal, rounded up, or within so many pixels when
    it is 1 or more. Several pixels may be near the same one, so the value is never far
    below that of `fb-object` and often above it.

    >>> square = Mask.box((20, 20), (5, 5), (15, 15))
    >>> morphological_f(square, Mask.box((20, 20), (5, 6), (15, 16)))
    1.0
    """
    ground_truth.check_frame(prediction)
    if ignore is not None:  # as the code of DAVIS does
        ground_truth, prediction = ground_truth - ignore, prediction - ignore
    ours, theirs = (mask_outline(m, thinned=False) for m in (ground_truth, prediction))
    if not len(ours) and not len(theirs):
        return 1.0
    if not tolerance >= 0:
        raise BadInput(f"tolerance {tolerance} is negative; give a share of the diagonal or pixels")
    diagonal = math.hypot(*ground_truth.shape)
    radius = math.ceil(tolerance * diagonal) if tolerance < 1 else int(tolerance)
    precision = float(_near(ours, theirs, radius).mean()) if len(theirs) else 1.0
    recall = float(_near(theirs, ours, radius).mean()) if len(ours) else 1.0
    return harmonic(precision, recall)


def boundary_counts(
    ground_truths: GroundTruths,
    prediction: Labels,
    grid: Grid = "pixel",
    max_dist: float = MAX_DIST,
    threads: int = 1,
) -> BoundaryCounts:
    """Count the matched boundary pixels of a partition against one or several ground truths.

    >>> labels = np.array([[1, 1, 2, 2]] * 4)
    >>> boundary_counts(labels, labels)
    BoundaryCounts(matched_ground_truth=4, ground_truth=4, matched_prediction=4, prediction=4,
                   matched_each=(4,))
    """
    return count_boundaries(
        outlines(ground_truths, grid), outline(prediction, grid), max_dist, threads
    )


def outlines(ground_truths: GroundTruths, grid: Grid = "pixel") -> list[Outline]:
    """Outlines of ground truths, to be found once and used for many predictions.

    >>> [len(outline) for outline in outlines(np.array([[1, 1, 2, 2]] * 4))]
    [4]
    """
    several = [ground_truths] if isinstance(ground_truths, np.ndarray) else ground_truths
    return [outline(t, grid, f"ground truth {place}") for place, t in enumerate(several, 1)]


def count_boundaries(
    ground_truths: Sequence[Outline],
    prediction: Outline,
    max_dist: float = MAX_DIST,
    threads: int = 1,
) -> BoundaryCounts:
    """Count the matched pixels of a boundary map, taken as it is, against several ground truths.

    >>> (outline,) = outlines(np.array([[1, 1, 2, 2]] * 4))
    >>> count_boundaries([outline], outline)
    BoundaryCounts(matched_ground_truth=4, ground_truth=4, matched_prediction=4, prediction=4,
                   matched_each=(4,))
    """
    if len(ground_truths) == 0:
        raise BadInput("a result needs at least one ground truth to be compared with")

    def pair(ground_truth: Outline) -> Bits:
        """Which pixels of the prediction have a partner."""
        return np.asarray(match(ground_truth, prediction, max_dist) >= 0)

    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            matched = list(pool.map(pair, ground_truths))
    else:
        matched = [pair(ground_truth) for ground_truth in ground_truths]
    each = tuple(int(np.count_nonzero(m)) for m in matched)
    union = int(np.count_nonzero(np.logical_or.reduce(matched)))
    return BoundaryCounts(sum(each), sum(map(len, ground_truths)), union, len(prediction), each)


def _near(outline: Outline, points: Outline, radius: int) -> Bits:
    """Which of `points` lie within a disc of some pixel of the outline."""
    from scipy.spatial import KDTree

    ours, theirs = (np.column_stack(np.divmod(o.places, o.shape[1])) for o in (outline, points))
    distances, _ = KDTree(ours).query(theirs, distance_upper_bound=radius + 0.5)
    return np.asarray(distances <= radius)

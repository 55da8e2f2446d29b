"""Sweeps over thresholds: boundary counts at each, precision-recall curves, and their numbers.

ODS is the best F with one threshold for all images, OIS with each image's own, AP the
area under the curve, R50 the recall at half precision. Three programs compute them in different
ways; a rule names the program:

- `seism`: no interpolation between thresholds; an image without any boundary left counts
  as precise (P = 1), which lifts AP.
- `bench`: BSDS500's benchmark; 100 points between neighbouring thresholds for ODS; an empty
  side gives 0.
- `edges`: as `bench`, with R50; of equal recalls the curve keeps the first only.

AP sums 101 samples over 100 in all three, so a perfect curve scores 1.01, and R50 jumps when
precision does not fall steadily; `corrected_ap` and `corrected_r50` fix both.

Thresholds of a map are nested, so equal numbers of pixels mean equal maps, which are matched
once. Threads share the thresholds; the kernels run outside the interpreter's lock.

The region benchmark of BSDS500 also sweeps a method over its settings. Its covering is pooled:
images with more annotators weigh more. Covering's *best* lets every ground-truth region choose
its own setting.

    Arbelaez, Maire, Fowlkes, Malik. Contour detection and hierarchical image segmentation.
    IEEE TPAMI 33(5), 2011.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, check_choice
from segmeter.core.masks import Bits
from segmeter.measures.boundaries import BoundaryCounts, count_boundaries
from segmeter.measures.hierarchies import check_contour_size
from segmeter.measures.matching import MAX_DIST
from segmeter.measures.objects_and_parts import harmonic, harmonics
from segmeter.measures.outlines import Outline, thin
from segmeter.measures.tables import Comparison

Rule = Literal["seism", "bench", "edges"]
Real = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
_STEPS = np.linspace(0, 1, 100)[:, None]
_SAMPLES = np.linspace(0, 1, 101)


@dataclass(frozen=True, slots=True)
class Point:
    """A place on a curve; `threshold` is None where every image has its own."""

    threshold: float | None
    precision: float
    recall: float

    @property
    def f(self) -> float:
        return harmonic(self.precision, self.recall)


@dataclass(frozen=True, slots=True)
class Curve:
    """Precision and recall of a set at each threshold, and what sums them up.

    `r50` is None but under the rule `edges`, and there NaN when no precision reaches half.
    """

    rule: Rule
    thresholds: Real
    precision: Real
    recall: Real
    ods: Point
    ois: Point
    ap: float
    r50: float | None

    @property
    def f(self) -> Real:
        return harmonics(self.precision, self.recall)

    @property
    def corrected_ap(self) -> float:
        """Area under the upper envelope, from recall 0, by trapezoids: 1 for a perfect curve.

        The envelope is the best precision at this recall or more.
        """
        order = np.argsort(self.recall, kind="stable")
        envelope = np.maximum.accumulate(self.precision[order][::-1])[::-1]
        recall = np.append(0.0, self.recall[order])
        return float(np.trapezoid(np.append(envelope[0], envelope), recall))

    @property
    def corrected_r50(self) -> float:
        """The largest recall at a precision of at least half; 0 if there is none."""
        return float(np.max(self.recall[self.precision >= 0.5], initial=0.0))


@dataclass(frozen=True, slots=True)
class PooledCounts:
    """Matched and all boundary pixels; arrays are images x thresholds. Counts are pooled."""

    thresholds: Real
    matched_ground_truth: Whole
    ground_truth: Whole
    matched_prediction: Whole
    prediction: Whole

    def __post_init__(self) -> None:
        _check_sizes(self.thresholds, self.parts)

    @classmethod
    def of(
        cls, thresholds: Sequence[float] | Real, images: Sequence[Sequence[BoundaryCounts]]
    ) -> PooledCounts:
        """Gather the counts of each image at each threshold."""
        for place, row in enumerate(images, 1):
            if len(row) != len(thresholds):
                raise BadInput(
                    f"image {place} has counts at {len(row)} thresholds, not {len(thresholds)}"
                )
        names = ("matched_ground_truth", "ground_truth", "matched_prediction", "prediction")
        parts = [np.array([[getattr(c, n) for c in row] for row in images]) for n in names]
        size = len(images), len(thresholds)
        return cls(np.asarray(thresholds, dtype=np.float64), *(p.reshape(size) for p in parts))

    @property
    def parts(self) -> tuple[Whole, ...]:
        matched, of_prediction = self.matched_ground_truth, self.matched_prediction
        return matched, self.ground_truth, of_prediction, self.prediction

    def of_images(self, rule: Rule) -> tuple[Real, Real]:
        """Precision and recall of each image at each threshold."""
        return _rates(rule, False, *self.parts)

    @staticmethod
    def of_set(rule: Rule, parts: Iterable[npt.NDArray[Any]]) -> tuple[Real, Real]:
        """Precision and recall of all images together, from tables of images x thresholds."""
        return _rates(rule, True, *(part.sum(axis=0) for part in parts))


@dataclass(frozen=True, slots=True)
class MeanScores:
    """Precision and recall, images x thresholds, that are averaged: F_op and F_r."""

    thresholds: Real
    precision: Real
    recall: Real

    def __post_init__(self) -> None:
        _check_sizes(self.thresholds, self.parts)

    @property
    def parts(self) -> tuple[Real, Real]:
        return self.precision, self.recall

    def of_images(self, rule: Rule) -> tuple[Real, Real]:
        return self.parts

    @staticmethod
    def of_set(rule: Rule, parts: Iterable[npt.NDArray[Any]]) -> tuple[Real, Real]:
        precision, recall = (part.mean(axis=0) for part in parts)
        return precision, recall


Sweep = PooledCounts | MeanScores


def summarize(sweep: Sweep, rule: Rule = "seism") -> Curve:
    """The curve of a sweep and its ODS, OIS, AP and R50 under a rule.

    >>> counts = [[BoundaryCounts(8, 10, 6, 12), BoundaryCounts(4, 10, 4, 4)]]
    >>> curve = summarize(PooledCounts.of([0.2, 0.8], counts))
    >>> round(curve.ods.f, 3), curve.ods.threshold
    (0.615, 0.2)
    """
    check_choice("rule", rule, get_args(Rule))
    precision, recall = sweep.of_set(rule, sweep.parts)
    chosen = np.argmax(harmonics(*sweep.of_images(rule)), axis=1)[:, None]
    own_best = sweep.of_set(rule, (np.take_along_axis(part, chosen, 1) for part in sweep.parts))
    return Curve(
        rule,
        sweep.thresholds,
        precision,
        recall,
        ods=_best(sweep.thresholds, precision, recall, between=rule != "seism"),
        ois=Point(None, *(float(value[0]) for value in own_best)),
        ap=_area(precision, recall),
        r50=_recall_at_half(precision, recall) if rule == "edges" else None,
    )


def _rates(
    rule: Rule,
    pooled: bool,
    matched_ground_truth: Whole,
    ground_truth: Whole,
    matched_prediction: Whole,
    prediction: Whole,
) -> tuple[Real, Real]:
    """Precision and recall from counts; what an empty side scores depends on the program."""
    precision = matched_prediction / np.maximum(prediction, 1)
    recall = matched_ground_truth / np.maximum(ground_truth, 1)
    if rule != "seism":
        return precision, recall
    no_prediction, no_ground_truth = prediction == 0, ground_truth == 0
    if pooled:  # of a set, an empty prediction decides first; of one image, an empty ground truth
        no_ground_truth = no_ground_truth & ~no_prediction
        nothing = (prediction > 0) & (matched_ground_truth == 0) & ~no_ground_truth
        precision = np.where(nothing, 0.0, precision)
    else:
        no_prediction = no_prediction & ~no_ground_truth
    precision = np.where(no_prediction, 1.0, np.where(no_ground_truth, 0.0, precision))
    recall = np.where(no_prediction, 0.0, np.where(no_ground_truth, 1.0, recall))
    return precision, recall


def _best(thresholds: Real, precision: Real, recall: Real, between: bool) -> Point:
    """The first place with the largest F, among thresholds or also between neighbours."""
    columns = [np.asarray(values, dtype=np.float64) for values in (thresholds, precision, recall)]
    if between and len(thresholds) > 1:
        columns = [
            np.append(v[0], (v[:-1] * (1 - _STEPS) + v[1:] * _STEPS).T.ravel()) for v in columns
        ]
    best = int(np.argmax(harmonics(columns[1], columns[2])))
    return Point(*(float(values[best]) for values in columns))


def _area(precision: Real, recall: Real) -> float:
    """Area under the curve: 101 samples of recall, nothing outside, summed over 100."""
    recalls, first = np.unique(recall, return_index=True)
    if len(recalls) < 2:
        return 0.0
    samples = np.interp(_SAMPLES, recalls, precision[first], left=0.0, right=0.0)
    return float(samples.sum() / 100)


def _recall_at_half(precision: Real, recall: Real) -> float:
    """Recall at half precision, along a curve in falling recall without equal recalls."""
    _, first = np.unique(recall, return_index=True)
    precision, recall = precision[first[::-1]], recall[first[::-1]]
    precisions, first = np.unique(precision, return_index=True)
    at = max(0.5, float(precisions[0]))
    return float(np.interp(at, precisions, recall[first], right=np.nan))


def _check_sizes(thresholds: Real, parts: Sequence[npt.NDArray[np.generic]]) -> None:
    for part in parts:
        if part.ndim != 2 or part.shape[1] != len(thresholds) or part.shape != parts[0].shape:
            raise BadInput(
                f"a sweep needs tables of images x {len(thresholds)} thresholds, "
                f"but one is {' x '.join(map(str, part.shape))}"
            )
    if parts[0].size == 0:
        raise BadInput("a sweep needs at least one image and one threshold")


THRESHOLDS: Real = np.arange(1, 100) / 100
"""0.01, 0.02 .. 0.99, as the benchmarks have it."""

_SMALLEST = float(np.finfo(np.float64).eps)


def sweep_edge_map(
    ground_truths: Sequence[Outline],
    strengths: npt.NDArray[Any],
    thresholds: Sequence[float] | Real = THRESHOLDS,
    rule: Rule = "bench",
    max_dist: float = MAX_DIST,
    threads: int = 1,
) -> list[BoundaryCounts]:
    """Counts of an edge map, cut at each threshold and thinned, against ground truths.

    The map is `(H, W)`, 0 to 1 as the thresholds are; for a hierarchy give `contour_strengths` of
    its contour map. The rules `bench` and `edges` keep strengths of at least the threshold, `seism`
    those above it.

    >>> from segmeter.measures.boundaries import outlines
    >>> labels = np.array([[1, 1, 2, 2]] * 4)
    >>> len(sweep_edge_map(outlines(labels), np.zeros((4, 4)), [0.3, 0.6]))
    2
    """
    check_choice("rule", rule, get_args(Rule))
    if strengths.ndim != 2 or strengths.size == 0:
        size = " x ".join(map(str, strengths.shape))
        raise BadInput(f"an edge map is H x W, but this is {size or 'a single number'}")
    if strengths.dtype.kind not in "fiub" or not np.isfinite(strengths).all():
        raise BadInput("an edge map holds finite strengths; this one holds other values")
    if strengths.max() > 1 >= max(thresholds):
        raise BadInput(
            f"an edge map's strengths are 0 to 1, but the largest here is {strengths.max():g}; "
            "divide by the largest possible"
        )

    def cut(threshold: float) -> Bits:
        if rule == "seism":
            return np.asarray(strengths > threshold)
        return np.asarray(strengths >= max(_SMALLEST, threshold))

    def count(threshold: float) -> BoundaryCounts:
        return count_boundaries(ground_truths, Outline.of(thin(cut(threshold))), max_dist)

    pixels = [int(np.count_nonzero(cut(t))) for t in thresholds]
    distinct = dict(zip(pixels, thresholds, strict=True))
    with ThreadPoolExecutor(max(1, threads)) as pool:
        counted = dict(zip(distinct, pool.map(count, distinct.values()), strict=True))
    return [counted[n] for n in pixels]


def contour_strengths(levels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The edge map of a hierarchy: at each pixel the strongest boundary to its right, below
    or around its lower-right corner.

    `levels` is an ultrametric contour map, `(2H + 1, 2W + 1)`. Cutting the result at t gives
    the boundaries of the partition at t.

    >>> contour_strengths(np.array([[0, 0, 0, 0, 0], [0, 0, .7, 0, 0], [0, 0, 0, 0, 0]]))
    array([[0.7, 0. ]])
    """
    check_contour_size(levels)
    strongest = levels[2::2, 2::2].copy()
    right, below = levels[1::2, 2:-1:2], levels[2:-1:2, 1::2]
    for part, lines in (
        (strongest[:, :-1], right),
        (strongest[:-1, :-1], right[1:]),
        (strongest[:-1], below),
        (strongest[:-1, :-1], below[:, 1:]),
    ):
        np.maximum(part, lines, out=part)
    return strongest


@dataclass(frozen=True, slots=True)
class Covering:
    """Covering of one image over a sweep.

    `covered` sums area times best J over the regions of all annotators at each setting, out of
    `coverable`; `best` is the same where every region has its own best setting.
    """

    covered: Real
    coverable: int
    best: float


def covering(sweep: Iterable[Comparison]) -> Covering:
    """Covering of one image for the benchmark, from its comparisons at every setting.

    >>> from segmeter.measures.tables import compare
    >>> labels = np.array([[1, 1, 2, 2]] * 2)
    >>> covering([compare(labels, labels)]).best
    8.0
    """
    settings = [comparison.tables for comparison in sweep]
    if not settings:
        raise BadInput("a sweep needs at least one setting")
    areas = [table.ground_truth_areas.astype(np.float64) for table in settings[0]]
    overlaps = [[t.best_by_column(t.overlap) for t in tables] for tables in settings]
    best = [np.maximum.reduce(of_each) for of_each in zip(*overlaps, strict=True)]
    covered = np.array([_weighted(areas, each) for each in overlaps])
    return Covering(covered, len(areas) * settings[0][0].pixels, _weighted(areas, best))


def _weighted(areas: Sequence[Real], overlaps: Sequence[Real]) -> float:
    return float(sum(a @ o for a, o in zip(areas, overlaps, strict=True)))

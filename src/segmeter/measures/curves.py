"""Precision-recall curves of a sweep, and the numbers that sum them up.

ODS is the best F with one threshold for all images, OIS with each image's own, AP the
area under the curve, R50 the recall at half precision. Three programs compute them, not in
the same way; a rule names whose way is taken:

- `seism`: no interpolation between thresholds; an image without any boundary left counts
  as precise (P = 1), which lifts AP.
- `bench`: BSDS500's benchmark; 100 points between neighbouring thresholds for ODS; an empty
  side gives 0.
- `edges`: as `bench`, with R50; of equal recalls the curve keeps the first only.

AP sums 101 samples over 100 in all three, so a perfect curve scores 1.01, and R50 jumps when
precision does not fall steadily; `corrected_ap` and `corrected_r50` fix both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, check_choice
from segmeter.measures.boundaries import BoundaryCounts
from segmeter.measures.objects_and_parts import harmonic, harmonics

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
    """Precision and recall from counts, with each program's answer to empty sides."""
    precision = matched_prediction / np.maximum(prediction, 1)
    recall = matched_ground_truth / np.maximum(ground_truth, 1)
    if rule != "seism":
        return precision, recall
    no_prediction, no_ground_truth = prediction == 0, ground_truth == 0
    if pooled:  # over a set an empty prediction is asked first, for one image an empty ground truth
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

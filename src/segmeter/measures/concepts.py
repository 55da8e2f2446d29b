"""Concepts: masks of all objects that a phrase names, scored as SAM 3's evaluator does (cgF1).

A pair is an image with a phrase; it is negative where no object of the phrase is in the image.
cgF1 is the micro F1 of masks on positive pairs times the Matthews correlation of answering at
all, averaged over IoU thresholds 0.5 to 0.95.

`published` is what the public evaluator computes, with the constants that it adds to
denominators, one assignment of largest summed IoU for all thresholds, and crowd regions as
background. `corrected` has no constants (0/0 is undefined), matches per threshold, ignores
unmatched masks on crowd regions, takes macro F1 over all positive pairs, and calls cgF1 undefined
where there are no negative pairs instead of 0.

    Carion et al. SAM 3: segment anything with concepts. 2025.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.measures.detection_matching import pairwise_iou

Floats = npt.NDArray[np.float64]
Outcome = Literal["TP", "FP", "FN", "TN"]
THRESHOLDS: Floats = np.linspace(0.5, 0.95, 10)
LEAST_SCORE = 0.5
_OUTCOMES: tuple[Outcome, ...] = ("TP", "FP", "FN", "TN")
_E, _D = 1e-4, 1e-6


@dataclass(frozen=True, slots=True)
class PairScore:
    """One pair against one annotator: counts and F1 per threshold, and whether it answered."""

    outcome: Outcome
    tp: Floats
    fp: Floats
    fn: Floats
    f1: Floats
    annotator: int = 0

    @property
    def sums(self) -> Floats:
        """The pair's share of all totals, `(54,)`: see `concept_scores`."""
        counted = self.outcome != "TN"
        positive = self.outcome in ("TP", "FN")
        parts = [self.tp, self.fp, positive * self.fp, self.fn, np.nan_to_num(self.f1)]
        kinds = [float(self.outcome == kind) for kind in _OUTCOMES]
        return np.concatenate([counted * np.concatenate(parts), kinds])


@dataclass(frozen=True, slots=True)
class Truths:
    """The objects of a phrase in an image by one annotator, and their crowd regions."""

    masks: Sequence[Any]
    crowds: Sequence[Any] = ()


def score_pair(
    predictions: Sequence[Any],
    truths: Truths,
    protocol: ProtocolName,
    annotator: int = 0,
    iou: Floats | None = None,
) -> PairScore:
    """Score the masks of one pair; predictions are those at or above the least score.

    `iou` are the overlaps of predictions and truths where they are known.

    >>> mask = Mask.box((4, 4), (0, 0), (2, 2))
    >>> score_pair([mask], Truths([mask]), "corrected").outcome
    'TP'
    >>> score_pair([], Truths([]), "corrected").outcome
    'TN'
    """
    many, there = len(predictions), len(truths.masks)
    matched = np.zeros((len(THRESHOLDS), many), dtype=bool)
    if many and there:
        matched = _matched(
            pairwise_iou(predictions, truths.masks) if iou is None else iou, protocol
        )
    ignored = np.zeros(many, dtype=bool)
    if protocol == "corrected" and truths.crowds:
        ignored = _in_crowd(predictions, truths.crowds)
    answered = bool((~ignored | matched[0]).any())
    outcome: Outcome = ("TP" if answered else "FN") if there else ("FP" if answered else "TN")
    tp = matched.sum(axis=1).astype(float)
    fp, fn = (~matched & ~ignored).sum(axis=1).astype(float), there - tp
    return PairScore(outcome, tp, fp, fn, _local_f1(tp, fp, fn, outcome, protocol), annotator)


def best_annotator(scores: Sequence[PairScore], protocol: ProtocolName) -> PairScore:
    """The annotator whose judgement is kindest to the prediction.

    Agreement that there is nothing wins, then the larger mean F1. Of equal ones `published` keeps
    the first, `corrected` the first for which any prediction is right.

    >>> mask = Mask.box((4, 4), (0, 0), (2, 2))
    >>> scores = [score_pair([mask], Truths(t), "corrected", k) for k, t in enumerate([[], [mask]])]
    >>> best_annotator(scores, "corrected").annotator
    1
    """
    empty = [one for one in scores if one.outcome == "TN"]
    if empty:
        return empty[-1]
    right = {"TP"} if protocol == "corrected" else set()
    return max(scores, key=lambda one: (float(one.f1.mean()), one.outcome in right))


def sums_of(scores: Sequence[PairScore]) -> Floats:
    """The totals of pairs, `(pairs, 54)`; add them up over the pairs of interest.

    >>> sums_of([score_pair([], Truths([]), "corrected")])[0, -1]
    np.float64(1.0)
    """
    return np.stack([one.sums for one in scores]) if scores else np.zeros((0, 54))


def concept_scores(sums: Floats, protocol: ProtocolName) -> dict[str, Floats]:
    """All numbers from summed totals `(..., 54)`, each of the leading shape; NaN is undefined.

    Averages over thresholds by plain names, those at one threshold as `cgf1@0.5`.

    >>> mask = Mask.box((4, 4), (0, 0), (2, 2))
    >>> pairs = [score_pair(p, Truths(p), "corrected") for p in ([mask], [])]
    >>> float(concept_scores(sums_of(pairs).sum(axis=0), "corrected")["cgf1"])
    1.0
    """
    parts = [sums[..., 10 * k : 10 * k + 10] for k in range(5)]
    tp, fp, fp_positive, fn, f1 = parts
    n_tp, n_fp, n_fn, n_tn = (sums[..., 50 + k] for k in range(4))
    published = protocol == "published"
    e, d = (_E, _D) if published else (0.0, 0.0)
    recall, precision = _ratio(tp, tp + fn + e), _ratio(tp, tp + fp + e)
    micro = _ratio(tp, tp + fp_positive + e)
    positives = n_tp if published else n_tp + n_fn
    by_threshold = {
        "precision": precision,
        "recall": recall,
        "f1": _harmonic(precision, recall, e),
        "positive-micro-precision": micro,
        "positive-micro-f1": _harmonic(micro, recall, e),
        "positive-macro-f1": _ratio(f1, positives[..., None]),
    }
    il_recall, il_precision = _ratio(n_tp, n_tp + n_fn + d), _ratio(n_tp, n_tp + n_fp + d)
    rows = (n_tp + n_fp) * (n_tp + n_fn) * (n_tn + n_fp) * (n_tn + n_fn)
    mcc = _ratio(n_tp * n_tn - n_fp * n_fn, np.sqrt(rows) + d)
    by_threshold["cgf1"] = by_threshold["positive-micro-f1"] * mcc[..., None]
    found = {name: values.mean(-1) for name, values in by_threshold.items()}
    for place, title in ((0, "0.5"), (5, "0.75")):
        found |= {f"{name}@{title}": values[..., place] for name, values in by_threshold.items()}
    return found | {
        "il-recall": il_recall,
        "il-precision": il_precision,
        "il-f1": _harmonic(il_precision, il_recall, d),
        "il-fpr": _ratio(n_fp, n_fp + n_tn + d),
        "il-mcc": mcc,
    }


def _matched(iou: Floats, protocol: ProtocolName) -> npt.NDArray[np.bool_]:
    """Which predictions are matched at every threshold, `(thresholds, predictions)`."""
    from scipy.optimize import linear_sum_assignment

    found = np.zeros((len(THRESHOLDS), len(iou)), dtype=bool)
    for k, t in enumerate(THRESHOLDS):
        # Corrected: most matches at this threshold, then the largest sum of their IoU.
        worth = iou if protocol == "published" else (min(iou.shape) + 1 + iou) * (iou >= t)
        rows, columns = linear_sum_assignment(-worth)
        found[k, rows[iou[rows, columns] >= t]] = True
    return found


def _local_f1(tp: Floats, fp: Floats, fn: Floats, outcome: str, protocol: ProtocolName) -> Floats:
    if outcome == "TN":
        return np.full(len(tp), np.nan)
    if protocol == "corrected":
        return _ratio(2 * tp, 2 * tp + fp + fn)
    precision, recall = tp / (tp + fp + _E), tp / (tp + fn + _E)
    return np.asarray(2 * precision * recall / (precision + recall + _E))


def _harmonic(precision: Floats, recall: Floats, e: float) -> Floats:
    if e:
        return np.asarray(2 * precision * recall / (precision + recall + e))
    both = _ratio(2 * precision * recall, precision + recall)
    # Also of who answers nothing: precision is 0/0, but 2 TP / (2 TP + FP + FN) is 0.
    return np.where((recall == 0) & ~(precision > 0), 0.0, both)


def _ratio(above: Floats, below: Floats) -> Floats:
    """NaN where the denominator is zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(below == 0, np.nan, above / np.where(below == 0, 1, below)))


def _in_crowd(predictions: Sequence[Any], crowds: Sequence[Any]) -> npt.NDArray[np.bool_]:
    """Whether crowd regions cover more than half of each prediction; of boxes, one of them."""
    if isinstance(crowds[0], Mask):
        crowds = [reduce(or_, crowds)]
    shares = pairwise_iou(predictions, crowds, np.ones(len(crowds), bool))
    return np.asarray(shares.max(axis=1) > 0.5)

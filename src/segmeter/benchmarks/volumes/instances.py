"""Dice of a case with several instances: each mask with the target it was prompted for, or
re-matched as the original does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from segmeter.core.masks import Mask
from segmeter.measures.objects import dice

__all__ = ["case_dice", "published_case_dice", "published_entries"]


def case_dice(ground_truths: Sequence[Mask], predictions: Sequence[Mask]) -> float:
    """Mean Dice of pairs; an empty prediction scores 0, a pair of empty masks is not counted."""
    pairs = [(t, g) for t, g in zip(ground_truths, predictions, strict=True) if t or g]
    return float(np.mean([dice(t, g) for t, g in pairs])) if pairs else float("nan")


def published_case_dice(ground_truths: Sequence[Mask], predictions: Sequence[Mask]) -> float:
    """The original's `lw_dice` of a case: the mean of its entries.

    >>> one, two = Mask.box((9,), (0,), (3,)), Mask.box((9,), (4,), (7,))
    >>> published_case_dice([one, two], [one, Mask.box((9,), (7,), (9,))])
    0.333...
    >>> case_dice([one, two], [two, one]), published_case_dice([one, two], [two, one])
    (0.0, 1.0)
    """
    entries = published_entries(ground_truths, predictions)
    return float(np.mean(entries)) if entries else float("nan")


def published_entries(ground_truths: Sequence[Mask], predictions: Sequence[Mask]) -> list[float]:
    """Dice of predictions and ground truths after re-matching, best first.

    Which prompt made which mask is forgotten: the assignment with the largest sum of Dice
    counts. An unmatched prediction is an entry of 0, and so is a ground truth, so that a miss
    costs two. An empty prediction for the first instance is dropped, a later one is not.
    """
    from scipy.optimize import linear_sum_assignment

    kept = [g for i, g in enumerate(predictions) if g or i > 0]
    table = np.array([[_dice(t, g) for t in ground_truths] for g in kept]).reshape(
        len(kept), len(ground_truths)
    )
    rows, columns = linear_sum_assignment(table, maximize=True)
    matched = [float(table[r, c]) for r, c in zip(rows, columns, strict=True) if table[r, c] > 0]
    left = len(kept) + len(ground_truths) - 2 * len(matched)
    return sorted(matched, reverse=True) + [0.0] * left


def _dice(ground_truth: Mask, prediction: Mask) -> float:
    return dice(ground_truth, prediction) if ground_truth and prediction else 0.0

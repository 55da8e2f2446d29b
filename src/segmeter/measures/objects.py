"""Region measures of one object: how much of it the prediction holds.

All take `(ground_truth, prediction)` and, where the data has pixels that are not judged, `ignore`.
"""

from __future__ import annotations

from segmeter.core.masks import Mask
from segmeter.core.measures import measure
from segmeter.measures.references import REFERENCES

__all__ = ["dice", "iou", "precision", "recall"]


@measure("iou", both_empty=1.0, one_empty=0.0, cite=REFERENCES["jaccard1912"])
def iou(ground_truth: Mask, prediction: Mask, ignore: Mask | None = None) -> float:
    """Share of the union that both masks hold (Jaccard's index, J).

    >>> iou(Mask.box((4, 4), (0, 0), (2, 4)), Mask.box((4, 4), (1, 0), (3, 4)))
    0.333...
    """
    both, ground_truths, predictions = _areas(ground_truth, prediction, ignore)
    return both / (ground_truths + predictions - both)


@measure("dice", both_empty=1.0, one_empty=0.0, cite=REFERENCES["dice1945"])
def dice(ground_truth: Mask, prediction: Mask, ignore: Mask | None = None) -> float:
    """Twice the shared pixels over the pixels of both (F of precision and recall).

    >>> dice(Mask.box((4, 4), (0, 0), (2, 4)), Mask.box((4, 4), (1, 0), (2, 4)))
    0.6666666666666666
    """
    both, ground_truths, predictions = _areas(ground_truth, prediction, ignore)
    return 2 * both / (ground_truths + predictions)


@measure("precision", both_empty=1.0, one_empty=0.0)
def precision(ground_truth: Mask, prediction: Mask, ignore: Mask | None = None) -> float:
    """Share of the prediction that is right.

    >>> precision(Mask.box((4, 4), (0, 0), (2, 4)), Mask.box((4, 4), (1, 0), (2, 4)))
    1.0
    """
    both, _, predictions = _areas(ground_truth, prediction, ignore)
    return both / predictions


@measure("recall", both_empty=1.0, one_empty=0.0)
def recall(ground_truth: Mask, prediction: Mask, ignore: Mask | None = None) -> float:
    """Share of the ground truth that was found.

    >>> recall(Mask.box((4, 4), (0, 0), (2, 4)), Mask.box((4, 4), (1, 0), (2, 4)))
    0.5
    """
    both, ground_truths, _ = _areas(ground_truth, prediction, ignore)
    return both / ground_truths


def _areas(ground_truth: Mask, prediction: Mask, ignore: Mask | None) -> tuple[int, int, int]:
    """Judged pixels of both together, of the ground truth and of the prediction."""
    if ignore is not None:
        ground_truth, prediction = ground_truth - ignore, prediction - ignore
    return ground_truth.overlap(prediction), ground_truth.area, prediction.area

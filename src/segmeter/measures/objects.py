"""Region measures of one object: how much of it the guess holds.

All take `(truth, guess)` and, where the data has pixels that are not judged, `ignore`.
"""

from __future__ import annotations

from segmeter.core.masks import Mask
from segmeter.core.measures import measure
from segmeter.measures.references import REFERENCES

__all__ = ["dice", "iou", "precision", "recall"]


@measure("iou", both_empty=1.0, one_empty=0.0, cite=REFERENCES["jaccard1912"])
def iou(truth: Mask, guess: Mask, ignore: Mask | None = None) -> float:
    """Share of the union that both masks hold (Jaccard's index, J).

    >>> iou(Mask.box((4, 4), (0, 0), (2, 4)), Mask.box((4, 4), (1, 0), (3, 4)))
    0.333...
    """
    both, truths, guesses = _areas(truth, guess, ignore)
    return both / (truths + guesses - both)


@measure("dice", both_empty=1.0, one_empty=0.0, cite=REFERENCES["dice1945"])
def dice(truth: Mask, guess: Mask, ignore: Mask | None = None) -> float:
    """Twice the shared pixels over the pixels of both (F of precision and recall).

    >>> dice(Mask.box((4, 4), (0, 0), (2, 4)), Mask.box((4, 4), (1, 0), (2, 4)))
    0.6666666666666666
    """
    both, truths, guesses = _areas(truth, guess, ignore)
    return 2 * both / (truths + guesses)


@measure("precision", both_empty=1.0, one_empty=0.0)
def precision(truth: Mask, guess: Mask, ignore: Mask | None = None) -> float:
    """Share of the guess that is right.

    >>> precision(Mask.box((4, 4), (0, 0), (2, 4)), Mask.box((4, 4), (1, 0), (2, 4)))
    1.0
    """
    both, _, guesses = _areas(truth, guess, ignore)
    return both / guesses


@measure("recall", both_empty=1.0, one_empty=0.0)
def recall(truth: Mask, guess: Mask, ignore: Mask | None = None) -> float:
    """Share of the truth that was found.

    >>> recall(Mask.box((4, 4), (0, 0), (2, 4)), Mask.box((4, 4), (1, 0), (2, 4)))
    0.5
    """
    both, truths, _ = _areas(truth, guess, ignore)
    return both / truths


def _areas(truth: Mask, guess: Mask, ignore: Mask | None) -> tuple[int, int, int]:
    """Judged pixels of both together, of the truth and of the guess."""
    if ignore is not None:
        truth, guess = truth - ignore, guess - ignore
    return truth.overlap(guess), truth.area, guess.area

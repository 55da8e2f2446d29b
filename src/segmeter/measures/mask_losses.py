"""Mask losses that Segment Anything is trained to minimise, as numbers to check a trainer by.

A mask's loss is 20 x focal + dice. Of the three masks of an ambiguous prompt only the one with
the lowest loss counts; the score is to be the mask's own IoU, by the square of its error for that
mask (`published`, SAM) or by its size for all three (SAM 2).

    Kirillov et al. Segment anything. ICCV 2023, section 3 and supplement A.
    Ravi et al. SAM 2. arXiv 2408.00714.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput

__all__ = ["StepLoss", "dice_loss", "focal_loss", "score_errors", "step_loss"]

Values = npt.NDArray[np.float64]
FOCAL_WEIGHT = 20.0


@dataclass(frozen=True, slots=True)
class StepLoss:
    """One step's sums, divided by the number of objects; `best` is the mask that counts."""

    focal: float
    dice: float
    score: float
    total: float
    best: tuple[int, ...]


def focal_loss(
    logits: npt.ArrayLike, targets: npt.ArrayLike, alpha: float = 0.25, gamma: float = 2.0
) -> Values:
    """Mean focal loss over the last two axes.

    >>> float(focal_loss([[0.0]], [[True]]).round(6))
    0.043322
    """
    x, inside = _checked(logits, targets)
    p = _sigmoid(x)
    surprise = np.maximum(x, 0) - x * inside + np.log1p(np.exp(-np.abs(x)))
    hit = np.where(inside, p, 1 - p)
    weight = np.where(inside, alpha, 1 - alpha)
    return np.asarray((weight * surprise * (1 - hit) ** gamma).mean(axis=(-2, -1)))


def dice_loss(logits: npt.ArrayLike, targets: npt.ArrayLike) -> Values:
    """One minus the soft Dice coefficient over the last two axes, one added above and below.

    >>> float(dice_loss([[50.0]], [[True]]).round(6))
    0.0
    """
    x, inside = _checked(logits, targets)
    p = _sigmoid(x)
    shared, both = (p * inside).sum(axis=(-2, -1)), (p + inside).sum(axis=(-2, -1))
    return np.asarray(1 - (2 * shared + 1) / (both + 1))


def score_errors(logits: npt.ArrayLike, targets: npt.ArrayLike, scores: npt.ArrayLike) -> Values:
    """How far each predicted IoU is from the true one at threshold 0; a union is at least 1.

    >>> score_errors([[[2.0, -2.0]]], [[[True, True]]], [0.75]).tolist()
    [0.25]
    """
    x, inside = _checked(logits, targets)
    mask = x > 0
    shared = (mask & inside).sum(axis=(-2, -1))
    union = (mask | inside).sum(axis=(-2, -1))
    return np.asarray(np.asarray(scores, dtype=np.float64) - shared / np.maximum(union, 1))


def step_loss(
    logits: npt.ArrayLike,
    targets: npt.ArrayLike,
    scores: npt.ArrayLike,
    kind: Literal["sam", "sam2"] = "sam",
) -> StepLoss:
    """The loss of one step: logits `(n, k, H, W)`, targets `(n, H, W)`, scores `(n, k)`.

    Focal and dice are those of the same mask, the best by `20 focal + dice`, the first of
    equal ones.

    >>> logits = [[[[9.0, -9.0]], [[-9.0, 9.0]]]]
    >>> step_loss(logits, [[[True, False]]], [[0.9, 0.5]]).best
    (0,)
    """
    goal = np.asarray(targets)[:, None]
    focal, dice = focal_loss(logits, goal), dice_loss(logits, goal)
    wrong = score_errors(logits, goal, scores)
    best = np.argmin(FOCAL_WEIGHT * focal + dice, axis=1)
    rows = np.arange(len(best))
    told = wrong[rows, best] ** 2 if kind == "sam" else np.abs(wrong).mean(axis=1)
    sharp, soft, score = (
        float(v.sum() / len(best)) for v in (focal[rows, best], dice[rows, best], told)
    )
    return StepLoss(sharp, soft, score, FOCAL_WEIGHT * sharp + soft + score, tuple(best.tolist()))


def _checked(logits: npt.ArrayLike, targets: npt.ArrayLike) -> tuple[Values, npt.NDArray[np.bool_]]:
    x, inside = np.asarray(logits, dtype=np.float64), np.asarray(targets, dtype=bool)
    if x.ndim < 2 or inside.ndim < 2 or x.shape[-2:] != inside.shape[-2:]:
        raise BadInput(f"logits of {x.shape} and targets of {inside.shape} are not of one size")
    return x, inside


def _sigmoid(x: Values) -> Values:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)))

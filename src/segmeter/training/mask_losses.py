"""Mask losses of Segment Anything: focal, dice and the error of the predicted IoU.

A mask's loss is 20 x focal + dice. Of the three masks of an ambiguous prompt only the one with
the lowest loss is trained. The predicted IoU is trained towards the mask's own IoU: by the
squared error of that mask (`sam`), or by the absolute error of all masks (`sam2`).

    Kirillov et al. Segment anything. ICCV 2023, section 3 and supplement A.
    Ravi et al. SAM 2. arXiv 2408.00714.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from segmeter.core.errors import BadInput, check_choice

ScoreLoss = Literal["sam", "sam2"]
FOCAL_WEIGHT = 20.0


@dataclass(frozen=True, slots=True)
class StepLoss:
    """Losses of one step as means over its objects, each a scalar tensor.

    `best` is the index of the mask that is trained, `(n,)`.
    """

    focal: Tensor
    dice: Tensor
    score: Tensor
    best: Tensor

    @property
    def total(self) -> Tensor:
        return FOCAL_WEIGHT * self.focal + self.dice + self.score


def focal_loss(logits: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    """Mean focal loss over the last two axes; targets are boolean.

    >>> round(float(focal_loss(torch.tensor([[0.0]]), torch.tensor([[True]]))), 6)
    0.043322
    """
    goal = _checked(logits, targets)
    surprise = F.binary_cross_entropy_with_logits(logits, goal, reduction="none")
    hit = torch.where(goal > 0, logits.sigmoid(), (-logits).sigmoid())
    weight = alpha * goal + (1 - alpha) * (1 - goal)
    return (weight * surprise * (1 - hit) ** gamma).mean((-2, -1))


def dice_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """One minus the soft Dice coefficient over the last two axes, one added above and below.

    >>> float(dice_loss(torch.tensor([[50.0]]), torch.tensor([[True]])))
    0.0
    """
    goal = _checked(logits, targets)
    p = logits.sigmoid()
    return 1 - (2 * (p * goal).sum((-2, -1)) + 1) / (p.sum((-2, -1)) + goal.sum((-2, -1)) + 1)


def score_errors(logits: Tensor, targets: Tensor, scores: Tensor) -> Tensor:
    """Predicted minus true IoU at threshold 0; a union is at least 1.

    >>> inside = torch.tensor([[[True, True]]])
    >>> score_errors(torch.tensor([[[2.0, -2.0]]]), inside, torch.tensor([0.75])).tolist()
    [0.25]
    """
    inside = _checked(logits, targets) > 0
    mask = logits > 0
    union = (mask | inside).sum((-2, -1)).clamp(min=1)
    return scores - (mask & inside).sum((-2, -1)) / union


def step_loss(logits: Tensor, targets: Tensor, scores: Tensor, kind: ScoreLoss = "sam") -> StepLoss:
    """The loss of one step: logits `(n, k, H, W)`, targets `(n, H, W)`, scores `(n, k)`.

    Focal and dice are those of the same mask, the best by `20 focal + dice`, the first of
    equal ones.

    >>> logits = torch.tensor([[[[9.0, -9.0]], [[-9.0, 9.0]]]])
    >>> goal = torch.tensor([[[True, False]]])
    >>> step_loss(logits, goal, torch.tensor([[0.9, 0.5]])).best.tolist()
    [0]
    """
    check_choice("kind", kind, get_args(ScoreLoss))
    goal = targets[:, None]
    focal, dice = focal_loss(logits, goal), dice_loss(logits, goal)
    errors = score_errors(logits, goal, scores)
    best = (FOCAL_WEIGHT * focal + dice).detach().argmin(1, keepdim=True)
    squared = errors.gather(1, best) ** 2
    score = squared.mean() if kind == "sam" else errors.abs().mean()
    return StepLoss(focal.gather(1, best).mean(), dice.gather(1, best).mean(), score, best[:, 0])


def _checked(logits: Tensor, targets: Tensor) -> Tensor:
    if logits.ndim < 2 or targets.ndim < 2 or logits.shape[-2:] != targets.shape[-2:]:
        raise BadInput(
            f"logits of shape {tuple(logits.shape)} and targets of shape {tuple(targets.shape)} "
            "differ in height or width; resize one of them"
        )
    return targets.to(logits.dtype).expand_as(logits)

"""Prompt batches: prompts as points with labels, and which requests share a call of the decoder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Click, Point, Prompt, Scribble, Text
from segmeter.models.sam.model import Masks

STROKE_POINTS = 8
"""A stroke is passed on as at most so many points, evenly spaced."""


def clicks_of(prompt: Prompt) -> list[tuple[Point, bool]]:
    """A click or a stroke as points and whether they are on the object; nothing of others."""
    match prompt:
        case Click(point, positive):
            return [(point, positive)]
        case Scribble(points, positive):
            count = min(STROKE_POINTS, len(points))
            picked = np.linspace(0, len(points) - 1, count).round().astype(int)
            return [(points[i], positive) for i in picked]
        case Text():
            raise BadInput("SAM kinds take no text; prompt with clicks, boxes, strokes or masks")
        case _:
            return []


def of_equal_size(sizes: Sequence[int], together: int) -> Iterator[list[int]]:
    """Indices of equal size, at most so many together, in order.

    >>> list(of_equal_size([2, 3, 2, 2], together=2))
    [[0, 2], [3], [1]]
    """
    for members in grouped(range(len(sizes)), sizes.__getitem__).values():
        for start in range(0, len(members), together):
            yield members[start : start + together]


STABILITY_OFFSET, STABLE = 0.05, 0.98
"""SAM 2 keeps its single mask when its area hardly changes with the threshold."""

MOST_FEEDBACK = 32.0
"""SAM 2 clamps the logits that go back in as a prompt."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Choices in which the published wrappers have known flaws, and which mask is shown.

    `masks`: `published` shows the best of three at every click (SAM) or the single mask with
    the stability fall-back (SAM 2); `corrected` the best of three for one lone click and the
    single mask afterwards, for all; `zeroshot` does as Segment Anything's own evaluation: the
    best of three for a lone click (with the first SAM also for a lone box), then the single
    mask (SAM 2 with its fall-back), and every round's logits go back in; `single` always shows
    the single mask, as MedSAM was trained, `best` the best of three. `points`: `published`
    scales pixel indices, `corrected` pixel centres.

    IntRaBench adds three: a `threshold` of 0.5 on SAM's logits where 0 is meant, `sigmoid` of the
    logits passed back as mask prompt, and boxes that end one pixel too late.
    """

    masks: Masks | Literal["single", "best"] = "published"
    points: ProtocolName = "published"
    threshold: float = 0.0
    sigmoid: bool = False
    half_open: bool = False
    boxes_only: bool = False  # trained on boxes: other prompts are refused

    @property
    def offset(self) -> float:
        """Offset of a scaled point inside its pixel."""
        return 0.5 if self.points == "corrected" else 0.0


def shown_masks(
    policy: Policy, second: bool, logits: Tensor, scores: Tensor, several: Tensor
) -> Tensor:
    """Which of the four masks is shown, `(B,)`; `several` marks prompts that are ambiguous."""
    best = 1 + scores[:, 1:].argmax(dim=1)
    if policy.masks in ("single", "best"):
        return best if policy.masks == "best" else torch.zeros_like(best)
    if policy.masks == "published":
        several = torch.full_like(several, not second)
    if second and policy.masks != "corrected":
        several = several | (stability(logits[:, 0]) < STABLE)
    return best.where(several, 0)


def fed_back(policy: Policy, second: bool, logits: Tensor, shown: Tensor) -> Tensor:
    """The part of the shown logits that is fed back as a prompt, `(B, low, low)`."""
    chosen = chosen_of(logits, shown)
    if policy.sigmoid:
        return chosen.sigmoid()
    return chosen.clamp(-MOST_FEEDBACK, MOST_FEEDBACK) if second else chosen


def chosen_of(logits: Tensor, shown: Tensor) -> Tensor:
    """Logits `(B, low, low)` of the masks shown, of all `(B, 4, low, low)`."""
    return logits.take_along_dim(shown[:, None, None, None], 1)[:, 0]


def stability(logits: Tensor) -> Tensor:
    """Share of a looser mask's area that a stricter one keeps, `(B, h, w)` to `(B,)`."""
    strict = (logits > STABILITY_OFFSET).sum((-2, -1))
    loose = (logits > -STABILITY_OFFSET).sum((-2, -1))
    return torch.where(loose > 0, strict / loose, 1.0)

"""Obedience: what a model does with the clicks it is given, round by round.

Notation: `M_k` is the mask after round k (`M_0` is empty), G the ground truth, `u_k` the IoU of
`M_k` and G. Pixels of the ignore region count nowhere. Everything is computed from stored
prompts and masks; the model is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from segmeter.core.masks import Mask
from segmeter.core.prompts import Click

__all__ = ["HURT", "ObservedRound", "Setback", "observe", "rice", "setbacks"]

HURT = 0.01
"""A round hurts when it lowers IoU by more than this: one IoU point."""

Bits = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ObservedRound:
    """How the mask of one round responds to the clicks so far.

    Attributes
    ----------
    iou
        IoU after the round.
    clicks, obeyed
        Clicks of the round outside the ignore region, and those whose pixel has their label.
    right
        Those whose pixel agrees with the ground truth; other than `obeyed` only where the click
        itself was wrong.
    earlier, kept
        Clicks of earlier rounds, and those that this mask still satisfies.
    undone
        Earlier clicks that the last mask satisfied and this one does not.
    changed, became_right, became_wrong
        Pixels that differ from the last mask, and what they became.
    remote
        Changed pixels outside the connected component of the change that holds a clicked pixel.
    repeated
        Whether a pixel was clicked again.
    hurt
        Whether IoU fell by more than one point, from the second round on.
    stuck
        Whether the mask did not change at all, from the second round on.
    rice
        Progress relative to what was left, see `rice`.
    """

    iou: float
    clicks: int
    obeyed: int
    right: int
    earlier: int
    kept: int
    undone: int
    changed: int
    became_right: int
    became_wrong: int
    remote: int
    repeated: bool
    hurt: bool
    stuck: bool
    rice: float


@dataclass(frozen=True, slots=True)
class Setback:
    """A round that hurt: by how much, and how many rounds until IoU was back (None: never)."""

    round: int
    drop: float
    rounds_to_recover: int | None


def observe(
    ground_truth: Mask,
    rounds: Sequence[tuple[Sequence[Click], Mask]],
    ignore: Mask | None = None,
    *,
    hurt: float = HURT,
) -> list[ObservedRound]:
    """Observe a session: its clicks and masks, round by round.

    >>> from segmeter.core.masks import Mask
    >>> square = Mask.box((6, 6), (1, 1), (5, 5))
    >>> (first,) = observe(square, [([Click((2, 2))], Mask.box((6, 6), (1, 1), (3, 5)))])
    >>> first.obeyed, first.became_right, first.rice
    (1, 8, 0.5)
    """
    judged = np.ones(ground_truth.shape, bool) if ignore is None else ~ignore.dense()
    truth = ground_truth.dense() & judged
    last = np.zeros_like(truth)
    last_iou, given, found = _iou(truth, last), list[Click](), list[ObservedRound]()
    for number, (clicks, shown) in enumerate(rounds, 1):
        mask = shown.dense() & judged
        now = _observe_one(truth, last, mask, judged, [*clicks], given, last_iou, number, hurt)
        found.append(now)
        given += clicks
        last, last_iou = mask, now.iou
    return found


def rice(before: float, after: float) -> float:
    """Progress of one step relative to what was left: (a - b) / (1 - b), or a / b - 1 if worse.

    Myers-Dean et al., Interactive segmentation for diverse gesture types without context, WACV
    2024. A perfect mask that stays perfect makes no progress (the published code gives NaN).

    >>> rice(0.5, 0.75), rice(0.8, 0.4), rice(1.0, 1.0)
    (0.5, -0.5, 0.0)
    """
    if after >= before:
        return 0.0 if before >= 1 else (after - before) / (1 - before)
    return after / before - 1


def setbacks(iou: Sequence[float], hurt: float = HURT) -> list[Setback]:
    """Rounds that hurt, with the drop and the rounds until IoU was back.

    >>> setbacks([0.5, 0.3, 0.4, 0.6])
    [Setback(round=2, drop=0.2, rounds_to_recover=2)]
    """
    found = []
    for k in range(1, len(iou)):
        if iou[k] < iou[k - 1] - hurt:
            later = (j for j in range(1, len(iou) - k) if iou[k + j] >= iou[k - 1])
            found.append(Setback(k + 1, iou[k - 1] - iou[k], next(later, None)))
    return found


def _observe_one(
    truth: Bits,
    last: Bits,
    mask: Bits,
    judged: Bits,
    clicks: Sequence[Click],
    earlier: Sequence[Click],
    last_iou: float,
    number: int,
    hurt: float,
) -> ObservedRound:
    iou = _iou(truth, mask)
    fresh, old = (_counted(some, judged) for some in (clicks, earlier))
    kept = [_satisfied(click, mask) for click in old]
    changed = mask != last
    right = int(np.count_nonzero(changed & (mask == truth)))
    total = int(np.count_nonzero(changed))
    return ObservedRound(
        iou=iou,
        clicks=len(fresh),
        obeyed=sum(_satisfied(click, mask) for click in fresh),
        right=sum(bool(mask[_pixel(c)] == truth[_pixel(c)]) for c in fresh),
        earlier=len(old),
        kept=sum(kept),
        undone=sum(_satisfied(c, last) and not k for c, k in zip(old, kept, strict=True)),
        changed=total,
        became_right=right,
        became_wrong=total - right,
        remote=_remote(changed, clicks),
        repeated=bool({_pixel(c) for c in clicks} & {_pixel(c) for c in earlier}),
        hurt=number > 1 and iou < last_iou - hurt,
        stuck=number > 1 and total == 0,
        rice=rice(last_iou, iou),
    )


def _remote(changed: Bits, clicks: Sequence[Click]) -> int:
    """Changed pixels outside the component of the change that holds a clicked pixel."""
    parts, _ = ndimage.label(changed, np.ones((3,) * changed.ndim))
    near = {int(parts[_pixel(click)]) for click in clicks} - {0}
    return int(np.count_nonzero(changed) - np.count_nonzero(np.isin(parts, sorted(near))))


def _iou(truth: Bits, mask: Bits) -> float:
    union = int(np.count_nonzero(truth | mask))
    return int(np.count_nonzero(truth & mask)) / union if union else 1.0


def _counted(clicks: Sequence[Click], judged: Bits) -> list[Click]:
    return [click for click in clicks if judged[_pixel(click)]]


def _satisfied(click: Click, mask: Bits) -> bool:
    return bool(mask[_pixel(click)]) == click.positive


def _pixel(click: Click) -> tuple[int, ...]:
    return tuple(round(p) for p in click.point)

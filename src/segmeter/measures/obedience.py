"""Obedience: how a model follows clicks, round by round.

Notation: `M_k` is the mask after round k (`M_0` is empty), G the ground truth, `u_k` the IoU of
`M_k` and G. Pixels of the ignore region count nowhere. Everything is computed from stored
prompts and masks; the model is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask
from segmeter.core.morphology import components
from segmeter.core.prompts import Box, Click, Prompt, Scribble

HURT = 0.01
"""A round hurts when it lowers IoU by more than this: one IoU point."""

Bits = npt.NDArray[np.bool_]
_GOAL = 0.9  # IoU
_GROWN = 0.1  # of each side of a box, on either side


@dataclass(frozen=True, slots=True)
class Response:
    """How the mask of one round responds to prompts, independent of the ground truth.

    A mask obeys a click by its pixel, a stroke by its share of pixels, a box if nothing is outside
    the box grown by 10 % of each side.
    """

    given: int  # clicks, strokes and boxes of the round
    obeyed: float  # how many of them the mask obeys
    earlier: int  # clicks of earlier rounds
    kept: int  # those that the mask satisfies
    undone: int  # those that the last mask satisfied and this one does not
    changed: bool  # the mask differs from the last one


@dataclass(frozen=True, slots=True)
class ObservedRound(Response):
    """A response to clicks, judged by the ground truth.

    `right` is other than `obeyed` only where the click itself was wrong.
    """

    iou: float  # after the round
    rice: float  # progress relative to what was left
    right: int  # clicks whose pixel agrees with the ground truth
    became_right: int  # pixels that differ from the last mask, by what they became
    became_wrong: int
    remote: int  # those outside the component of the change that holds a clicked pixel
    repeated: bool  # a pixel was clicked again
    hurt: bool  # from the second round on, IoU fell by more than one point
    stuck: bool  # from the second round on, nothing changed short of the goal


@dataclass(frozen=True, slots=True)
class Setback:
    """A round that hurt: by how much, and how many rounds until IoU was back (None: never)."""

    round: int
    drop: float
    rounds_to_recover: int | None


def observe(
    ground_truth: Mask, rounds: Sequence[tuple[Sequence[Click], Mask]], ignore: Mask | None = None
) -> list[ObservedRound]:
    """Observe a session: its clicks and masks, round by round.

    >>> from segmeter.core.masks import Mask
    >>> square = Mask.box((6, 6), (1, 1), (5, 5))
    >>> (first,) = observe(square, [([Click((2, 2))], Mask.box((6, 6), (1, 1), (3, 5)))])
    >>> first.obeyed, first.became_right, first.rice
    (1.0, 8, 0.5)
    """
    listened = responses(rounds, ignore)
    judged = np.ones(ground_truth.shape, bool) if ignore is None else ~ignore.dense()
    truth = ground_truth.dense() & judged
    last = np.zeros_like(truth)
    last_iou, given, found = _iou(truth, last), set[tuple[int, ...]](), list[ObservedRound]()
    for number, (clicks, shown) in enumerate(rounds, 1):
        mask = shown.dense() & judged
        pixels = [_pixel(click) for click in clicks]
        changed = mask != last
        right = int(np.count_nonzero(changed & (mask == truth)))
        total = int(np.count_nonzero(changed))
        iou = _iou(truth, mask)
        found.append(
            ObservedRound(
                **asdict(listened[number - 1]),
                iou=iou,
                rice=rice(last_iou, iou),
                right=sum(bool(mask[p] == truth[p]) for p in pixels if judged[p]),
                became_right=right,
                became_wrong=total - right,
                remote=_remote(changed, pixels),
                repeated=not given.isdisjoint(pixels),
                hurt=number > 1 and iou < last_iou - HURT,
                stuck=number > 1 and total == 0 and iou < _GOAL,
            )
        )
        given.update(pixels)
        last, last_iou = mask, iou
    return found


def responses(
    rounds: Sequence[tuple[Sequence[Prompt], Mask]],
    ignore: Mask | None = None,
    start: Mask | None = None,
) -> list[Response]:
    """Compare masks with the prompts given so far, round by round; clicks to ignore do not count.

    `start` is the mask before the first round, where there was one.

    A round without prompts, in which the user accepts the mask, has all counts 0.

    >>> shape, click = (6, 6), Click((2, 2))
    >>> first, second = responses([([click], Mask.box(shape, (1, 1), (3, 5))),
    ...                            ([Click((5, 5))], Mask.empty(shape))])
    >>> first.obeyed, second.obeyed, second.undone
    (1.0, 0.0, 1)
    """
    found = list[Response]()
    counted = [
        [p for p in prompts if not (isinstance(p, Click) and ignore and ignore[_pixel(p)])]
        for prompts, _ in rounds
    ]
    clicks = [p for some in counted for p in some if isinstance(p, Click)]
    pixels = np.array([_pixel(click) for click in clicks])
    positive = np.array([click.positive for click in clicks], dtype=bool)
    right = np.zeros(0, bool)  # whether the last mask agrees with each click given so far
    last = start - ignore if start and ignore else start
    for (prompts, shown), some in zip(rounds, counted, strict=True):
        mask = shown - ignore if ignore else shown
        others = [p for p in some if isinstance(p, Scribble | Box)]
        given = len(right) + sum(isinstance(p, Click) for p in some)
        agrees = _at(mask, pixels[:given]) == positive[:given]
        kept, new = agrees[: len(right)], agrees[len(right) :]
        found.append(
            Response(
                len(new) + len(others),
                float(new.sum()) + sum(_obeyed(p, mask, ignore) for p in others),
                len(kept),
                int(kept.sum()),
                int((right & ~kept).sum()),
                mask != last,
            )
            if prompts
            else Response(0, 0.0, 0, 0, 0, mask != last)
        )
        last, right = mask, agrees
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


def setbacks(iou: Sequence[float]) -> list[Setback]:
    """Rounds that hurt, with the drop and the rounds until IoU was back.

    >>> setbacks([0.5, 0.3, 0.4, 0.6])
    [Setback(round=2, drop=0.2, rounds_to_recover=2)]
    """
    found = []
    for k in range(1, len(iou)):
        if iou[k] < iou[k - 1] - HURT:
            later = (j for j in range(1, len(iou) - k) if iou[k + j] >= iou[k - 1])
            found.append(Setback(k + 1, iou[k - 1] - iou[k], next(later, None)))
    return found


def _at(mask: Mask, pixels: npt.NDArray[np.intp]) -> Bits:
    """A mask's values at pixels `(n, axes)`."""
    shown = np.zeros(len(pixels), bool)
    if len(pixels):
        places = pixels - mask.low
        within = ((places >= 0) & (places < mask.bits.shape)).all(axis=1)
        shown[within] = mask.bits[tuple(places[within].T)]
    return shown


def _obeyed(prompt: Scribble | Box, mask: Mask, ignore: Mask | None) -> float:
    """Whether a mask obeys a box; for a stroke the share of its pixels that are judged."""
    if isinstance(prompt, Scribble):
        pixels = {tuple(round(c) for c in point) for point in prompt.points}
        pixels = {p for p in pixels if not (ignore and ignore[p])}
        return float(np.mean([mask[p] == prompt.positive for p in pixels])) if pixels else 0.0
    low, high = np.array(prompt.low, float), np.array(prompt.high, float)
    if len(low) == 3 and low[0] == high[0]:  # drawn in one slice, which alone it bounds
        mask, low, high = mask.slice(round(low[0])), low[1:], high[1:]
    grown = _GROWN * (high - low + 1)
    inside = (mask.low >= low - grown) & (np.array(mask.high) - 1 <= high + grown)
    return float(not mask or bool(inside.all()))


def _remote(changed: Bits, pixels: Sequence[tuple[int, ...]]) -> int:
    """Changed pixels outside the component of the change that holds a clicked pixel."""
    parts, _ = components(changed)
    near = {int(parts[pixel]) for pixel in pixels} - {0}
    return int(np.count_nonzero(changed) - np.count_nonzero(np.isin(parts, sorted(near))))


def _iou(truth: Bits, mask: Bits) -> float:
    union = int(np.count_nonzero(truth | mask))
    return int(np.count_nonzero(truth & mask)) / union if union else 1.0


def _pixel(click: Click) -> tuple[int, ...]:
    return tuple(round(p) for p in click.point)

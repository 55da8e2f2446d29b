"""Prompts as a SAM's decoder takes them: points with labels, and which asks go together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from segmeter.core.errors import BadInput
from segmeter.core.models import Request
from segmeter.core.prompts import Box, Click, MaskHint, Point, Prompt, Scribble, Words
from segmeter.models.sam._decoder import NOT_A_POINT
from segmeter.models.sam._policy import Policy

__all__ = ["hint_of", "is_ambiguous", "labelled_points", "of_equal_size"]

STROKE_POINTS = 8
"""A stroke is handed over as at most so many points, evenly spaced."""


def labelled_points(
    prompts: Sequence[Prompt], second: bool, half_open: bool
) -> tuple[list[Point], list[int]]:
    """Points `(y, x)` and labels; the last box counts, and its corners come last.

    The first SAM pads only where there is no box, the `second` always.
    """
    clicks = [click for prompt in prompts for click in _clicks(prompt)]
    points = [point for point, _ in clicks]
    labels = [int(positive) for _, positive in clicks]
    boxes = [p for p in prompts if isinstance(p, Box)]
    if boxes:
        beyond = 1.0 if half_open else 0.0
        points += [boxes[-1].low, tuple(c + beyond for c in boxes[-1].high)]
        labels += [2, 3]
    if points and (second or not boxes):
        points.append((0.0, 0.0))
        labels.append(NOT_A_POINT)
    return points, labels


def _clicks(prompt: Prompt) -> list[tuple[Point, bool]]:
    match prompt:
        case Click(point, positive):
            return [(point, positive)]
        case Scribble(points, positive):
            count = min(STROKE_POINTS, len(points))
            picked = np.linspace(0, len(points) - 1, count).round().astype(int)
            return [(points[i], positive) for i in picked]
        case Words():
            raise BadInput("SAM kinds read no words; ask by clicks, boxes, strokes or masks")
        case _:
            return []


def is_ambiguous(request: Request, policy: Policy, second: bool) -> bool:
    """Whether the prompts may mean several things, so that three masks are offered.

    A lone click does; by the first SAM's own rule a lone box does too, and neither does
    once logits are fed back.
    """
    if policy.masks != "zeroshot" or second:
        return len(request.prompts) == 1 and isinstance(request.prompts[0], Click)
    alone = len(request.prompts) == 1 and request.state is None
    return alone and isinstance(request.prompts[0], Click | Box)


def hint_of(request: Request) -> MaskHint | None:
    """The mask that goes in as a prompt: a hint just given, else the memory, else an earlier."""
    hints = [p for p in request.prompts if isinstance(p, MaskHint)]
    fresh = bool(request.prompts) and isinstance(request.prompts[-1], MaskHint)
    return hints[-1] if hints and (fresh or request.state is None) else None


def of_equal_size(sizes: Sequence[int], together: int) -> Iterator[list[int]]:
    """Indices of equal size, at most so many together, in order.

    >>> list(of_equal_size([2, 3, 2, 2], together=2))
    [[0, 2], [3], [1]]
    """
    by_size: dict[int, list[int]] = {}
    for index, size in enumerate(sizes):
        by_size.setdefault(size, []).append(index)
    for members in by_size.values():
        for start in range(0, len(members), together):
            yield members[start : start + together]

"""Propagation: one slice is prompted, the model's own answer prompts the next.

The prompter asks the model while it prompts. Both ways, up and down, go in lockstep: one call
answers a step of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Box, Click, Prompt
from segmeter.users.volumes.random_streams import Draws
from segmeter.users.volumes.slices import (
    Centre,
    centre_of,
    foreground_slices,
    median_slice,
    tight_box,
)

__all__ = ["Answers", "box_propagation", "point_propagation", "propagation_seeds", "stray_box"]

Answers = Callable[[Sequence[tuple[Prompt, ...]]], Sequence[Mask]]
"""Masks of the volume that a model answers to several sets of prompts, in order."""

_SEEDS = 5


def propagation_seeds(target: Mask, draws: Draws, count: int = _SEEDS) -> list[Click]:
    """Random pixels of the target's middle slice."""
    draws.restart()
    z = median_slice(target)
    here = target.slice(z)
    pixels = np.argwhere(here.bits) + here.low
    chosen = draws.choose(len(pixels), min(count, len(pixels)))
    return [Click((z, int(pixels[i][0]), int(pixels[i][1])), True) for i in chosen]


def point_propagation(
    target: Mask, answers: Answers, draws: Draws, protocol: ProtocolName, centre: Centre = "box"
) -> list[Click]:
    """Seeds in the middle slice, then the middle of each slice's answer in the next slice.

    A way ends where an answer is empty. `published` leaves out the first five points of the
    way down even when there were fewer seeds, so that slices go without a prompt.
    """
    seeds = propagation_seeds(target, draws)
    own = foreground_slices(target)
    middle = int(seeds[0].point[0])

    def after(z: int, answered: Mask) -> tuple[Prompt, ...]:
        return (Click((z, *centre_of(answered, centre)), True),)

    ways = _ways(tuple(seeds), middle, (own[0], own[-1]), answers, after)
    up, down = ([p for step in way for p in step if isinstance(p, Click)] for way in ways)
    dropped = max(0, _SEEDS - len(seeds)) if protocol == "published" else 0
    return [*seeds, *up, *down[dropped:]]


def box_propagation(target: Mask, answers: Answers, protocol: ProtocolName) -> list[Box]:
    """A box in the middle slice, then the box of each slice's answer in the next slice.

    `published` gives both neighbours the drawn box itself and asks from there on; `corrected`
    asks for the middle slice first, as the paper says.
    """
    own = foreground_slices(target)
    middle = median_slice(target)
    seed = tight_box(target.slice(middle), middle)

    def after(z: int, answered: Mask) -> tuple[Prompt, ...]:
        return (tight_box(answered, z),)

    first: tuple[Prompt, ...] = (seed,)
    ways = _ways(first, middle, (own[0], own[-1]), answers, after, copied=protocol == "published")
    boxes = [p for way in ways for step in way for p in step if isinstance(p, Box)]
    return sorted([seed, *boxes], key=lambda box: box.low[0])


def stray_box(box: Box, shape: Sequence[int], flipped: Sequence[bool]) -> Box:
    """Position of the original's seed box in a file with flipped axes `(z, y, x)`.

    It stays in the file's coordinates while all others are in canonical ones. Nothing in
    segmeter uses it; it shows what a published number of such a file rests on.

    >>> stray_box(Box((4, 0, 31), (4, 10, 39)), (24, 48, 40), (False, True, True))
    Box(low=(4, 36, -1), high=(4, 46, 7))
    """
    low, high = list(box.low), list(box.high)
    for axis, turned in enumerate(flipped):
        if turned:
            # It turns the end, one past the last pixel, as if it were a pixel; a slice has none.
            past = 0 if axis == 0 else 1
            last = shape[axis] - 1 - past
            low[axis], high[axis] = last - box.high[axis], last - box.low[axis]
    return Box(tuple(low), tuple(high))


Step = Callable[[int, Mask], tuple[Prompt, ...]]


def _ways(
    seeds: tuple[Prompt, ...],
    middle: int,
    ends: tuple[int, int],
    answers: Answers,
    after: Step,
    copied: bool = False,
) -> list[list[tuple[Prompt, ...]]]:
    """Prompts of the slices above and below the middle, each way until an answer is empty."""
    ways: list[list[tuple[Prompt, ...]]] = [[], []]
    at = [middle, middle]
    last = [seeds, seeds]
    going = [ends[1] > middle, ends[0] < middle]
    if copied:
        for i, step in enumerate((1, -1)):
            if going[i]:
                at[i] += step
                last[i] = tuple(_moved(p, at[i]) for p in seeds)
                ways[i].append(last[i])
                going[i] = at[i] != ends[1 - i]
    while any(going):
        active = [i for i in (0, 1) if going[i]]
        masks = answers([last[i] for i in active])
        for i, mask in zip(active, masks, strict=True):
            answered = mask.slice(at[i])
            if not answered:
                going[i] = False
                continue
            at[i] += 1 if i == 0 else -1
            last[i] = after(at[i], answered)
            ways[i].append(last[i])
            going[i] = at[i] != ends[1 - i]
    return ways


def _moved(prompt: Prompt, z: int) -> Prompt:
    """The same box in another slice."""
    if not isinstance(prompt, Box):
        return prompt
    return Box((z, *prompt.low[1:]), (z, *prompt.high[1:]))

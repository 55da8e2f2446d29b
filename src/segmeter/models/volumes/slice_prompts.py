"""Prompts of a volume as prompts of the slices they lie in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from segmeter.core.errors import BadInput
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Scribble

__all__ = ["flattened"]


def flattened(prompt: Prompt) -> Iterator[tuple[int, Prompt]]:
    """A prompt `(z, y, x)` as prompts `(y, x)`, each with its slice.

    >>> list(flattened(Box((1, 4, 5), (2, 8, 9))))
    [(1, Box(low=(4, 5), high=(8, 9))), (2, Box(low=(4, 5), high=(8, 9)))]
    """
    match prompt:
        case Click((z, y, x), positive):
            yield round(z), Click((y, x), positive)
        case Box((z0, y0, x0), (z1, y1, x1)):
            for z in range(round(z0), round(z1) + 1):
                yield z, Box((y0, x0), (y1, x1))
        case Scribble(points, positive):
            yield from _strokes(points, positive)
        case MaskHint(mask):
            for z in range(mask.low[0], mask.high[0]):
                flat = mask.slice(z)
                if flat:
                    yield z, MaskHint(flat)
        case _:
            raise BadInput(f"a {type(prompt).__name__.lower()} does not lie in slices of a volume")


def _strokes(points: Sequence[tuple[float, ...]], positive: bool) -> Iterator[tuple[int, Prompt]]:
    """A stroke's points in each slice: a stroke of its own, or a click where there is one."""
    by_slice: dict[int, list[tuple[float, ...]]] = {}
    for z, y, x in points:
        by_slice.setdefault(round(z), []).append((y, x))
    for z, flat in by_slice.items():
        yield z, Click(flat[0], positive) if len(flat) == 1 else Scribble(tuple(flat), positive)

"""Prompts of a volume as prompts of the slices they lie in, and slices turned upright.

Scene axes run to the front and to the right, so row 0 of a slice is at the back. Radiologists
see the front at the top and the patient's right on the left: the slice turned by 180 degrees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Scribble

__all__ = ["flattened", "turned", "turned_mask"]


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


def turned(prompt: Prompt, shape: tuple[int, int]) -> Prompt:
    """A prompt `(y, x)` in the slice turned by 180 degrees.

    >>> turned(Box((0, 1), (2, 3)), (10, 20))
    Box(low=(7, 16), high=(9, 18))
    """

    def there(point: Sequence[float]) -> tuple[float, ...]:
        return tuple(n - 1 - c for n, c in zip(shape, point, strict=True))

    match prompt:
        case Click(point, positive):
            return Click(there(point), positive)
        case Box(low, high):
            return Box(there(high), there(low))
        case Scribble(points, positive):
            return Scribble(tuple(there(point) for point in points), positive)
        case MaskHint(mask):
            return MaskHint(turned_mask(mask))
    return prompt


def turned_mask(mask: Mask) -> Mask:
    """A mask `(H, W)` of the slice turned by 180 degrees."""
    low = tuple(n - high for n, high in zip(mask.shape, mask.high, strict=True))
    return Mask.of(mask.bits[::-1, ::-1], low, mask.shape) if mask else mask

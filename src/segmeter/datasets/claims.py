"""Claims: what a small file may ask for in memory before it is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask

__all__ = ["MOST_BITS", "within_memory"]

MOST_BITS = 3 << 28
"""Pixels in the boxes of all masks of one image, a byte each: 768 MiB."""

Found = TypeVar("Found")


def within_memory(
    found: Iterable[Found], mask_of: Callable[[Found], Mask], where: str, most: int = 0
) -> Iterator[Found]:
    """Items with a mask; stops when the masks' boxes exceed the memory allowed for one image.

    A run-length mask of a few bytes can fill a whole image, and a file can hold thousands.

    >>> masks = [Mask.box((9, 9), (0, 0), (9, 9))] * 3
    >>> len(list(within_memory(masks, lambda mask: mask, "here")))
    3
    """
    most = most or MOST_BITS
    left = most
    for one in found:
        left -= mask_of(one).bits.size
        if left < 0:
            raise BadInput(f"{where}: its masks take more than {most >> 20} MiB; split it")
        yield one

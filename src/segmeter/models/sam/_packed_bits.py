"""Sets of pixels as words of 64: set operations, erosion and counts on 64 times fewer numbers.

Bit `i` of word `j` of a row is pixel `64 j + i`; bits beyond the row are zero. All tensors
are `(B, H, words)` of int64, whose right shifts copy the sign and need a mask.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["count", "erode", "pack"]

WORD = 64


def pack(bits: Tensor) -> Tensor:
    """Booleans `(B, H, W)` as words."""
    filled = F.pad(bits, (0, -bits.shape[2] % WORD))
    places = torch.arange(WORD, device=bits.device)
    return (filled.reshape(*bits.shape[:2], -1, WORD).long() << places).sum(dim=3)


def count(words: Tensor) -> Tensor:
    """Pixels of each set, `(B,)`: sums of neighbouring bits, pairs, fours and bytes."""
    pairs = words - ((words >> 1) & 0x5555555555555555)
    fours = (pairs & 0x3333333333333333) + ((pairs >> 2) & 0x3333333333333333)
    eights = (fours + (fours >> 4)) & 0x0F0F0F0F0F0F0F0F
    return ((eights * 0x0101010101010101 >> 56) & 0xFF).sum((1, 2), dtype=torch.int32)


def erode(words: Tensor, reach: int) -> Tensor:
    """Pixels whose square of side `2 reach + 1` lies wholly inside."""
    return _all_around(_all_around(words, reach, _along_row), reach, _along_column)


def _all_around(words: Tensor, reach: int, moved: Callable[[Tensor, int], Tensor]) -> Tensor:
    """All of a window along one axis, by doubling its length."""
    run, width, whole = words, 1, 2 * reach + 1
    while 2 * width <= whole:
        run, width = run & moved(run, width), 2 * width
    return moved(run & moved(run, whole - width), -reach)


def _along_row(words: Tensor, by: int) -> Tensor:
    """The set in which pixel `x` is what pixel `x + by` was; nothing enters from outside."""
    skipped, rest = divmod(_within(by, WORD * words.shape[2]), WORD)
    near = F.pad(words, (-skipped, skipped))
    if not rest:
        return near
    far = F.pad(words, (-skipped - 1, skipped + 1))
    return ((near >> rest) & ((1 << (WORD - rest)) - 1)) | (far << (WORD - rest))


def _along_column(words: Tensor, by: int) -> Tensor:
    by = _within(by, words.shape[1])
    return F.pad(words, (0, 0, -by, by))


def _within(by: int, most: int) -> int:
    """What is moved by a whole side is gone: no move is longer than that."""
    return max(-most, min(by, most))

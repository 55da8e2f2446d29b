"""Thinning: boundaries one pixel wide, equal to MATLAB's `bwmorph(map, 'thin', Inf)`."""

from __future__ import annotations

import numpy as np

from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits
from segmeter.kernels import compiled

__all__ = ["plain_thin", "thin"]

# Neighbours x1..x8, counter-clockwise from east, as (dy, dx).
_AROUND = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1))


def thin(bits: Bits, rounds: int | None = None) -> Bits:
    """Take pixels off both sides of every line until it is one pixel wide.

    Everything outside the map is empty. A round has two passes, each over the whole map at
    once, so lines stay where they were and connected. With `rounds`, stop after so many.

    >>> thin(np.ones((3, 7), dtype=bool)).astype(int)
    array([[0, 0, 0, 0, 0, 0, 0],
           [0, 1, 1, 1, 1, 1, 0],
           [0, 0, 0, 0, 0, 0, 0]])
    """
    if compiled is None:
        return plain_thin(bits, rounds)
    _check_rounds(rounds)
    thinned: Bits = compiled.thin(np.ascontiguousarray(bits), -1 if rounds is None else rounds)
    return thinned


def plain_thin(bits: Bits, rounds: int | None = None) -> Bits:
    """Plain twin of the kernel.

    >>> int(plain_thin(np.ones((3, 5), bool)).sum())
    3
    """
    _check_rounds(rounds)
    thinned = bits.copy()
    done = 0
    while rounds is None or done < rounds:
        before = thinned
        for second in (False, True):
            thinned = thinned & ~_going(thinned, second)
        done += 1
        if np.array_equal(before, thinned):
            break
    return thinned


def _check_rounds(rounds: int | None) -> None:
    if rounds is not None and rounds < 0:
        raise BadInput(f"thinning takes rounds from 0, or None for as many as needed, not {rounds}")


def _going(bits: Bits, second: bool) -> Bits:
    """Pixels that one pass takes away (Guo and Hall's conditions)."""
    height, width = bits.shape
    framed = np.pad(bits, 1)
    x = [framed[1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width] for dy, dx in _AROUND]
    x.append(x[0])
    corners = range(0, 8, 2)
    crossings = sum((~x[k] & (x[k + 1] | x[k + 2])).astype(np.int8) for k in corners)
    one = sum((x[k] | x[k + 1]).astype(np.int8) for k in corners)
    two = sum((x[k + 1] | x[k + 2]).astype(np.int8) for k in corners)
    fewest = np.minimum(one, two)
    held = (x[5] | x[6] | ~x[3]) & x[4] if second else (x[1] | x[2] | ~x[7]) & x[0]
    going: Bits = (crossings == 1) & (fewest >= 2) & (fewest <= 3) & ~held
    return going

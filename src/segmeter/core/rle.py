"""Run lengths: COCO's column-major counts and their compressed text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput

__all__ = ["of_box", "pack", "to_bits", "unpack"]

Counts = npt.NDArray[np.int64]
_MOST_CHUNKS = 13  # 65 bits, more than any 64-bit count needs
_MOST_PIXELS = 1 << 33


def of_box(bits: npt.NDArray[np.bool_], low: Sequence[int], shape: Sequence[int]) -> Counts:
    """Column-major run lengths of a box of bits inside a scene; the first counts zeros.

    >>> of_box(np.ones((2, 1), bool), (0, 1), (2, 3)).tolist()
    [2, 2, 2]
    """
    total = math.prod(shape)
    if bits.size == 0:
        return np.array([total], dtype=np.int64)
    padded = np.zeros((bits.shape[0] + 1, *bits.shape[1:]), dtype=np.int8)
    padded[:-1] = bits
    flat = padded.reshape(-1, order="F")
    steps = np.diff(flat, prepend=np.int8(0))
    starts = _global(np.flatnonzero(steps == 1), padded.shape, low, shape)
    # A run never leaves its column inside the padded box, so its length is local.
    lengths = np.flatnonzero(steps == -1) - np.flatnonzero(steps == 1)
    ends = starts + lengths
    # Runs that touch across a column border are one run in the scene.
    apart = starts[1:] != ends[:-1]
    starts, ends = starts[np.r_[True, apart]], ends[np.r_[apart, True]]
    edges = np.empty(2 * starts.size, dtype=np.int64)
    edges[0::2], edges[1::2] = starts, ends
    counts = np.diff(edges, prepend=0)
    return np.append(counts, total - ends[-1]) if ends[-1] < total else counts


def to_bits(counts: Counts, shape: Sequence[int]) -> npt.NDArray[np.bool_]:
    """The scene-sized array that run lengths stand for.

    >>> to_bits(np.array([2, 2, 2]), (2, 3)).astype(int).tolist()
    [[0, 1, 0], [0, 1, 0]]
    """
    total = math.prod(shape)
    if total > _MOST_PIXELS or any(n < 0 for n in shape):
        raise BadInput(f"run lengths claim a size of {list(shape)}, which cannot be a picture")
    possible = counts.ndim == 1 and ((counts >= 0) & (counts <= total)).all()
    if not possible or int(counts.sum()) != total:
        raise BadInput(f"run lengths do not add up to a picture of {list(shape)}")
    values = np.zeros(counts.size, dtype=bool)
    values[1::2] = True
    return np.repeat(values, counts).reshape(tuple(shape), order="F")


def pack(counts: Counts) -> bytes:
    """COCO's text form: differences to the count two before, five bits a character.

    >>> pack(np.array([0, 6]))
    b'06'
    """
    values = counts.copy()
    values[3:] -= counts[1:-2]
    chunks = np.empty((values.size, _MOST_CHUNKS), dtype=np.uint8)
    last = np.zeros(values.size, dtype=np.int64)
    open_ = np.ones(values.size, dtype=bool)
    rest = values
    for k in range(_MOST_CHUNKS):
        low = rest & 31
        rest = rest >> 5
        done = ((rest == 0) & (low & 16 == 0)) | ((rest == -1) & (low & 16 != 0))
        chunks[:, k] = low + np.where(done, 0, 32) + 48
        last[open_ & done] = k
        open_ &= ~done
        if not open_.any():
            break
    keep = np.arange(_MOST_CHUNKS) <= last[:, None]
    return chunks[keep].tobytes()


def unpack(text: str | bytes) -> Counts:
    """Counts from COCO's text form.

    >>> unpack("06").tolist()
    [0, 6]
    """
    raw = text.encode("latin-1", "replace") if isinstance(text, str) else text
    codes = np.frombuffer(raw, dtype=np.uint8).astype(np.int64) - 48
    if codes.size == 0 or codes.min() < 0 or codes.max() > 63 or codes[-1] & 32:
        raise BadInput("compressed run lengths hold a character that cannot stand there")
    ends = np.flatnonzero(codes & 32 == 0)
    begins = np.r_[0, ends[:-1] + 1]
    if (ends - begins).max() >= _MOST_CHUNKS:
        raise BadInput("compressed run lengths hold a count that is too long")
    place = np.arange(codes.size) - np.repeat(begins, ends - begins + 1)
    values = np.add.reduceat((codes & 31) << (5 * place), begins)
    negative = codes[ends] & 16 != 0
    values[negative] -= np.int64(1) << (5 * (ends - begins + 1)[negative])
    return _undo_differences(values)


def _undo_differences(values: Counts) -> Counts:
    """Each count from the fourth on was written as its difference to the one two before."""
    counts = values.copy()
    counts[1::2] = np.cumsum(values[1::2])
    counts[2::2] = np.cumsum(values[2::2])
    return counts


def _global(flat: Counts, box: Sequence[int], low: Sequence[int], shape: Sequence[int]) -> Counts:
    """Column-major positions inside a box as positions inside the scene."""
    place = np.unravel_index(flat, tuple(box), order="F")
    moved = [p + a for p, a in zip(place, low, strict=True)]
    return np.asarray(np.ravel_multi_index(moved, tuple(shape), order="F"), dtype=np.int64)

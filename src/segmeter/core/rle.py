"""RLE, run-length encoding: COCO's counts of images, counts of boxes, their compressed text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput

Counts = npt.NDArray[np.int64]
Bits = npt.NDArray[np.bool_]
MOST_PIXELS = 1 << 28
"""Pixels an image, or voxels a mask's own box, may claim: five times the largest of TETRIS."""

_MOST_CHUNKS = 13  # 65 bits, more than any 64-bit count needs
_MOST_TEXT = 1 << 23  # characters; what unpacking them takes stays below half a gigabyte


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


def to_box(counts: Counts, shape: Sequence[int]) -> tuple[tuple[int, int], Bits]:
    """First pixel and bits of the smallest box around what run lengths of an image hold.

    Nothing larger than that box is made, so a small thing in a claimed giant costs little.

    >>> to_box(np.array([3, 2, 1]), (2, 3))
    ((0, 1), array([[False,  True],
           [ True, False]]))
    """
    height, width = shape
    starts, ends = _runs(counts, height * width)
    if starts.size == 0:
        return (0, 0), np.zeros((0, 0), dtype=bool)
    left, right = int(starts[0]) // height, (int(ends[-1]) - 1) // height + 1
    top, bottom = _rows(starts, ends, height)
    # A run that leaves its column fills both to the edge: then the box is as high as the scene.
    moved = [(p // height - left) * (bottom - top) + p % height - top for p in (starts, ends - 1)]
    bits = _filled(moved[0], moved[1] + 1, (right - left) * (bottom - top))
    return (top, left), np.ascontiguousarray(bits.reshape(right - left, bottom - top).T)


def of_bits(bits: Bits) -> Counts:
    """Run lengths of an array in its own order, last axis first; the first counts zeros.

    >>> of_bits(np.array([[False, True], [True, False]])).tolist()
    [1, 2, 1]
    """
    flat = np.ascontiguousarray(bits).reshape(-1)
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    edges = np.concatenate(([0], changes, [flat.size]))
    counts = np.diff(edges)
    return np.concatenate(([0], counts)) if flat.size and flat[0] else counts


def to_bits(counts: Counts, shape: Sequence[int]) -> Bits:
    """The array that run lengths in its own order stand for.

    >>> to_bits(np.array([1, 2, 1]), (2, 2)).astype(int).tolist()
    [[0, 1], [1, 0]]
    """
    total = math.prod(shape)
    check_size(shape)
    starts, ends = _runs(counts, total)
    return _filled(starts, ends, total).reshape(tuple(shape))


def check_size(shape: Sequence[int]) -> None:
    """Refuse a size that no scene has, before anything of it is made.

    >>> check_size((480, 640))
    """
    if any(n < 0 for n in shape) or math.prod(shape) > MOST_PIXELS:
        raise BadInput(
            f"a mask claims {' x '.join(map(str, shape))} pixels; at most {MOST_PIXELS} are read"
        )


def whole_numbers(values: object) -> Counts:
    """A list of counts as an array; refuses what is not whole numbers.

    >>> whole_numbers([2, 3]).tolist()
    [2, 3]
    """
    try:
        counts = np.asarray(values)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BadInput("run lengths are a list of whole numbers") from error
    if counts.ndim != 1 or counts.size == 0 or counts.dtype.kind not in "iu":
        raise BadInput("run lengths are a list of whole numbers")
    return counts.astype(np.int64)


def _runs(counts: Counts, total: int) -> tuple[Counts, Counts]:
    """Start and end of each run of ones; refuses counts that do not fill the scene."""
    possible = bool(((counts >= 0) & (counts <= total)).all())
    if not possible or int(counts.sum()) != total:
        raise BadInput("run lengths do not add up to their image's size")
    ends = np.cumsum(counts)
    starts = ends - counts
    starts, ends = starts[1::2], ends[1::2]
    full = ends > starts
    return starts[full], ends[full]


def _rows(starts: Counts, ends: Counts, height: int) -> tuple[int, int]:
    """First row, and one past the last, of runs down the columns."""
    first, last = starts % height, (ends - 1) % height
    if (starts // height != (ends - 1) // height).any():
        return 0, height
    return int(first.min()), int(last.max()) + 1


def _filled(starts: Counts, ends: Counts, total: int) -> Bits:
    """Flat bits that are true from each start up to its end."""
    edges = np.zeros(2 * starts.size + 2, dtype=np.int64)
    edges[1:-1:2], edges[2:-1:2], edges[-1] = starts, ends, total
    values = np.zeros(edges.size - 1, dtype=bool)
    values[1::2] = True
    return np.repeat(values, np.diff(edges))


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
    if len(raw) > _MOST_TEXT:
        raise BadInput(f"compressed run lengths of {len(raw)} characters are too many to read")
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

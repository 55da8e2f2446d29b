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
"""Most pixels of an image, or voxels of a mask's box: five times the largest image of TETRIS."""

_MOST_CHUNKS = 13  # 65 bits, more than any 64-bit count needs
_MOST_TEXT = 1 << 23  # characters; what unpacking them takes stays below half a gigabyte


def to_box(counts: Counts, shape: Sequence[int]) -> tuple[tuple[int, int], Bits]:
    """First pixel and bits of the smallest box around what run lengths of an image hold.

    Nothing larger than that box is allocated, whatever size the image claims to have.

    >>> to_box(np.array([3, 2, 1]), (2, 3))
    ((0, 1), array([[False,  True],
           [ True, False]]))
    """
    height, width = shape
    starts, ends = _runs(counts, height * width)
    if starts.size == 0:
        return (0, 0), np.zeros((0, 0), dtype=bool)
    left, right = int(starts[0]) // height, (int(ends[-1]) - 1) // height + 1
    top, bottom = int((starts % height).min()), int(((ends - 1) % height).max()) + 1
    if (starts // height != (ends - 1) // height).any():
        # A run that leaves its column fills both to the edge: the box is as high as the scene.
        top, bottom = 0, height
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
    """The array that run lengths in its own order encode.

    >>> to_bits(np.array([1, 2, 1]), (2, 2)).astype(int).tolist()
    [[0, 1], [1, 0]]
    """
    total = math.prod(shape)
    check_size(shape)
    starts, ends = _runs(counts, total)
    return _filled(starts, ends, total).reshape(tuple(shape))


def check_size(shape: Sequence[int]) -> None:
    """Refuse a size that no scene has, before memory is allocated for it.

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
    from pycocotools import mask as coco

    size = [1, int(counts.sum())]
    return bytes(coco.frPyObjects({"size": size, "counts": counts}, *size)["counts"])


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
        raise BadInput("compressed run lengths hold an invalid character")
    ends = np.flatnonzero(codes & 32 == 0)
    begins = np.r_[0, ends[:-1] + 1]
    if (ends - begins).max() >= _MOST_CHUNKS:
        raise BadInput("compressed run lengths hold a count that is too long")
    place = np.arange(codes.size) - np.repeat(begins, ends - begins + 1)
    values = np.add.reduceat((codes & 31) << (5 * place), begins)
    negative = codes[ends] & 16 != 0
    values[negative] -= np.int64(1) << (5 * (ends - begins + 1)[negative])
    # Each count from the fourth on was written as its difference to the one two before.
    counts = values.copy()
    counts[1::2] = np.cumsum(values[1::2])
    counts[2::2] = np.cumsum(values[2::2])
    return counts

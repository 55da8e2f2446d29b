"""Masks: the pixels or voxels of an object.

A mask stores bits only inside the bounding box of its object, so that the cost of counting,
comparing and storing depends on the size of the object, not on that of the image.
On disk it is run lengths: COCO's for images, those of its box for volumes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from segmeter.core import rle
from segmeter.core.errors import BadInput
from segmeter.kernels import compiled

Bits = npt.NDArray[np.bool_]
Index = tuple[int, ...]
Box = tuple[slice, ...]
Derived = TypeVar("Derived")
_BOX = re.compile(r"(?:[0-9]{1,9} ){6}")


class Mask:
    """An immutable set of pixels in a frame of a given shape.

    Attributes
    ----------
    shape
        Size of the whole scene, `(H, W)` or `(Z, Y, X)`.
    low, high
        Bounding box: first pixel, and one past the last. Both zero when empty.
    bits
        The box's content, read-only.

    Examples
    --------
    >>> whole, part = Mask.box((40, 50), (0, 0), (20, 20)), Mask.box((40, 50), (0, 0), (20, 5))
    >>> (whole & part).area, (whole - part).area
    (100, 300)
    """

    __slots__ = ("__dict__", "bits", "low", "shape")

    def __init__(self, shape: Sequence[int], low: Sequence[int], bits: Bits) -> None:
        """Trusts that `bits` is tight; `Mask.of` finds the box itself."""
        self.shape: Index = tuple(map(int, shape))
        self.low: Index = tuple(map(int, low))
        self.bits: Bits = bits
        bits.flags.writeable = False

    @classmethod
    def of(
        cls, array: npt.NDArray[Any], offset: Index | None = None, shape: Index | None = None
    ) -> Mask:
        """The non-zero pixels of an array; with `offset` and `shape`, of a part of a scene.

        Floats must be 0 or 1: the caller chooses the threshold of logits or probabilities.

        >>> Mask.of(np.eye(3, dtype=bool)).area
        3
        """
        bits = array if array.dtype == np.bool_ and array.ndim else _as_bits(array)
        start = offset or (0,) * bits.ndim
        whole = shape or cast(Index, bits.shape)
        box = _tight(bits)
        if box is None:
            return cls.empty(whole)
        inside = bits[box].copy()
        return cls(whole, [s + b.start for s, b in zip(start, box, strict=True)], inside)

    @classmethod
    def empty(cls, shape: Sequence[int]) -> Mask:
        """A mask without pixels."""
        zeros = (0,) * len(shape)
        return cls(shape, zeros, np.zeros(zeros, dtype=bool))

    @classmethod
    def box(cls, shape: Sequence[int], low: Sequence[int], high: Sequence[int]) -> Mask:
        """A full box, `high` excluded; it is clipped to the scene.

        >>> Mask.box((4, 4), (0, 0), (2, 4)).area
        8
        """
        first = [max(0, a) for a in low]
        sides = [min(h, n) - a for a, h, n in zip(first, high, shape, strict=True)]
        if min(sides) <= 0:
            return cls.empty(shape)
        return cls(shape, first, np.ones(sides, dtype=bool))

    @property
    def high(self) -> Index:
        return tuple(map(operator.add, self.low, self.bits.shape))

    @cached_property
    def area(self) -> int:
        """Number of pixels."""
        return int(np.count_nonzero(self.bits))

    @property
    def window(self) -> Box:
        """The box as slices into an array of the scene's size."""
        return tuple(map(slice, self.low, self.high))

    def __bool__(self) -> bool:
        return self.bits.size > 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mask):
            return NotImplemented
        same_box = self.shape == other.shape and self.low == other.low
        return same_box and np.array_equal(self.bits, other.bits)

    def __hash__(self) -> int:
        return hash((self.shape, self.low, self.bits.tobytes()))

    def __repr__(self) -> str:
        return f"Mask({' x '.join(map(str, self.shape))}, {self.area} pixels)"

    def __getitem__(self, point: Sequence[int]) -> bool:
        inside = tuple(p - a for p, a in zip(point, self.low, strict=True))
        if any(i < 0 or i >= n for i, n in zip(inside, self.bits.shape, strict=True)):
            return False
        return bool(self.bits[inside])

    def dense(self) -> Bits:
        """The whole scene as a boolean array."""
        whole = np.zeros(self.shape, dtype=bool)
        whole[self.window] = self.bits
        return whole

    def crop(self, low: Index, high: Index) -> Bits:
        """A boolean array of the given box, which may reach past this mask's own."""
        part = np.zeros([h - a for a, h in zip(low, high, strict=True)], dtype=bool)
        first, last = tuple(map(max, low, self.low)), tuple(map(min, high, self.high))
        if all(map(operator.lt, first, last)):
            part[_slices(first, last, low)] = self.bits[_slices(first, last, self.low)]
        return part

    def overlap(self, other: Mask) -> int:
        """Number of pixels that both masks hold."""
        shared = self._shared(other)
        if shared is None:
            return 0
        return _count_shared(self.bits[shared[0]], other.bits[shared[1]])

    def __and__(self, other: Mask) -> Mask:
        """Pixels that are in both."""
        shared = self._shared(other)
        if shared is None:
            return Mask.empty(self.shape)
        low = tuple(map(max, self.low, other.low))
        return Mask.of(self.bits[shared[0]] & other.bits[shared[1]], low, self.shape)

    def __sub__(self, other: Mask) -> Mask:
        """Pixels of this mask that are not in the other."""
        shared = self._shared(other)
        if shared is None:
            return self
        rest = self.bits.copy()
        part = rest[shared[0]]
        np.greater(part, other.bits[shared[1]], out=part)
        return Mask.of(rest, self.low, self.shape)

    def __or__(self, other: Mask) -> Mask:
        """Pixels that are in one or both."""
        self.check_frame(other)
        if not self or not other:
            return self or other
        low, high = joint_box(self, other)
        return Mask.of(self.crop(low, high) | other.crop(low, high), low, self.shape)

    def slice(self, z: int) -> Mask:
        """One axial slice of a volume's mask, as a mask `(H, W)`.

        >>> Mask.box((3, 4, 5), (1, 0, 0), (3, 2, 2)).slice(2).area
        4
        """
        if not self.low[0] <= z < self.high[0]:
            return Mask.empty(self.shape[1:])
        return Mask.of(self.bits[z - self.low[0]], self.low[1:], self.shape[1:])

    def turned(self) -> Mask:
        """The mask `(H, W)` of the image turned by 180 degrees.

        >>> Mask.box((4, 5), (0, 0), (1, 2)).turned().low
        (3, 3)
        """
        low = tuple(n - high for n, high in zip(self.shape, self.high, strict=True))
        return Mask.of(self.bits[::-1, ::-1], low, self.shape) if self else self

    @classmethod
    def stack(cls, slices: Mapping[int, Mask], depth: int) -> Mask:
        """A volume's mask from masks of its axial slices; the others are empty.

        >>> Mask.stack({2: Mask.box((4, 5), (0, 0), (2, 2))}, depth=3).low
        (2, 0, 0)
        """
        if not slices:
            raise BadInput("a mask cannot be stacked from zero slices: its size is unknown")
        shape = (depth, *next(iter(slices.values())).shape)
        if min(slices) < 0 or max(slices) >= depth:
            raise BadInput(f"slices {min(slices)} to {max(slices)} do not lie in {depth} slices")
        full = {z: mask for z, mask in slices.items() if mask}
        if not full:
            return cls.empty(shape)
        low, high = joint_box(*full.values())
        bits = np.zeros((max(full) - min(full) + 1, high[0] - low[0], high[1] - low[1]), bool)
        first = min(full)
        for z, mask in full.items():
            bits[z - first][_slices(mask.low, mask.high, low)] = mask.bits
        return cls(shape, (first, *low), bits)

    def to_coco(self) -> dict[str, Any]:
        """COCO's compressed run lengths, `{"size": [...], "counts": "..."}`.

        COCO has no volumes: there `counts` is the text of `encoded`, with three sizes.

        >>> Mask.box((2, 3), (0, 1), (2, 2)).to_coco()
        {'size': [2, 3], 'counts': '222'}
        """
        return {"size": list(self.shape), "counts": self.encoded()}

    @classmethod
    def from_coco(cls, data: Mapping[str, Any]) -> Mask:
        """Read COCO run lengths, compressed (text or bytes) or plain (a list of whole numbers).

        Sizes are checked before memory is allocated, which is only that of the object's box.
        """
        try:
            size, counts = tuple(operator.index(n) for n in data["size"]), data["counts"]
        except (KeyError, TypeError, IndexError) as error:
            raise BadInput(
                "a run-length mask needs 'counts', and a 'size' of two numbers, three for a volume"
            ) from error
        if isinstance(counts, str | bytes):
            return cls.decoded(counts, size)
        if len(size) != 2:
            raise BadInput("a run-length mask needs a 'size' of height and width")
        rle.check_size(size)
        return cls(size, *rle.to_box(rle.whole_numbers(counts), size))

    def encoded(self) -> str:
        """The mask as text for a row: run lengths, nothing of the scene around it.

        An image's is COCO's counts. A volume's is its box as six numbers (first voxel, then
        size, each z, y, x), then the counts inside the box, x running fastest.

        >>> Mask.box((2, 3), (0, 1), (2, 2)).encoded()
        '222'
        >>> Mask.box((9, 9, 9), (1, 2, 3), (3, 4, 5)).encoded()
        '1 2 3 2 2 2 08'
        """
        if len(self.shape) == 2:
            if compiled is None:
                return rle.pack(self.run_lengths()).decode()
            # A twentieth of the plain way's time.
            return bytes(compiled.encode_runs(self.bits, *self.low, *self.shape)).decode()
        box = " ".join(map(str, (*self.low, *self.bits.shape)))
        return f"{box} {rle.pack(rle.of_bits(self.bits)).decode()}"

    @classmethod
    def decoded(cls, text: str | bytes, shape: Sequence[int]) -> Mask:
        """The mask of a scene of this shape that `encoded` wrote.

        >>> Mask.decoded("1 2 3 2 2 2 08", (9, 9, 9)) == Mask.box((9, 9, 9), (1, 2, 3), (3, 4, 5))
        True
        """
        size = tuple(int(n) for n in shape)
        if len(size) == 3:
            return cls._of_box(text, size)
        if len(size) != 2:
            raise BadInput(f"a mask has two or three axes, not {len(size)}")
        rle.check_size(size)
        return cls(size, *rle.to_box(rle.unpack(text), size))

    @classmethod
    def _of_box(cls, text: str | bytes, shape: Index) -> Mask:
        """A volume's mask from its box and the counts inside; the box must fit and be tight."""
        plain = text.decode("latin-1") if isinstance(text, bytes) else text
        found = _BOX.match(plain)
        if found is None:
            raise BadInput("a volume's mask is six numbers of its box, then its run lengths")
        numbers = tuple(map(int, found[0].split()))
        low, size = numbers[:3], numbers[3:]
        if any(a + n > whole for a, n, whole in zip(low, size, shape, strict=True)):
            raise BadInput(f"a mask's box at {low} of size {size} leaves its volume of {shape}")
        bits = rle.to_bits(rle.unpack(plain[found.end() :]), size)
        box = _tight(bits)
        if box is None:
            return cls.empty(shape)
        if any(part.stop - part.start != n for part, n in zip(box, size, strict=True)):
            return cls.of(bits, low, shape)
        return cls(shape, low, bits)

    def run_lengths(self) -> npt.NDArray[np.int64]:
        """An image's column-major run lengths over the whole scene, zeros first."""
        return rle.of_bits(self.dense().T)

    def derived(self, key: Hashable, make: Callable[[], Derived]) -> Derived:
        """Something computed from this mask alone, once, and kept with it."""
        kept: dict[Hashable, Any] = self.__dict__.setdefault("derived_values", {})
        if key not in kept:
            kept[key] = make()
        return cast(Derived, kept[key])

    def _shared(self, other: Mask) -> tuple[Box, Box] | None:
        """The part that both boxes hold, as slices into the bits of each mask."""
        self.check_frame(other)
        low, high = tuple(map(max, self.low, other.low)), tuple(map(min, self.high, other.high))
        if any(map(operator.ge, low, high)):
            return None
        return _slices(low, high, self.low), _slices(low, high, other.low)

    def check_frame(self, other: Mask) -> None:
        if self.shape != other.shape:
            mine, theirs = (" x ".join(map(str, m.shape)) for m in (self, other))
            raise BadInput(f"masks of different size, {mine} and {theirs}, cannot be compared")


def joint_box(*masks: Mask) -> tuple[Index, Index]:
    """First pixel, and one past the last, of the box around all that is not empty.

    >>> joint_box(Mask.box((9, 9), (1, 1), (2, 3)), Mask.box((9, 9), (4, 0), (6, 2)))
    ((1, 0), (6, 3))
    """
    full = [m for m in masks if m]
    if not full:
        zeros = (0,) * len(masks[0].shape)
        return zeros, zeros
    low = tuple(min(axis) for axis in zip(*(m.low for m in full), strict=True))
    high = tuple(max(axis) for axis in zip(*(m.high for m in full), strict=True))
    return low, high


def _as_bits(array: npt.NDArray[Any]) -> Bits:
    """The non-zero pixels of an array of numbers; refuses arrays that are not masks."""
    if array.dtype.kind not in "iufb":
        raise BadInput(f"a mask must hold true and false or 0 and 1, not {array.dtype} values")
    if not array.ndim:
        raise BadInput("a mask must be an array of the size of its image, not a single value")
    bits: Bits = array != 0
    if array.dtype.kind == "f" and not np.array_equal(array, bits):
        raise BadInput(
            f"a mask of {array.dtype} holds values other than 0 and 1; "
            "compare it with a threshold first, such as logits > 0"
        )
    return bits


def _tight(bits: Bits) -> Box | None:
    """Slices of the smallest box around the true pixels, or None when there are none."""
    if compiled is None or bits.ndim != 2 or bits.strides[1] != 1:
        return _plain_tight(bits)
    # 40 % of the plain way's time from 3 Mpx on, a tenth on small masks (perf/clicks.py).
    top, bottom, left, right = compiled.box(bits)
    return (slice(top, bottom), slice(left, right)) if top < bottom else None


def _plain_tight(bits: Bits) -> Box | None:
    box: list[slice] = []
    part = bits
    for axis in range(bits.ndim):
        others = tuple(a for a in range(bits.ndim) if a != axis)
        filled = np.flatnonzero(part.any(axis=others))
        if filled.size == 0:
            return None
        box.append(slice(int(filled[0]), int(filled[-1]) + 1))
        # Later axes look only at what earlier ones left.
        part = part[(slice(None),) * axis + (box[-1],)]
    return tuple(box)


def _count_shared(a: Bits, b: Bits) -> int:
    """How many pixels two arrays of one shape share; a volume's are counted slice by slice."""
    if compiled is None or a.ndim not in (2, 3) or a.strides[-1] != 1 or b.strides[-1] != 1:
        return _plain_count_shared(a, b)
    if a.ndim == 3:
        return sum(int(compiled.overlap(*pair)) for pair in zip(a, b, strict=True))
    return int(compiled.overlap(a, b))


def _plain_count_shared(a: Bits, b: Bits) -> int:
    return int(np.count_nonzero(a & b))


def _slices(low: Index, high: Index, origin: Index) -> Box:
    return tuple(map(slice, map(operator.sub, low, origin), map(operator.sub, high, origin)))

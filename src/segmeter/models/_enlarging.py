"""Enlarging: low-resolution logit maps at an image's size, and measurements of them.

A map is enlarged by one or two bilinear steps (the first SAM goes through its own square and
cuts off the padding), then compared with three thresholds and put in a box. The kernel does
all of it in one pass and interpolates only along contours; the plain twin makes the whole
map. Both round as `torch` does on a processor, so masks are the same bit by bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask
from segmeter.kernels import compiled

Single = npt.NDArray[np.float32]
Whole = npt.NDArray[np.int64]
Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of maps at full size, before any mask is made.

    Attributes
    ----------
    loose, area, strict
        Pixels above threshold - offset, above the threshold, above threshold + offset.
    boxes
        `(n, 4)`: first and last column and row, `x0 y0 x1 y1`, both inside; zeros when empty.
    """

    loose: Whole
    area: Whole
    strict: Whole
    boxes: Whole

    @property
    def stability(self) -> Single:
        """Share of the looser mask that the stricter one keeps; NaN where both are empty."""
        with np.errstate(invalid="ignore"):
            shares = self.strict.astype(np.float32) / self.loose.astype(np.float32)
        return np.asarray(shares, dtype=np.float32)

    @classmethod
    def of(cls, table: Whole) -> Measured:
        return cls(table[:, 0], table[:, 1], table[:, 2], table[:, 3:])


@dataclass(frozen=True, slots=True)
class _Step:
    """One bilinear step along one axis: two samples and the weight of the second."""

    places: npt.NDArray[np.int32]  # (2, n)
    weights: Single

    @classmethod
    def between(cls, samples: int, size: int) -> _Step:
        """Half-pixel centres, no antialias, as `torch` computes them in single precision."""
        scale = np.float64(np.float32(samples) / np.float32(size))
        centres = np.arange(size) + 0.5
        source = np.maximum((scale * centres - 0.5).astype(np.float32), np.float32(0))
        first = np.minimum(source.astype(np.int32), samples - 1)
        second = np.minimum(first + 1, samples - 1)
        weights = np.clip(source - first.astype(np.float32), 0, 1).astype(np.float32)
        return cls(np.ascontiguousarray(np.stack([first, second]), dtype=np.int32), weights)

    def cut(self, size: int) -> _Step:
        return _Step(np.ascontiguousarray(self.places[:, :size]), self.weights[:size].copy())

    def along(self, values: Single, axis: int) -> Single:
        first, second = (values.take(place, axis) for place in self.places)
        weights = self.weights if axis == values.ndim - 1 else self.weights[:, None]
        # The first product is kept whole until the sum is rounded.
        left = first.astype(np.float64) * (np.float32(1) - weights)
        return np.asarray(left + weights * second, dtype=np.float32)


_NO_STEP = _Step(np.zeros((2, 0), np.int32), np.zeros(0, np.float32))


@dataclass(frozen=True)
class Enlargement:
    """How maps of one size become maps of an image's size.

    Attributes
    ----------
    low
        `(h, w)` of the maps.
    shape
        `(H, W)` of the image.
    square, inside
        The first SAM: side of its square, and the part of it that the image fills.

    Examples
    --------
    >>> to = Enlargement((2, 2), (4, 4))
    >>> maps = np.array([[[1, 1], [-1, -1]]], dtype=np.float32)
    >>> to.measure(maps, 0.0, 0.25).area.tolist(), to.masks(maps, 0.0)[0].high
    ([8], (2, 4))
    """

    low: Size
    shape: Size
    square: int | None = None
    inside: Size | None = None
    threads: int = 1

    def measure(self, maps: Single, threshold: float, offset: float) -> Measured:
        """Counts and boxes of maps `(n, h, w)`; only what lies near a contour is enlarged."""
        if compiled is None:
            return plain_measure(self, maps, threshold, offset)
        limits = [np.float32(threshold + d) for d in (-offset, 0.0, offset)]
        whole = np.ascontiguousarray(maps, dtype=np.float32)
        table = compiled.measure_enlarged(whole, *self._arguments, *limits, self.threads)
        return Measured.of(table)

    def masks(self, maps: Single, threshold: float) -> list[Mask]:
        """The masks of maps above the threshold, at the image's size."""
        if compiled is None:
            return plain_render(self, maps, threshold)
        limit, whole = np.float32(threshold), np.ascontiguousarray(maps, dtype=np.float32)
        made = (compiled.render_enlarged(one, *self._arguments, limit) for one in whole)
        return [Mask.of(bits) for bits in made]

    def values(self, maps: Single) -> Single:
        (inner_y, outer_y), (inner_x, outer_x) = self.steps
        if self.square is not None:
            maps = inner_y.along(inner_x.along(maps, maps.ndim - 1), maps.ndim - 2)
        return outer_y.along(outer_x.along(maps, maps.ndim - 1), maps.ndim - 2)

    @cached_property
    def steps(self) -> tuple[tuple[_Step, _Step], tuple[_Step, _Step]]:
        """The inner and the outer step along y, and along x."""
        return self._axis(0), self._axis(1)

    def _axis(self, axis: int) -> tuple[_Step, _Step]:
        samples, size = self.low[axis], self.shape[axis]
        if self.square is None or self.inside is None:
            return _NO_STEP, _Step.between(samples, size)
        inner = _Step.between(samples, self.square).cut(self.inside[axis])
        return inner, _Step.between(self.inside[axis], size)

    @cached_property
    def _arguments(self) -> list[npt.NDArray[np.generic]]:
        return [a for axis in self.steps for step in axis for a in (step.places, step.weights)]


def plain_measure(to: Enlargement, maps: Single, threshold: float, offset: float) -> Measured:
    """Plain twin of the kernel: the whole map, then three counts, then the box."""
    table = []
    for values in map(to.values, maps):
        counts = [
            np.count_nonzero(values > np.float32(threshold + d)) for d in (-offset, 0.0, offset)
        ]
        table.append([*counts, *box_of(Mask.of(values > np.float32(threshold)))])
    return Measured.of(np.array(table, np.int64).reshape(-1, 7))


def plain_render(to: Enlargement, maps: Single, threshold: float) -> list[Mask]:
    """Plain twin of the kernel."""
    return [Mask.of(to.values(one) > np.float32(threshold)) for one in maps]


def box_of(mask: Mask) -> tuple[int, ...]:
    """First and last column and row, `x0 y0 x1 y1`, both inside; zeros when empty."""
    if not mask:
        return 0, 0, 0, 0
    return mask.low[1], mask.low[0], mask.high[1] - 1, mask.high[0] - 1

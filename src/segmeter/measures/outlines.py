"""Outlines: where a partition or a mask changes, on two grids.

*Pixel grid*: a pixel is boundary when its label differs from that of its right, lower or
lower-right neighbour. *Contour grid*: `(2H + 1, 2W + 1)`, pixel (y, x) lies at
(2y + 1, 2x + 1), and boundary are the places between two neighbours that differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits, Mask
from segmeter.kernels import compiled
from segmeter.measures.tables import Labels, check_labels


def thin(bits: Bits, rounds: int | None = None) -> Bits:
    """Remove pixels on both sides of every line until it is one pixel wide.

    Everything outside the map is empty. A round has two passes, each over the whole map at
    once, so lines keep their place and stay connected. With `rounds`, stop after so many.

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
    """Plain twin of the kernel: Guo and Hall's thinning.

    >>> int(plain_thin(np.ones((3, 5), bool)).sum())
    3
    """
    from skimage.morphology import thin

    _check_rounds(rounds)
    found: Bits = bits.copy() if rounds == 0 else thin(bits, max_num_iter=rounds)
    return found


def _check_rounds(rounds: int | None) -> None:
    if rounds is not None and rounds < 0:
        raise BadInput(f"thinning takes rounds from 0, or None for as many as needed, not {rounds}")


Grid = Literal["pixel", "contour"]
_MOST_PIXELS = 1 << 28


@dataclass(frozen=True, slots=True)
class Outline:
    """Boundary pixels of a map: its size, and their raster indices, ascending."""

    shape: tuple[int, int]
    places: npt.NDArray[np.int64]

    @classmethod
    def of(cls, bits: Bits, what: str = "the boundary map") -> Outline:
        """The set pixels of a map as they are, not thinned."""
        if bits.ndim != 2:
            raise BadInput(f"{what} has {bits.ndim} axes; it must be H x W")
        if bits.dtype != np.bool_:
            raise BadInput(f"{what} holds {bits.dtype} values; compare it with a threshold first")
        return cls((bits.shape[0], bits.shape[1]), np.flatnonzero(bits).astype(np.int64))

    def __len__(self) -> int:
        return int(self.places.size)

    def bits(self) -> Bits:
        """The map itself, `(H, W)`."""
        whole = np.zeros(self.shape, dtype=bool)
        whole.flat[self.places] = True
        return whole


def outline(labels: Labels, grid: Grid = "pixel", what: str = "the partition") -> Outline:
    """Boundaries of a partition, thinned on the pixel grid, as they are on the contour grid.

    >>> len(outline(np.array([[1, 1, 2, 2]] * 3))), len(outline(np.eye(2, dtype=int), "contour"))
    (3, 4)
    """
    check_labels(labels, what, _MOST_PIXELS)
    if grid == "pixel":
        return Outline.of(thin(pixel_grid(labels)))
    if grid == "contour":
        return Outline.of(contour_grid(labels))
    raise BadInput(f"no grid '{grid}'; it is 'pixel' or 'contour'")


def mask_outline(mask: Mask, thinned: bool = True) -> Outline:
    """Outline of an object on the pixel grid, found inside its own box; cached with the mask.

    >>> len(mask_outline(Mask.box((9, 9), (2, 2), (7, 7))))
    16
    """
    return mask.derived(("outline", thinned), lambda: _mask_outline(mask, thinned))


def pixel_grid(labels: Labels) -> Bits:
    """Pixels whose label differs from the right, lower or lower-right neighbour's.

    >>> pixel_grid(np.array([[1, 1, 2]] * 2)).astype(int).tolist()
    [[0, 1, 0], [0, 1, 0]]
    """
    edges = np.zeros(labels.shape, dtype=bool)
    edges[:, :-1] = labels[:, 1:] != labels[:, :-1]
    edges[:-1] |= labels[1:] != labels[:-1]
    edges[:-1, :-1] |= labels[1:, 1:] != labels[:-1, :-1]
    return edges


def contour_grid(labels: Labels) -> Bits:
    """Places between neighbours that differ; corner points and the frame stay empty.

    >>> contour_grid(np.array([[1, 2]])).astype(int).tolist()
    [[0, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]]
    """
    height, width = labels.shape
    edges = np.zeros((2 * height + 1, 2 * width + 1), dtype=bool)
    edges[1::2, 2:-1:2] = labels[:, 1:] != labels[:, :-1]
    edges[2:-1:2, 1::2] = labels[1:] != labels[:-1]
    return edges


def _mask_outline(mask: Mask, thinned: bool) -> Outline:
    if len(mask.shape) != 2:
        raise BadInput(f"an outline needs an image's mask, not one of {len(mask.shape)} axes")
    height, width = mask.shape
    low = (max(0, mask.low[0] - 1), max(0, mask.low[1] - 1))
    high = (min(height, mask.high[0] + 1), min(width, mask.high[1] + 1))
    edges = pixel_grid(mask.crop(low, high))
    y, x = np.nonzero(thin(edges) if thinned else edges)
    return Outline((height, width), (y + low[0]) * width + x + low[1])

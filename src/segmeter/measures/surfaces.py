"""Surface measures: how far two surfaces, or outlines of images, are apart in millimetres.

A surface is taken where Nikolov et al. take it: at the corners between voxels, wherever the eight
voxels around a corner differ. A corner has the area of the surface that marching cubes draws among
its eight voxels, on the grid's own spacing. Other tools take the outermost voxels and count each of
them as one; `voxel_surface_distances` does that.

Area of the surface that marching cubes draws among the eight voxels around a corner.

The surface passes through the middles of the edges between a voxel inside and one outside.
Where the cut of a face is ambiguous, the fewer voxels (inside, when it is four and four) are
cut off one by one. A loop of edge middles that is not flat can be cut into triangles in
several ways: of the ways whose area is largest on the unit cube the mean area is taken, so
that turning a volume changes no area. These are the areas that Nikolov et al. tabulate; in an
image the same is done with the four pixels around a corner and lengths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from typing import ParamSpec

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits, Mask, joint_box
from segmeter.core.measures import Measure, measure
from segmeter.core.morphology import check_spacing, squared_distances
from segmeter.kernels import compiled

Floats = npt.NDArray[np.float64]
Corner = tuple[int, ...]
Edge = tuple[Corner, Corner]
Triangle = tuple[int, int, int]

_CORNERS: tuple[Corner, ...] = tuple(product((0, 1), repeat=3))
_ROUND_A_FACE = ((0, 0), (0, 1), (1, 1), (1, 0))


@cache
def corner_areas(spacing: tuple[float, ...]) -> Floats:
    """Area in mm squared of each of the 256 neighbourhoods; bit 4 z + 2 y + x is a voxel.

    In images the length in mm of each of 16; bit 2 y + x is a pixel.

    >>> corner_areas((1.0, 1.0, 1.0)).shape, corner_areas((3.0, 4.0))[[1, 3, 5, 6]].tolist()
    ((256,), [2.5, 4.0, 3.0, 5.0])
    """
    if len(spacing) == 2:
        high, wide = spacing
        cut = math.hypot(high, wide) / 2
        half = [0.0, cut, cut, wide, cut, high, 2 * cut, cut]
        return np.array(half + half[::-1])
    scale = np.asarray(spacing, dtype=float)
    return np.array(
        [
            sum(np.mean([_size(loop * scale, way) for way in ways]) for loop, ways in outline)
            for outline in _outlines()
        ],
        dtype=float,
    )


@cache
def _outlines() -> list[list[tuple[Floats, list[tuple[Triangle, ...]]]]]:
    """Of each neighbourhood the loops, and the ways to cut each that are largest."""

    def largest(loop: Floats) -> list[tuple[Triangle, ...]]:
        sizes = {way: _size(loop, way) for way in _ways(len(loop))}
        return [way for way, size in sizes.items() if size > max(sizes.values()) - 1e-9]

    return [[(loop, largest(loop)) for loop in _loops(code)] for code in range(256)]


def _size(loop: Floats, way: Sequence[Triangle]) -> float:
    a, b, c = (loop[[triangle[i] for triangle in way]] for i in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


@cache
def _ways(corners: int) -> list[tuple[Triangle, ...]]:
    """All ways to cut a polygon into triangles along its diagonals."""

    def between(first: int, last: int) -> list[tuple[Triangle, ...]]:
        if last - first < 2:
            return [()]
        return [
            (*left, *right, (first, middle, last))
            for middle in range(first + 1, last)
            for left in between(first, middle)
            for right in between(middle, last)
        ]

    return between(0, corners - 1)


def _loops(code: int) -> list[Floats]:
    """Loops of edge middles, `(corners, 3)` each, that part inside from outside."""
    import networkx

    inside = {c for place, c in enumerate(_CORNERS) if code >> place & 1}
    few = inside if len(inside) <= 4 else set(_CORNERS) - inside
    loops = networkx.cycle_basis(networkx.Graph(_cuts(few)))
    return [np.array([np.mean(edge, axis=0) for edge in loop]) for loop in loops]


def _cuts(few: set[Corner]) -> Iterator[tuple[Edge, Edge]]:
    """On each face, the pairs of edges that a piece of the surface's outline joins."""
    for axis, side in product(range(3), (0, 1)):
        face = [(*place[:axis], side, *place[axis:]) for place in _ROUND_A_FACE]
        edges = [(min(pair), max(pair)) for pair in pairwise([*face, face[0]])]
        cut = [edge for edge in edges if (edge[0] in few) != (edge[1] in few)]
        if len(cut) == 2:
            yield cut[0], cut[1]
        elif len(cut) == 4:
            yield from ((edges[i - 1], edges[i]) for i in range(4) if face[i] in few)


Spacing = Sequence[float]
UNIT = (1.0, 1.0, 1.0)
ROUNDED = 1 + 1e-6
"""A distance of one voxel is within a tolerance of one voxel, however the file rounds its affine:
the sides of oblique grids in single precision are 1.00000002 mm, three sides of 0.8 mm 2.4 + 4e-16.
"""
Given = ParamSpec("Given")


@dataclass(frozen=True, slots=True)
class SurfaceDistances:
    """Distances from each element of one surface to the nearest of the other, both ways.

    Areas are those of each element in square millimetres (in images its length), or ones where
    elements are counted.
    """

    ground_truth_mm: Floats
    ground_truth_area: Floats
    prediction_mm: Floats
    prediction_area: Floats

    def within(self, tolerance_mm: float) -> float:
        """Share of both surfaces that lies within the tolerance of the other."""
        reach = tolerance_mm * ROUNDED
        near = self.ground_truth_area[self.ground_truth_mm <= reach].sum()
        near += self.prediction_area[self.prediction_mm <= reach].sum()
        return float(near / (self.ground_truth_area.sum() + self.prediction_area.sum()))

    def percentile(self, percent: float) -> float:
        """The larger of both directions' area-weighted percentiles, in mm."""
        return max(
            _percentile(self.ground_truth_mm, self.ground_truth_area, percent),
            _percentile(self.prediction_mm, self.prediction_area, percent),
        )

    def mean(self) -> float:
        """Mean of both directions' area-weighted means, in mm."""
        there = np.average(self.ground_truth_mm, weights=self.ground_truth_area)
        back = np.average(self.prediction_mm, weights=self.prediction_area)
        return float(there + back) / 2


def surface_distances(
    ground_truth: Mask, prediction: Mask, spacing_mm: Spacing = UNIT
) -> SurfaceDistances:
    """Distances between the surfaces of two masks that are not empty.

    Only the box around both is searched. A mask that touches the border has its surface there.

    >>> thing = Mask.box((4, 9, 9), (1, 2, 2), (3, 7, 7))
    >>> float(surface_distances(thing, thing, (5.0, 1.0, 1.0)).ground_truth_mm.max())
    0.0
    """
    spacing = _checked(ground_truth, prediction, spacing_mm)
    low, high = joint_box(ground_truth, prediction)
    pair = ground_truth.crop(low, high), prediction.crop(low, high)
    if compiled is None or len(spacing) == 2:
        found = _plain_surfaces(*pair, spacing)
    else:
        found = compiled.surface_distances(*pair, *spacing)
    areas = corner_areas(spacing)
    ground_truth_mm, ground_truth_code, prediction_mm, prediction_code = found
    return SurfaceDistances(
        ground_truth_mm,
        areas[np.asarray(ground_truth_code, dtype=np.intp)],
        prediction_mm,
        areas[np.asarray(prediction_code, dtype=np.intp)],
    )


def voxel_surface_distances(
    ground_truth: Mask, prediction: Mask, spacing_mm: Spacing = UNIT
) -> SurfaceDistances:
    """The same between centres of outermost voxels, each counted as one.

    A voxel is outermost when one of its six neighbours is not in the mask.

    >>> thing = Mask.box((4, 9, 9), (1, 2, 2), (3, 7, 7))
    >>> float(voxel_surface_distances(thing, thing, (5.0, 1.0, 1.0)).ground_truth_mm.max())
    0.0
    """
    from scipy import ndimage

    spacing = _checked(ground_truth, prediction, spacing_mm)
    low, high = joint_box(ground_truth, prediction)
    pair = (mask.crop(low, high) for mask in (ground_truth, prediction))
    one, two = (bits & ~ndimage.binary_erosion(bits) for bits in pair)
    there, back = _both_ways(one, two, spacing)
    return SurfaceDistances(there, np.ones_like(there), back, np.ones_like(back))


@measure("nsd", both_empty=1.0, one_empty=0.0, cite="nikolov2021", dimensions=(3,))
def nsd(
    ground_truth: Mask, prediction: Mask, spacing_mm: Spacing = UNIT, tolerance_mm: float = 2.0
) -> float:
    """Normalised surface Dice: share of both surfaces within a tolerance of the other.

    >>> nsd(Mask.box((9, 9, 9), (2, 2, 2), (6, 6, 6)), Mask.box((9, 9, 9), (2, 2, 2), (6, 6, 7)))
    1.0
    """
    if not tolerance_mm >= 0:
        raise BadInput(f"the tolerance of nsd is millimetres from 0, not {tolerance_mm}")
    return surface_distances(ground_truth, prediction, spacing_mm).within(tolerance_mm)


@measure(
    "surface-beyond", range=(0.0, float("inf")), better="lower", both_empty=0.0,
    cite="nikolov2021", units=("px", "mm²"),
)  # fmt: skip
def surface_beyond(
    ground_truth: Mask, prediction: Mask, spacing_mm: Spacing = UNIT, tolerance_mm: float = 2.0
) -> float:
    """Ground-truth surface more than 2 mm from the predicted one, in mm squared.

    In images outline more than 2 pixels away, in pixels.

    >>> surface_beyond(Mask.box((9, 9), (2, 2), (6, 6)), Mask.box((9, 9), (2, 2), (6, 3)))
    4.414...
    """
    if not ground_truth:
        return 0.0
    found = surface_distances(ground_truth, prediction or ground_truth, spacing_mm)
    far = found.ground_truth_mm > tolerance_mm * ROUNDED if prediction else np.True_
    return float(found.ground_truth_area.sum(where=far))


def _distance(id: str) -> Callable[[Callable[Given, float]], Measure[Given]]:
    """The card of a distance in mm: 0 where both are empty, infinite where one is."""
    return measure(
        id, range=(0.0, float("inf")), better="lower", both_empty=0.0, one_empty=float("inf"),
        cite="nikolov2021", units=("px", "mm"), dimensions=(3,),
    )  # fmt: skip


@_distance("hd95")
def hd95(ground_truth: Mask, prediction: Mask, spacing_mm: Spacing = UNIT) -> float:
    """95th percentile of the Hausdorff distance, in mm.

    >>> hd95(Mask.box((9, 9, 9), (2, 2, 2), (6, 6, 6)), Mask.box((9, 9, 9), (2, 2, 4), (6, 6, 8)))
    2.0
    """
    return surface_distances(ground_truth, prediction, spacing_mm).percentile(95)


@_distance("mean-surface-distance")
def mean_surface_distance(
    ground_truth: Mask, prediction: Mask, spacing_mm: Spacing = UNIT
) -> float:
    """Mean distance between two surfaces, the mean of both directions, in mm.

    >>> thing = Mask.box((4, 9, 9), (1, 2, 2), (3, 7, 7))
    >>> mean_surface_distance(thing, thing, (5.0, 1.0, 1.0))
    0.0
    """
    return surface_distances(ground_truth, prediction, spacing_mm).mean()


def _percentile(distances: Floats, areas: Floats, percent: float) -> float:
    """The smallest distance within which that share of the area lies."""
    order = np.argsort(distances, kind="stable")
    share = np.cumsum(areas[order]) / areas.sum()
    place = int(np.searchsorted(share, percent / 100.0))
    return float(distances[order[min(place, len(order) - 1)]])


def _checked(ground_truth: Mask, prediction: Mask, spacing_mm: Spacing) -> tuple[float, ...]:
    ground_truth.check_frame(prediction)
    axes = len(ground_truth.shape)
    if not ground_truth or not prediction:
        raise BadInput("an empty mask has no surface; the measure's card says what it scores")
    return check_spacing(UNIT[:2] if axes == 2 and spacing_mm == UNIT else spacing_mm, axes)


def _both_ways(one: Bits, two: Bits, spacing: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Distances from each element of one surface to the other, and back."""
    there = np.sqrt(squared_distances(two, spacing)[one])
    return there, np.sqrt(squared_distances(one, spacing)[two])


def _plain_surfaces(
    ground_truth: Bits, prediction: Bits, spacing: tuple[float, ...]
) -> tuple[Floats, ...]:
    codes = _codes(ground_truth), _codes(prediction)
    full = (1 << (1 << ground_truth.ndim)) - 1
    one, two = ((c != 0) & (c != full) for c in codes)
    there, back = _both_ways(one, two, spacing)
    return there, codes[0][one].astype(float), back, codes[1][two].astype(float)


def _codes(bits: Bits) -> npt.NDArray[np.uint8]:
    """The voxels around each corner as bits; 4 z + 2 y + x is the voxel's place."""
    ringed = np.pad(bits, 1).astype(np.uint8)
    codes = np.zeros([n + 1 for n in bits.shape], dtype=np.uint8)
    for place, corner in enumerate(product((0, 1), repeat=bits.ndim)):
        part = tuple(slice(s, s + n + 1) for s, n in zip(corner, bits.shape, strict=True))
        codes |= ringed[part] << place
    return codes

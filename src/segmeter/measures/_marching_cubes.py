"""Area of the surface that marching cubes draws among the eight voxels around a corner.

The surface passes through the middles of the edges between a voxel inside and one outside.
Where the cut of a face is ambiguous, the fewer voxels (inside, when it is four and four) are
cut off one by one. A loop of edge middles that is not flat can be cut into triangles in
several ways: of the ways whose area is largest on the unit cube the mean area is taken, so
that turning a volume changes no area. These are the areas that Nikolov et al. tabulate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt

__all__ = ["corner_areas"]

Floats = npt.NDArray[np.float64]
Corner = tuple[int, int, int]
Edge = tuple[Corner, Corner]
Triangle = tuple[int, int, int]

_CORNERS: tuple[Corner, ...] = tuple(product((0, 1), repeat=3))  # type: ignore[arg-type]
_ROUND_A_FACE = ((0, 0), (0, 1), (1, 1), (1, 0))


def corner_areas(spacing: Sequence[float]) -> Floats:
    """Area in mm squared of each of the 256 neighbourhoods; bit 4 z + 2 y + x is a voxel.

    >>> corner_areas((1.0, 1.0, 1.0)).shape
    (256,)
    """
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
    return [[(loop, _largest(loop)) for loop in _loops(code)] for code in range(256)]


def _largest(loop: Floats) -> list[tuple[Triangle, ...]]:
    ways = _ways(len(loop))
    sizes = [_size(loop, way) for way in ways]
    return [way for way, size in zip(ways, sizes, strict=True) if size > max(sizes) - 1e-9]


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
    inside = {c for place, c in enumerate(_CORNERS) if code >> place & 1}
    few = inside if len(inside) <= 4 else set(_CORNERS) - inside
    joined: dict[Edge, list[Edge]] = {}
    for one, two in _cuts(few):
        joined.setdefault(one, []).append(two)
        joined.setdefault(two, []).append(one)
    return list(_closed(joined))


def _closed(joined: dict[Edge, list[Edge]]) -> Iterator[Floats]:
    left = sorted(joined)
    while left:
        loop = [left[0]]
        while following := [edge for edge in joined[loop[-1]] if edge not in loop]:
            loop.append(following[0])
        left = [edge for edge in left if edge not in loop]
        yield np.array([np.mean(edge, axis=0) for edge in loop])


def _cuts(few: set[Corner]) -> Iterator[tuple[Edge, Edge]]:
    """On each face, the pairs of edges that a piece of the surface's outline joins."""
    for axis, side in product(range(3), (0, 1)):
        face = [_on_face(axis, side, u, v) for u, v in _ROUND_A_FACE]
        edges = [_edge(face[i], face[(i + 1) % 4]) for i in range(4)]
        cut = [edge for edge in edges if (edge[0] in few) != (edge[1] in few)]
        if len(cut) == 2:
            yield cut[0], cut[1]
        elif len(cut) == 4:
            yield from ((edges[i - 1], edges[i]) for i in range(4) if face[i] in few)


def _on_face(axis: int, side: int, u: int, v: int) -> Corner:
    place = [u, v]
    place.insert(axis, side)
    return place[0], place[1], place[2]


def _edge(a: Corner, b: Corner) -> Edge:
    return min(a, b), max(a, b)

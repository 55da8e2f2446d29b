"""Grids: where a file's voxels lie in the body, and how its axes become `(z, y, x)`.

A scene's axes are canonical: z to Superior, y to Anterior, x to Right, by permutation and
flips of the file's own axes; nothing is resampled. The assignment of axes is that of
nibabel, so oblique grids turn to the nearest one of the 48 orientations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.scenes import SceneHeader

Affine = npt.NDArray[np.float64]
_SAME = 0.1  # of the smallest voxel side: files round their affines


@dataclass(frozen=True)
class Grid:
    """The grid of a file: voxels along its own axes `(i, j, k)`, and its affine to RAS+ mm.

    The affine maps `(i, j, k, 1)` to millimetres `(right, anterior, superior, 1)`.

    >>> grid = Grid((7, 9, 5), [[0, 0, 1, 0], [-2, 0, 0, 12], [0, 3, 0, 0], [0, 0, 0, 1]])
    >>> grid.code, grid.shape, grid.spacing_mm
    ('PSR', (9, 7, 5), (3.0, 2.0, 1.0))
    >>> grid.file_index((3, 2, 1))
    (4, 3, 1)
    """

    size: tuple[int, int, int]
    affine: Affine

    def __init__(self, size: Sequence[int], affine: npt.ArrayLike) -> None:
        first, second, third = (int(n) for n in size)
        object.__setattr__(self, "size", (first, second, third))
        matrix = np.asarray(affine, dtype=np.float64)
        matrix.flags.writeable = False
        object.__setattr__(self, "affine", matrix)

    def check(self, what: str) -> Grid:
        """Refuse an affine that maps nowhere, and sizes that are none."""
        if min(self.size) < 1:
            raise BadInput(f"{what} has no voxels: its size is {' x '.join(map(str, self.size))}")
        if self.affine.shape != (4, 4) or not np.isfinite(self.affine).all():
            raise BadInput(f"{what}: its affine holds numbers that are not finite; fix its header")
        directions = self.affine[:3, :3]
        sides = np.linalg.norm(directions, axis=0)
        if sides.min() <= 0 or abs(np.linalg.det(directions / sides)) < 1e-6:
            raise BadInput(
                f"{what}: its affine cannot be inverted (voxel sides"
                f" {', '.join(f'{s:g}' for s in sides)} mm, axes in one plane or of no length);"
                " fix its header"
            )
        return self

    @cached_property
    def axes(self) -> tuple[tuple[int, int, int], tuple[bool, bool, bool]]:
        """World axis (0 right, 1 anterior, 2 superior) of each file axis; which are flipped.

        The nearest rotation to the affine's directions (by SVD) is made; file axes go in order
        of their largest absolute entry, the first of equals first, and each takes the world axis
        that is still free and has its largest entry.
        """
        directions = self.affine[:3, :3]
        sides = np.linalg.norm(directions, axis=0)
        scaled = directions / np.where(sides == 0, 1, sides)
        left, strengths, right = np.linalg.svd(scaled)
        kept = strengths > strengths.max() * 3 * np.finfo(np.float64).eps
        rotation = left[:, kept] @ right[kept]
        entries = np.abs(rotation)
        world, flipped, free = [0, 0, 0], [False] * 3, [True] * 3
        for axis in np.argsort(-entries.max(axis=0), kind="stable"):
            chosen = int(np.where(free, entries[:, axis], -1).argmax())
            world[axis], flipped[axis] = chosen, bool(rotation[chosen, axis] < 0)
            free[chosen] = False
        return (world[0], world[1], world[2]), (flipped[0], flipped[1], flipped[2])

    @property
    def code(self) -> str:
        """Directions of the file's axes, such as `LPS`."""
        world, flipped = self.axes
        return "".join(("LPI" if f else "RAS")[w] for w, f in zip(world, flipped, strict=True))

    @property
    def shape(self) -> tuple[int, int, int]:
        """`(Z, Y, X)` of the scene."""
        z, y, x = (self.size[axis] for axis in self._order)
        return z, y, x

    @property
    def spacing_mm(self) -> tuple[float, float, float]:
        """Distance of neighbours along `(z, y, x)`: the norms of the affine's columns."""
        sides = np.linalg.norm(self.affine[:3, :3], axis=0)
        z, y, x = (float(sides[axis]) for axis in self._order)
        return z, y, x

    @property
    def slice_numbers(self) -> tuple[tuple[str, int, int], ...]:
        """For each axis `(z, y, x)`: the file's axis, its index of the first slice, the step.

        >>> Grid((7, 9, 5), np.diag([-1, 1, 2, 1])).slice_numbers
        (('k', 0, 1), ('j', 0, 1), ('i', 6, -1))
        """
        flipped = self.axes[1]
        return tuple(
            ("ijk"[a], self.size[a] - 1 if flipped[a] else 0, -1 if flipped[a] else 1)
            for a in self._order
        )

    @cached_property
    def scene_affine(self) -> Affine:
        """4 x 4, from the scene's `(z, y, x, 1)` to RAS+ mm."""
        to_file = np.zeros((4, 4))
        to_file[3, 3] = 1
        world, flipped = self.axes
        for axis, (w, f) in enumerate(zip(world, flipped, strict=True)):
            to_file[axis, 2 - w] = -1 if f else 1
            to_file[axis, 3] = self.size[axis] - 1 if f else 0
        return self.affine @ to_file

    def header(self, channels: int = 1) -> SceneHeader:
        """Header of a scene on this grid."""
        a, b, c, d = ((float(p), float(q), float(r), float(s)) for p, q, r, s in self.scene_affine)
        return SceneHeader("volume", self.shape, self.spacing_mm, (a, b, c, d), channels)

    def to_scene(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An array along the file's axes, turned to `(Z, Y, X)`; a view where it can be."""
        _, flipped = self.axes
        turned = array[tuple(slice(None, None, -1 if f else 1) for f in flipped)]
        return turned.transpose(self._order)

    def to_file(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An array `(Z, Y, X)` of the scene along the file's own axes again."""
        world, flipped = self.axes
        turned = array.transpose([2 - w for w in world])
        return turned[tuple(slice(None, None, -1 if f else 1) for f in flipped)]

    def file_index(self, point: Sequence[float]) -> tuple[float, ...]:
        """The file's `(i, j, k)` of a scene's point `(z, y, x)`."""
        world, flipped = self.axes
        return tuple(
            n - 1 - point[2 - w] if f else point[2 - w]
            for n, w, f in zip(self.size, world, flipped, strict=True)
        )

    def distance_mm(self, other: Grid) -> float:
        """How far apart two grids of one shape put the same voxel of the scene, at most."""
        ends = [(0, n - 1) for n in self.shape]
        corners = np.array([(*corner, 1) for corner in product(*ends)], dtype=float).T
        apart = (self.scene_affine - other.scene_affine) @ corners
        return float(np.linalg.norm(apart[:3], axis=0).max())

    def same(self, other: Grid) -> bool:
        """Whether two files hold the same voxels, in whatever order each stores them."""
        if self.shape != other.shape:
            return False
        return self.distance_mm(other) <= _SAME * min(self.spacing_mm)

    def offset_of(self, other: Grid) -> tuple[int, ...] | None:
        """Offset `(z, y, x)` of another grid of the same voxels in this one; else None."""
        between = np.linalg.inv(self.scene_affine) @ other.scene_affine
        low = between[:3, 3].round().astype(int)
        reach = _SAME / max(*other.shape, 1)
        aligned = np.allclose(between[:3, :3], np.eye(3), atol=reach)
        whole = np.abs(between[:3, 3] - low).max() < _SAME
        return tuple(low.tolist()) if aligned and whole else None

    @property
    def _order(self) -> list[int]:
        """The file's axes that become z, y and x."""
        return [self.axes[0].index(world) for world in (2, 1, 0)]

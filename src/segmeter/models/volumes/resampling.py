"""Resampling of volumes to another spacing, and cubes cut around prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Cube", "cube_around", "resampled", "resampled_size"]

Values = npt.NDArray[np.float32]
Size = tuple[int, int, int]
_ANISOTROPIC = 3.0


@dataclass(frozen=True, slots=True)
class Cube:
    """A cube of a volume by its first voxel on each axis; it may reach past the volume."""

    begin: Size
    side: int

    def cut(self, values: Values) -> Values:
        """The cube's values; zeros where it reaches past the volume."""
        found = np.zeros((self.side,) * 3, values.dtype)
        here, there = self._both(values.shape)
        found[here] = values[there]
        return found

    def paste(self, cube: npt.NDArray[Any], into: npt.NDArray[Any]) -> None:
        """Put a cube's values back into the volume."""
        here, there = self._both(into.shape)
        into[there] = cube[here]

    def holds(self, point: Sequence[float]) -> bool:
        return all(b <= p < b + self.side for b, p in zip(self.begin, point, strict=True))

    def _both(self, shape: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Where the part that both have lies in the cube, and in the volume."""
        low = [max(b, 0) for b in self.begin]
        high = [min(b + self.side, n) for b, n in zip(self.begin, shape, strict=True)]
        here = tuple(
            slice(a - b, max(c - b, a - b)) for a, c, b in zip(low, high, self.begin, strict=True)
        )
        return here, tuple(slice(a, max(c, a)) for a, c in zip(low, high, strict=True))


def cube_around(points: Sequence[Sequence[int]], side: int = 128) -> Cube:
    """The cube around the middle of all points; half a voxel is rounded down.

    >>> cube_around([(100, 90, 80)]).begin
    (36, 26, 16)
    """
    low, high = np.min(points, axis=0), np.max(points, axis=0) + 1
    x, y, z = (int(n) // 2 - side // 2 for n in low + high)
    return Cube((x, y, z), side)


def resampled_size(size: Sequence[int], spacing_mm: Sequence[float], to_mm: float) -> Size:
    """Voxels on each axis at another spacing, at least one."""
    x, y, z = (max(1, round(n * s / to_mm)) for n, s in zip(size, spacing_mm, strict=True))
    return x, y, z


def resampled(values: Values, size: Sequence[int], spacing_mm: Sequence[float]) -> Values:
    """A volume at another size, linear between voxel centres, without antialias.

    Along the one axis of much larger spacing (three times the smallest) the nearest voxel
    counts: nothing lies between slices that far apart.
    """
    import torch
    from torch.nn.functional import interpolate

    given: Any = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))[None, None]
    axis = _coarse_axis(spacing_mm)
    if axis is None:
        found = interpolate(given, size, mode="trilinear", align_corners=False)
    else:
        within = tuple(n if i != axis else values.shape[i] for i, n in enumerate(size))
        flat = interpolate(given, within, mode="trilinear", align_corners=False)
        found = interpolate(flat, size, mode="nearest-exact")
    return np.asarray(found[0, 0].numpy(), dtype=np.float32)


def _coarse_axis(spacing_mm: Sequence[float]) -> int | None:
    """The single axis of the largest spacing, if spacings differ by more than three times."""
    if max(spacing_mm) / min(spacing_mm) <= _ANISOTROPIC:
        return None
    largest = [i for i, s in enumerate(spacing_mm) if s == max(spacing_mm)]
    return largest[0] if len(largest) == 1 else None

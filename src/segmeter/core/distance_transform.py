"""Distance transform: exact Euclidean distances, on grids whose axes have their own spacing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits, Mask
from segmeter.kernels import compiled

__all__ = ["check_spacing", "deepest_voxel", "squared_depths", "squared_distances"]

Floats = npt.NDArray[np.float64]
Spacing = Sequence[float]

# Two squared depths in mm whose ratio is nearer to one than this are equal: sums of three
# products of decimals differ in their last digits by the order in which they were found.
_SAME_DEPTH = 1e-9


def check_spacing(spacing_mm: Spacing, dimensions: int) -> tuple[float, ...]:
    """The spacing as floats, refused unless it is one positive number per axis.

    >>> check_spacing((5, 1, 1), 3)
    (5.0, 1.0, 1.0)
    """
    given = tuple(float(s) for s in spacing_mm)
    if len(given) != dimensions or not all(0 < s < float("inf") for s in given):
        raise BadInput(
            f"spacing is {dimensions} positive numbers of millimetres, not {list(given)}; "
            "mend the header or give the spacing"
        )
    return given


def squared_distances(seeds: Bits, spacing_mm: Spacing) -> Floats:
    """Squared distance in mm of every voxel to the nearest seed, infinite without any.

    >>> squared_distances(np.array([[[True, False, False]]]), (5, 1, 2)).ravel().tolist()
    [0.0, 4.0, 16.0]
    """
    spacing = check_spacing(spacing_mm, seeds.ndim)
    if compiled is None or seeds.ndim != 3:
        return _plain_squared_distances(seeds, spacing)
    found: Floats = compiled.squared_distances(np.ascontiguousarray(seeds), *spacing)
    return found


def squared_depths(bits: Bits, spacing_mm: Spacing) -> Floats:
    """Squared distance in mm of every voxel to the nearest one outside; beyond the box is out.

    >>> squared_depths(np.ones((1, 3), bool), (2.0, 1.0)).tolist()
    [[1.0, 4.0, 1.0]]
    """
    outside = np.pad(~bits, 1, constant_values=True)
    inner = (slice(1, -1),) * bits.ndim
    return squared_distances(outside, spacing_mm)[inner]


def deepest_voxel(
    mask: Mask, spacing_mm: Spacing, barred: Iterable[tuple[int, ...]] = ()
) -> tuple[float, tuple[int, ...] | None]:
    """Squared depth in mm and place of the deepest voxel that is not barred.

    First in raster order among voxels whose squared depths agree to one part in 1e9.

    >>> deepest_voxel(Mask.box((9, 9, 9), (2, 2, 2), (7, 5, 5)), (1, 3, 3))
    (9.0, (4, 2, 2))
    """
    if not mask:
        return 0.0, None
    depth = squared_depths(mask.bits, spacing_mm)
    for point in barred:
        place = tuple(p - a for p, a in zip(point, mask.low, strict=True))
        if all(0 <= p < n for p, n in zip(place, depth.shape, strict=True)):
            depth[place] = 0.0
    best = float(depth.max())
    if best <= 0.0:
        return 0.0, None
    flat = int(np.argmax(depth >= best * (1.0 - _SAME_DEPTH)))
    place = tuple(int(i) for i in np.unravel_index(flat, depth.shape))
    return best, tuple(p + a for p, a in zip(place, mask.low, strict=True))


def _plain_squared_distances(seeds: Bits, spacing: tuple[float, ...]) -> Floats:
    from scipy import ndimage

    if not seeds.any():
        return np.full(seeds.shape, np.inf)
    # From the nearest seed's place rather than from roots: whole numbers stay whole.
    nearest = ndimage.distance_transform_edt(
        ~seeds, sampling=spacing, return_distances=False, return_indices=True
    )
    steps = np.indices(seeds.shape) - np.asarray(nearest)
    squares = np.square(np.asarray(spacing)) * np.moveaxis(steps * steps, 0, -1)
    return np.asarray(squares.sum(axis=-1), dtype=np.float64)

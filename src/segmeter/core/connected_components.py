"""Connected components of masks, numbered in raster order of their first voxel."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits, Mask
from segmeter.kernels import compiled

__all__ = ["components", "largest_component"]

Connectivity = Literal[4, 8, 6, 18, 26]
"""Neighbours of a pixel (4, 8) or a voxel (6, 18, 26)."""
Labels = npt.NDArray[np.int32]

# How many axes a step to a neighbour may change, by the number of axes.
_STEPS = {2: {4: 1, 8: 2}, 3: {6: 1, 18: 2, 26: 3}}
_NEIGHBOURS = {1: 6, 2: 18, 3: 26}


def components(bits: Bits, connectivity: Connectivity | None = None) -> tuple[Labels, int]:
    """Labels from 1, zero outside, and how many there are.

    Parameters
    ----------
    bits
        `(Y, X)` or `(Z, Y, X)`.
    connectivity
        Neighbours of a pixel (4 or 8) or a voxel (6, 18 or 26); all 8 or 26 by default.

    >>> components(np.array([[1, 0, 1], [0, 1, 0]], dtype=bool))[1]
    1
    >>> components(np.array([[1, 0, 1], [0, 1, 0]], dtype=bool), 4)[1]
    3
    """
    steps = _steps(bits, connectivity)
    if compiled is None or bits.ndim not in _STEPS:
        return _plain_components(bits, steps)
    volume = np.ascontiguousarray(bits if bits.ndim == 3 else bits[None])
    # The 8 neighbours of a pixel are among the 18 of a voxel in a volume of one slice.
    labels, count = compiled.components(volume, _NEIGHBOURS[steps])
    return labels.reshape(bits.shape), int(count)


def parts(mask: Mask, connectivity: Connectivity | None = None) -> list[Mask]:
    """Each component as a mask of its own, in raster order of their first voxel.

    >>> two = Mask.of(np.array([[1, 0, 1]], bool))
    >>> [part.area for part in parts(two)]
    [1, 1]
    """
    from scipy import ndimage

    labels, count = components(mask.bits, connectivity)
    boxes = ndimage.find_objects(labels, count) if count else []
    return [
        Mask.of(labels[box] == i, _start(box, mask.low), mask.shape)
        for i, box in enumerate(boxes, start=1)
    ]


def largest_component(
    mask: Mask, connectivity: Connectivity | None = None, *, tie: Literal["first", "last"] = "first"
) -> Mask:
    """The component with most voxels; among equals the first in raster order, or the last.

    >>> largest_component(Mask.of(np.array([[1, 0, 1, 1]]))).low
    (0, 2)
    """
    labels, count = components(mask.bits, connectivity)
    if count < 2:
        return mask
    sizes = np.bincount(labels.ravel())[1:]
    best = int(sizes.argmax()) if tie == "first" else count - 1 - int(sizes[::-1].argmax())
    return Mask.of(labels == best + 1, mask.low, mask.shape)


def _start(box: tuple[slice, ...], low: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(side.start) + a for side, a in zip(box, low, strict=True))


def _steps(bits: Bits, connectivity: Connectivity | None) -> int:
    """How many axes a step to a neighbour may change."""
    if connectivity is None:
        return bits.ndim
    known = _STEPS.get(bits.ndim, {})
    if connectivity not in known:
        listed = ", ".join(map(str, known)) or "not defined"
        raise BadInput(f"connectivity in {bits.ndim} dimensions is {listed}, not {connectivity!r}")
    return known[connectivity]


def _plain_components(bits: Bits, steps: int) -> tuple[Labels, int]:
    from scipy import ndimage

    near = ndimage.generate_binary_structure(bits.ndim, steps)
    labels = np.zeros(bits.shape, dtype=np.int32)
    count = int(ndimage.label(bits, near, output=labels))
    return labels, count

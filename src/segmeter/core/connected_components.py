"""Connected components of masks, numbered in raster order of their first voxel."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits, Mask
from segmeter.kernels import compiled

__all__ = ["Connectivity", "components", "largest_component", "parts"]

Connectivity = Literal["faces", "edges", "corners"]
Labels = npt.NDArray[np.int32]

# How many axes a step to a neighbour may change, and the kernel's name for it in a volume.
_STEPS = {"faces": 1, "edges": 2, "corners": 3}
_NEIGHBOURS = {1: 6, 2: 18, 3: 26}


def components(bits: Bits, connectivity: Connectivity = "corners") -> tuple[Labels, int]:
    """Labels from 1, zero outside, and how many there are.

    Parameters
    ----------
    bits
        `(Y, X)` or `(Z, Y, X)`.
    connectivity
        What neighbours share at least: `faces` (4 in an image, 6 in a volume), `edges`
        (18 in a volume; in an image the same as corners) or `corners` (8, 26).

    >>> components(np.array([[1, 0, 1], [0, 1, 0]], dtype=bool))[1]
    1
    >>> components(np.array([[1, 0, 1], [0, 1, 0]], dtype=bool), "faces")[1]
    3
    """
    if connectivity not in _STEPS:
        raise BadInput(f"connectivity is faces, edges or corners, not '{connectivity}'")
    if compiled is None or bits.ndim not in (2, 3):
        return _plain_components(bits, connectivity)
    steps = min(_STEPS[connectivity], bits.ndim)
    volume = np.ascontiguousarray(bits if bits.ndim == 3 else bits[None])
    # In an image a corner is what an edge is in a volume of one slice.
    labels, count = compiled.components(volume, _NEIGHBOURS[steps])
    return labels.reshape(bits.shape), int(count)


def parts(mask: Mask, connectivity: Connectivity = "corners") -> list[Mask]:
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
    mask: Mask, connectivity: Connectivity = "corners", *, tie: Literal["first", "last"] = "first"
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


def _plain_components(bits: Bits, connectivity: Connectivity) -> tuple[Labels, int]:
    from scipy import ndimage

    steps = min(_STEPS[connectivity], bits.ndim)
    near = ndimage.generate_binary_structure(bits.ndim, steps)
    labels = np.zeros(bits.shape, dtype=np.int32)
    count = int(ndimage.label(bits, near, output=labels))
    return labels, count

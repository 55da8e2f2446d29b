"""Morphology of masks: connected components and distance transforms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits, Mask
from segmeter.kernels import compiled

Connectivity = Literal[4, 8, 6, 18, 26]
"""Neighbours of a pixel (4, 8) or a voxel (6, 18, 26)."""
Labels = npt.NDArray[np.int32]

# How many axes a step to a neighbour may change, by the number of axes.
_STEPS = {2: {4: 1, 8: 2}, 3: {6: 1, 18: 2, 26: 3}}
_NEIGHBOURS = {1: 6, 2: 18, 3: 26}
Floats = npt.NDArray[np.float64]
Spacing = Sequence[float]
# Two squared depths in mm whose ratio is nearer to one than this are equal: sums of three
# products of decimals differ in their last digits by the order in which they were found.
_SAME_DEPTH = 1e-9


def components(bits: Bits, connectivity: Connectivity | None = None) -> tuple[Labels, int]:
    """Labels of bits `(Y, X)` or `(Z, Y, X)` from 1, zero outside, and how many there are.

    A pixel has 4 or 8 neighbours, a voxel 6, 18 or 26; all 8 or 26 by default.

    >>> components(np.array([[1, 0, 1], [0, 1, 0]], dtype=bool))[1]
    1
    >>> components(np.array([[1, 0, 1], [0, 1, 0]], dtype=bool), 4)[1]
    3
    """
    known = _STEPS.get(bits.ndim, {})
    if connectivity is not None and connectivity not in known:
        listed = ", ".join(map(str, known)) or "not defined"
        raise BadInput(f"connectivity in {bits.ndim} dimensions is {listed}, not {connectivity!r}")
    steps = bits.ndim if connectivity is None else known[connectivity]
    if compiled is None or bits.ndim not in _STEPS:
        return _plain_components(bits, steps)
    volume = np.ascontiguousarray(bits if bits.ndim == 3 else bits[None])
    # The 8 neighbours of a pixel are among the 18 of a voxel in a volume of one slice.
    labels, count = compiled.components(volume, _NEIGHBOURS[steps])
    return labels.reshape(bits.shape), int(count)


def joined_pixels(down: Bits, right: Bits) -> Labels:
    """Components, from 1, of pixels joined to their lower and right neighbours where so marked.

    >>> joined_pixels(np.zeros((0, 3), bool), np.array([[True, False]])).tolist()
    [[1, 1, 2]]
    """
    import cv2

    whole = np.zeros((2 * right.shape[0] - 1, 2 * down.shape[1] - 1), dtype=np.uint8)
    whole[::2, ::2] = 1
    whole[1::2, ::2], whole[::2, 1::2] = down, right
    found = cv2.connectedComponents(whole, connectivity=4, ltype=cv2.CV_32S)[1]
    return np.ascontiguousarray(found[::2, ::2], dtype=np.int32)


def parts(mask: Mask, connectivity: Connectivity | None = None) -> list[Mask]:
    """Each component as a mask of its own, in raster order of their first voxel.

    >>> two = Mask.of(np.array([[1, 0, 1]], bool))
    >>> [part.area for part in parts(two)]
    [1, 1]
    """
    from scipy import ndimage

    labels, count = components(mask.bits, connectivity)
    boxes = ndimage.find_objects(labels, count) if count else []
    found = []
    for i, box in enumerate(boxes, start=1):
        low = tuple(int(side.start) + a for side, a in zip(box, mask.low, strict=True))
        found.append(Mask.of(labels[box] == i, low, mask.shape))
    return found


def largest_component(mask: Mask, *, tie: Literal["first", "last"] = "first") -> Mask:
    """The component with most voxels; among equals the first in raster order, or the last.

    >>> largest_component(Mask.of(np.array([[1, 0, 1, 1]]))).low
    (0, 2)
    """
    labels, count = components(mask.bits)
    if count < 2:
        return mask
    sizes = np.bincount(labels.ravel())[1:]
    best = int(sizes.argmax()) if tie == "first" else count - 1 - int(sizes[::-1].argmax())
    return Mask.of(labels == best + 1, mask.low, mask.shape)


def fill_ignored(mask: Mask, ignore: Mask | None, spacing_mm: Sequence[float] = ()) -> Mask:
    """The mask with ignored pixels set to the value of the nearest judged one of their slice.

    Contours then pass where they would without an ignored band: cutting the band out would draw
    the object's contour into every mask that runs across it. A slice without a judged pixel is
    empty. `spacing_mm` is needed where pixels are not square.

    >>> band = Mask.of(np.array([[0, 1, 1, 1, 0]]))
    >>> fill_ignored(Mask.of(np.array([[1, 1, 1, 1, 0]])), band).dense().astype(int).tolist()
    [[1, 1, 1, 0, 0]]
    """
    if not ignore:
        return mask
    mask.check_frame(ignore)
    ratio = spacing_mm[-2] / spacing_mm[-1] if len(spacing_mm) > 1 else 1.0
    found = ignore.derived(("nearest judged", ratio), lambda: _nearest_judged(ignore, ratio))
    first, last, ignored, nearest = found
    low = tuple(map(min, first, mask.low)) if mask else first
    high = tuple(map(max, last, mask.high)) if mask else last
    bits = mask.crop(low, high)
    part = bits[tuple(slice(a - o, b - o) for a, b, o in zip(first, last, low, strict=True))]
    flat = np.append(part.ravel(), False)
    flat[ignored] = flat[nearest]
    part[...] = flat[:-1].reshape(part.shape)
    return Mask.of(bits, low, mask.shape)


def _nearest_judged(ignore: Mask, ratio: float) -> tuple[Any, ...]:
    """The box of ignored pixels and their neighbours, their places, and those of the nearest.

    Places are raster indices of the box; one past the last means "none".
    """
    from scipy import ndimage

    low = tuple(max(0, a - 1) for a in ignore.low)
    high = tuple(min(n, b + 1) for n, b in zip(ignore.shape, ignore.high, strict=True))
    bits = ignore.crop(low, high)
    nearest = np.full(bits.shape, bits.size)
    plane = math.prod(bits.shape[-2:])
    planes = (array.reshape(-1, *bits.shape[-2:]) for array in (bits, nearest))
    for z, (ignored, found) in enumerate(zip(*planes, strict=True)):
        if ignored.any() and not ignored.all():
            y, x = ndimage.distance_transform_edt(
                ignored, sampling=(ratio, 1.0), return_distances=False, return_indices=True
            )
            found[...] = z * plane + y * bits.shape[-1] + x
    places = np.flatnonzero(bits)
    return low, high, places, nearest.ravel()[places]


def _plain_components(bits: Bits, steps: int) -> tuple[Labels, int]:
    from scipy import ndimage

    near = ndimage.generate_binary_structure(bits.ndim, steps)
    labels = np.zeros(bits.shape, dtype=np.int32)
    count = int(ndimage.label(bits, near, output=labels))
    return labels, count


def check_spacing(spacing_mm: Spacing, dimensions: int) -> tuple[float, ...]:
    """The spacing as floats, refused unless it is one positive number per axis.

    >>> check_spacing((5, 1, 1), 3)
    (5.0, 1.0, 1.0)
    """
    try:
        given = tuple(float(s) for s in spacing_mm)
    except (TypeError, ValueError):
        given = ()
    if len(given) != dimensions or not all(0 < s < float("inf") for s in given):
        raise BadInput(
            f"spacing is {dimensions} positive numbers of millimetres, not {spacing_mm}; "
            "fix the header or give the spacing"
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

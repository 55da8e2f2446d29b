"""Error regions: false negatives and false positives, and the deepest pixel of each.

Everything happens inside the box of the error region. Depth is the distance from a pixel's
centre to the nearest pixel that is not part of the error region; beyond the image counts as
such a pixel. Squared depths are compared as integers, so ties are ties on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Bits, Mask
from segmeter.core.scenes import Target
from segmeter.kernels import compiled, threads

# float32 roots tell n from n + 1 under the root only up to here.
_FLOAT32_DEPTH = 2048
Prediction = tuple[Target, Mask, Sequence[tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Depth:
    """A deepest pixel and its squared depth; `point` is None when there is none."""

    squared: int
    point: tuple[int, ...] | None


def error_regions(target: Target, prediction: Mask) -> tuple[Mask, Mask]:
    """False negatives and false positives, without ignored pixels.

    >>> thing = Target('thing', Mask.box((4, 4), (0, 0), (2, 2)))
    >>> [region.area for region in error_regions(thing, Mask.box((4, 4), (0, 0), (1, 4)))]
    [2, 2]
    """
    missed, added = target.mask - prediction, prediction - target.mask
    if target.ignore is None:
        return missed, added
    return missed - target.ignore, added - target.ignore


class Numbered:
    """Masks as kernels take them for many tasks at once: each one once, tasks give numbers."""

    def __init__(self) -> None:
        self.boxes: list[tuple[Bits, int, int]] = []
        self._numbers: dict[int, int] = {}

    def number(self, mask: Mask | None) -> int:
        """The mask's number, -1 for none."""
        if mask is None:
            return -1
        if id(mask) not in self._numbers:
            self._numbers[id(mask)] = len(self.boxes)
            self.boxes.append((mask.bits, *mask.low))  # type: ignore[arg-type]  # low has two
        return self._numbers[id(mask)]

    def sides(self, target: Target, prediction: Mask) -> tuple[tuple[int, int, int], ...]:
        """False negatives and false positives: each a mask and two masks to subtract from it."""
        target.mask.check_frame(prediction)
        ground_truth, other, ignored = map(self.number, (target.mask, prediction, target.ignore))
        return (ground_truth, other, ignored), (other, ground_truth, ignored)


def deepest(mask: Mask, barred: Iterable[tuple[int, ...]] = ()) -> Depth:
    """The deepest pixel of a mask that is not barred; first in raster order among equals.

    Barred pixels cannot win but still count as part of the mask.

    >>> deepest(Mask.box((9, 9), (2, 2), (7, 7)))
    Depth(squared=9, point=(4, 4))
    """
    if not mask:
        return Depth(0, None)
    places = [tuple(map(int.__sub__, point, mask.low)) for point in barred]
    inside = [p for p in places if min(p) >= 0 and all(map(int.__lt__, p, mask.bits.shape))]
    squared, place = _search(mask.bits, inside)
    if place is None:
        return Depth(0, None)
    return Depth(squared, tuple(int(p) + a for p, a in zip(place, mask.low, strict=True)))


def deepest_sides(predictions: Sequence[Prediction]) -> list[tuple[Depth, Depth]]:
    """The deepest missed and the deepest false positive pixel of many predictions at once.

    A prediction is a target, a mask and the barred pixels. One call of the kernel for all, on as
    many threads as it may use: for eleven sessions of a DAVIS frame an eighth of the time that
    one call after the other takes (perf/session.py).

    >>> thing = Target('thing', Mask.box((9, 9), (2, 2), (7, 7)))
    >>> deepest_sides([(thing, Mask.empty((9, 9)), ())])
    [(Depth(squared=9, point=(4, 4)), Depth(squared=0, point=None))]
    """
    if compiled is None or any(len(prediction.shape) != 2 for _, prediction, _ in predictions):
        return [_plain_sides(*prediction) for prediction in predictions]
    masks = Numbered()
    sides = [(masks.sides(target, mask), barred) for target, mask, barred in predictions]
    tasks = [(*side, barred) for both, barred in sides for side in both]
    found = [
        Depth(squared, None if y < 0 else (y, x))
        for squared, y, x in compiled.deepest_rests(masks.boxes, tasks, threads())
    ]
    return list(zip(found[::2], found[1::2], strict=True))


def _plain_sides(
    target: Target, prediction: Mask, barred: Sequence[tuple[int, ...]]
) -> tuple[Depth, Depth]:
    negatives, positives = error_regions(target, prediction)
    return deepest(negatives, barred), deepest(positives, barred)


def squared_depth(bits: Bits) -> npt.NDArray[np.int64]:
    """Exact squared depth of every pixel of a box; outside the box counts as not in it.

    >>> squared_depth(np.ones((3, 3), bool)).tolist()
    [[1, 1, 1], [1, 4, 1], [1, 1, 1]]
    """
    ringed = np.pad(bits, 1)
    if bits.ndim == 2 and min(bits.shape) < 2 * _FLOAT32_DEPTH:
        roots = cv2.distanceTransform(ringed.view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
        depth: npt.NDArray[np.float64] = roots.astype(np.float64)
    else:
        from scipy import ndimage

        depth = np.asarray(ndimage.distance_transform_edt(ringed), dtype=np.float64)
    inner = depth[(slice(1, -1),) * bits.ndim]
    return np.rint(inner * inner).astype(np.int64)


def _search(bits: Bits, barred: list[tuple[int, ...]]) -> tuple[int, tuple[int, ...] | None]:
    """Squared depth and place, by the compiled search for images, else by the plain one."""
    if compiled is None or bits.ndim != 2:
        return _plain_search(bits, barred)
    columns = bits.shape[1]
    squared, place = compiled.deepest(bits, [y * columns + x for y, x in barred])
    return squared, None if place < 0 else divmod(place, columns)


def _plain_search(bits: Bits, barred: list[tuple[int, ...]]) -> tuple[int, tuple[int, ...] | None]:
    depth = squared_depth(bits)
    for point in barred:
        depth[point] = 0
    best = int(depth.argmax())  # first in raster order among equals
    squared = int(depth.flat[best])
    place = tuple(int(i) for i in np.unravel_index(best, bits.shape))
    return (squared, place) if squared else (0, None)

"""Correction effort: contour to draw or vertices to move to fix a mask.

All take `(ground_truth, prediction)`. Contour that only has to be deleted costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask, joint_box
from segmeter.core.measures import measure
from segmeter.core.morphology import fill_ignored
from segmeter.measures.objects import iou
from segmeter.measures.surfaces import ROUNDED

_CVAT = "segmeter's own: polygons simplified by Douglas and Peucker, vertices beyond 2 px counted"

_CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.uint8)

Pixels = npt.NDArray[Any]
Ring = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class AddedPath:
    """Added path length: contour pixels to draw in each slice that is not empty, and in mm.

    `removed_mm` is the other direction: contour of the prediction that has to be deleted.
    """

    slices: tuple[int, ...]
    total_mm: float
    mean_mm: float
    removed_mm: float


@dataclass(frozen=True, slots=True)
class AddedVoxels:
    """Kiser's counts in voxels, without tolerance: of edges added, of edges missed, of volume."""

    added_path: int
    false_negative_path: int
    false_negative_volume: int


@dataclass(frozen=True, slots=True)
class TouchUp:
    """Vertices to move and to add; `operations`, the larger of both, bounds the work from below."""

    to_move: int
    to_add: int
    operations: int


def added_path(
    ground_truth: Mask,
    prediction: Mask,
    spacing_mm: Sequence[float] | None = None,
    tolerance_mm: float = 3.0,
) -> AddedPath:
    """Contour of the ground truth that the prediction does not have, slice by slice.

    Vaassen et al., Evaluation of measures for assessing time-saving of automatic organ-at-risk
    segmentation, phiRO 2020, with platipy's rules: a contour pixel has a 4-neighbour outside the
    mask, the border of the image is not a contour, and the tolerance is rounded up to whole pixels
    of the mean spacing within a slice.

    >>> square, half = Mask.box((9, 9), (2, 2), (7, 7)), Mask.box((9, 9), (2, 2), (4, 7))
    >>> added_path(square, half, tolerance_mm=0).slices
    (9,)
    """
    spacing = tuple(spacing_mm or (1.0,) * len(ground_truth.shape))
    in_plane = (spacing[-1] + spacing[-2]) / 2
    reach = math.ceil(tolerance_mm / in_plane / ROUNDED) if tolerance_mm > 0 else 0
    pairs = zip(*_slices(ground_truth, prediction), strict=True)
    found = [_apart(g, p, reach) for g, p in pairs if g.any() or p.any()]
    counts = tuple(added for added, _ in found)
    total = sum(counts) * in_plane
    removed = sum(removed for _, removed in found) * in_plane
    return AddedPath(counts, total, total / len(counts) if counts else 0.0, removed)


def added_voxels(ground_truth: Mask, prediction: Mask) -> AddedVoxels:
    """Edge voxels of a volume that have to be added.

    Kiser et al., Novel autosegmentation spatial similarity metrics capture the time required to
    correct segmentations better than traditional metrics in a thoracic cavity segmentation
    workflow, Journal of Digital Imaging 2021.

    >>> cube = Mask.box((5, 5, 5), (1, 1, 1), (4, 4, 4))
    >>> added_voxels(cube, Mask.empty((5, 5, 5))).false_negative_volume
    27
    """
    from scipy import ndimage  # a quarter of a second

    truth, found = ground_truth.dense(), prediction.dense()
    edges = [mask & ~ndimage.binary_erosion(mask, np.ones((3,) * mask.ndim, bool)) for mask in
             (truth, found)]  # fmt: skip
    return AddedVoxels(
        int(np.count_nonzero(edges[0] & ~edges[1])),
        int(np.count_nonzero(edges[0] & ~found)),
        int(np.count_nonzero(truth & ~found)),
    )


def polygons(mask: Mask, tolerance_px: float = 1.0) -> list[Ring]:
    """Outer rings and holes of an image's mask, simplified by Douglas and Peucker's rule.

    Rings run through pixel centres, `(x, y)`.

    >>> [len(ring) for ring in polygons(Mask.box((9, 9), (2, 2), (7, 7)))]
    [4]
    """
    import cv2

    rings, _ = cv2.findContours(
        mask.dense().astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE
    )
    simple = (cv2.approxPolyDP(ring, tolerance_px, True) for ring in rings)
    return [np.asarray(ring[:, 0], np.int32) for ring in simple]


def iou_lost(mask: Mask, tolerance_px: float = 1.0) -> float:
    """Share of the union that simplifying a mask to polygons costs.

    >>> iou_lost(Mask.box((9, 9), (2, 2), (7, 7)), 1.0)
    0.0
    """
    import cv2

    filled = np.zeros(mask.shape, np.uint8)
    rings = polygons(mask, tolerance_px)
    if rings:
        cv2.fillPoly(filled, rings, 1)
    return 1 - iou(mask, Mask.of(filled.astype(bool)))


@measure("polygon-loss", better="lower", cite=_CVAT, dimensions=(2,))
def polygon_loss(ground_truth: Mask, prediction: Mask, ignore: Mask | None = None) -> float:
    """IoU that the prediction loses as polygons simplified by 1 pixel, see `iou_lost`.

    >>> polygon_loss(Mask.empty((9, 9)), Mask.box((9, 9), (2, 2), (7, 7)))
    0.0
    """
    return iou_lost(fill_ignored(prediction, ignore))


def touch_up(
    ground_truth: Mask, prediction: Mask, simplified_px: float = 1.0, tolerance_px: float = 2.0
) -> TouchUp:
    """Vertices that a person has to move, insert or delete to correct a polygon.

    Both masks are simplified by `simplified_px`; a vertex within `tolerance_px` of the other
    outline stays. A prediction where there is nothing costs one operation: delete it.

    >>> touch_up(Mask.box((20, 20), (2, 2), (9, 9)), Mask.box((20, 20), (2, 2), (9, 15)))
    TouchUp(to_move=2, to_add=0, operations=2)
    """
    wanted, there = polygons(ground_truth, simplified_px), polygons(prediction, simplified_px)
    if not wanted:
        return TouchUp(sum(map(len, there)), 0, int(bool(there)))
    if not there:
        vertices = sum(map(len, wanted))
        return TouchUp(0, vertices, vertices)
    to_move = _beyond(there, wanted, tolerance_px)
    to_add = _beyond(wanted, there, tolerance_px)
    return TouchUp(to_move, to_add, max(to_move, to_add))


@measure(
    "touch-up", range=(0, float("inf")), better="lower", cite=_CVAT, dimensions=(2,),
    units=("vertices", ""),
)  # fmt: skip
def touch_up_operations(ground_truth: Mask, prediction: Mask, ignore: Mask | None = None) -> float:
    """Vertices to move, insert or delete to correct a polygon, see `touch_up`.

    >>> touch_up_operations(Mask.box((9, 9), (2, 2), (7, 7)), Mask.empty((9, 9)))
    4.0
    """
    wanted, there = fill_ignored(ground_truth, ignore), fill_ignored(prediction, ignore)
    return float(touch_up(wanted, there).operations)


@measure(
    "added-path", range=(0, float("inf")), better="lower", cite="vaassen2020", units=("px", "mm")
)
def added_path_mm(
    ground_truth: Mask, prediction: Mask, spacing_mm: Sequence[float] = (1.0, 1.0, 1.0)
) -> float:
    """Contour to draw in millimetres, or pixels of an image, slice by slice, see `added_path`.

    >>> added_path_mm(Mask.box((20, 20), (2, 2), (17, 17)), Mask.empty((20, 20)))
    56.0
    """
    return added_path(ground_truth, prediction, spacing_mm).total_mm


@measure(
    "redrawn-path", range=(0, float("inf")), better="lower", cite="vaassen2020", units=("px", "mm")
)
def redrawn_path_mm(
    ground_truth: Mask, prediction: Mask, spacing_mm: Sequence[float] = (1.0, 1.0, 1.0)
) -> float:
    """Contour to draw or to delete, whichever is longer, in millimetres or pixels of an image.

    Added path alone does not charge for specks and for holes: their contours only have to be
    deleted.

    >>> redrawn_path_mm(Mask.box((20, 20), (2, 2), (17, 17)), Mask.empty((20, 20)))
    56.0
    """
    found = added_path(ground_truth, prediction, spacing_mm)
    return max(found.total_mm, found.removed_mm)


def _slices(*masks: Mask) -> list[Pixels]:
    """The slices of masks, cut to one pixel around what they hold, but not past the image."""
    low, high = joint_box(*masks)
    low = tuple(max(0, a - 1) for a in low)
    high = tuple(min(n, b + 1) for n, b in zip(masks[0].shape, high, strict=True))
    cut = [mask.crop(low, high).astype(np.uint8) for mask in masks]
    return [part[None] if part.ndim == 2 else part for part in cut]


def _apart(truth: Pixels, found: Pixels, reach: int) -> tuple[int, int]:
    """Contour pixels of either mask that are outside the widened contour of the other."""
    import cv2

    own, other = _contour(truth), _contour(found)
    span = np.arange(-reach, reach + 1)
    disc = (span[:, None] ** 2 + span**2 <= (reach + 0.5) ** 2).astype(np.uint8)
    near, known = (cv2.dilate(c, disc) if reach else c for c in (own, other))
    return int(np.count_nonzero(own > known)), int(np.count_nonzero(other > near))


def _contour(mask: Pixels) -> Pixels:
    """Pixels with a 4-neighbour outside the mask; beyond the image counts as inside."""
    import cv2

    return mask - cv2.erode(mask, _CROSS)


def _beyond(rings: Sequence[Ring], others: Sequence[Ring], tolerance: float) -> int:
    """Vertices farther than the tolerance from the outline of the other rings."""
    import cv2

    points = np.concatenate(rings).astype(float).tolist()
    away = [
        min(abs(cv2.pointPolygonTest(ring, point, True)) for ring in others) for point in points
    ]
    return sum(distance > tolerance for distance in away)

"""Small regions: holes that are filled and islands that are removed.

Non-maximum suppression: of masks that overlap too much the better one stays.

Candidates are taken by score, the highest first, ties in the order given; each removes the
later ones that overlap it by more than the threshold.

`published` compares boxes in single precision and takes the last pixel for the box's end, so
a mask one pixel wide has a box without area and is never removed; at 0.3, 0.6 and 0.8 an
overlap of exactly the threshold is above it. `corrected` counts pixels in double precision.

Edges from automatic masks: where the probability of some mask changes fastest.

Segment Anything's zero-shot edges: every mask's probability is differentiated (Sobel), only
the mask's outer boundary counts, and the strongest mask wins at each pixel.

`published` follows the public reproduction: zeros around the image, so the frame is an edge
wherever a mask touches it; a boundary two pixels wide; the map stretched from its lowest to
its highest value. `corrected` repeats the outermost pixels, takes the pixels just outside the mask,
and keeps the gradient of the mask that won, which gives the direction across the edge: on a crest
the map's own gradient vanishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.masks import Bits, Mask
from segmeter.core.models import ProtocolName
from segmeter.kernels import compiled

LIFT = 10.0
"""How far from 0 SAM 2 puts the logits of what it fills or removes."""


def clean_mask(
    bits: Bits, smallest: int, protocol: ProtocolName = "published"
) -> tuple[Bits, bool]:
    """A mask without small holes and then without small islands; whether any were found.

    Regions below `smallest` pixels are small. The ground around the object is a region like
    any other. If all islands are small the largest stays; of equal ones that whose first
    2 x 2 block comes first. `published` lets holes, too, be joined across corners.
    """
    joined = 8 if protocol == "published" else 4
    labels, areas = _regions(~bits, joined)
    holes = _small(areas, smallest)
    filled = bits | holes[labels]
    labels, areas = _regions(filled, 8)
    islands = _small(areas, smallest)
    if not islands.any():
        return filled, bool(holes.any())
    stays = ~islands
    stays[0] = False
    if not stays.any():
        stays[_first_largest(labels, areas)] = True
    return stays[labels], True


def largest_region(bits: Bits) -> int:
    """Pixels of the largest region, joined across corners too."""
    return int(_regions(bits, 8)[1][1:].max(initial=0))


def clean_logits(maps: npt.NDArray[np.float32], smallest: int) -> npt.NDArray[np.float32]:
    """SAM 2's way: low-resolution logits `(n, h, w)` with small regions lifted or lowered.

    Regions of up to `smallest` pixels of the map are small; holes and islands are both found
    in the map as it came.
    """
    cleaned = maps.copy()
    for place, one in enumerate(maps):
        for bits, lift in ((one <= 0, LIFT), (one > 0, -LIFT)):
            labels, areas = _regions(bits, 8)
            cleaned[place][_small(areas, smallest + 1)[labels]] = lift
    return cleaned


def _regions(bits: Bits, joined: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Labels from 1 on, 0 elsewhere, and each label's pixels."""
    import cv2

    whole = bits.astype(np.uint8)
    count, labels, found, _ = cv2.connectedComponentsWithStats(whole, connectivity=joined)
    areas = found[:count, cv2.CC_STAT_AREA]
    return np.asarray(labels, dtype=np.int32), np.asarray(areas, dtype=np.int64)


def _small(areas: npt.NDArray[np.int64], smallest: int) -> npt.NDArray[np.bool_]:
    small = areas < smallest
    small[0] = False
    return np.asarray(small)


def _first_largest(labels: npt.NDArray[np.int32], areas: npt.NDArray[np.int64]) -> int:
    """The largest region; of equal ones that of the first occupied 2 x 2 block, by rows."""
    tied = np.flatnonzero(areas[1:] == areas[1:].max()) + 1
    if tied.size == 1:
        return int(tied[0])
    y, x = np.nonzero(np.isin(labels, tied))
    blocks = (y // 2) * ((labels.shape[1] + 1) // 2) + x // 2
    # Two regions never share a block: its pixels touch each other.
    return int(labels[y, x][np.argmin(blocks)])


Boxes = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]
Overlaps = Callable[[int, Places], npt.NDArray[np.float64]]


def suppress_boxes(
    boxes: npt.ArrayLike,
    scores: npt.ArrayLike,
    threshold: float,
    protocol: ProtocolName = "published",
) -> Places:
    """Indices of the boxes that stay, best first.

    Parameters
    ----------
    boxes
        `(n, 4)`: first and last column and row, `x0 y0 x1 y1`, both inside.

    Examples
    --------
    >>> suppress_boxes([[0, 0, 10, 10], [1, 0, 11, 10], [30, 0, 40, 10]], [.5, .9, .1], 0.7)
    array([1, 2])
    """
    dtype = np.float32 if protocol == "published" else np.float64
    corners: npt.NDArray[Any] = np.asarray(boxes, dtype=dtype).reshape(-1, 4)
    if protocol == "corrected":
        corners = corners + np.array([0, 0, 1, 1])
    order = _ranked(scores)
    if compiled is None:
        return plain_suppress_boxes(corners, order, threshold)
    kept = compiled.suppress_boxes(np.ascontiguousarray(corners), order, threshold)
    return np.asarray(kept, dtype=np.intp)


def plain_suppress_boxes(
    corners: npt.NDArray[Any], order: npt.NDArray[np.int64], threshold: float
) -> Places:
    """Plain twin of the kernel; rounds in the precision of the corners."""
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])

    def overlaps(one: int, others: Places) -> npt.NDArray[np.float64]:
        low = np.maximum(corners[one, :2], corners[others, :2])
        high = np.minimum(corners[one, 2:], corners[others, 2:])
        shared = np.maximum(high - low, 0).prod(axis=1, dtype=corners.dtype)
        with np.errstate(invalid="ignore"):
            return np.asarray(shared / (areas[one] + areas[others] - shared), dtype=np.float64)

    return _greedy(order, overlaps, threshold)


def suppress_masks(masks: Sequence[Mask], scores: npt.ArrayLike, threshold: float) -> Places:
    """Indices of the masks that stay, best first, by the overlap of the masks themselves.

    A ring and the disc inside it have one box; here both stay.
    """

    def overlaps(one: int, others: Places) -> npt.NDArray[np.float64]:
        first = masks[one]
        shared = np.array([first.overlap(masks[i]) for i in others], dtype=np.float64)
        union = first.area + np.array([masks[i].area for i in others]) - shared
        return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)

    return _greedy(_ranked(scores), overlaps, threshold)


def _ranked(scores: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The highest score first, ties in the order given."""
    known: Scores = np.asarray(scores, dtype=np.float32)
    if np.isnan(known).any():
        raise BadInput("a mask whose score is not a number cannot be ranked")
    return np.argsort(-known, kind="stable").astype(np.int64)


def _greedy(left: npt.NDArray[np.int64], overlaps: Overlaps, threshold: float) -> Places:
    kept: list[int] = []
    while left.size:
        best, left = int(left[0]), left[1:]
        kept.append(best)
        # No number (0 / 0) is not above the threshold: both stay.
        left = left[~(overlaps(best, left) > threshold)]
    return np.array(kept, dtype=np.intp)


Single = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EdgeMap:
    """Strength of edges `(H, W)`, and the gradient of the mask that is strongest at each pixel.

    `winner` is that mask's place in the list; the first one of equal masks.
    """

    strength: Single
    down: Single
    across: Single
    winner: npt.NDArray[np.int32]


def edge_map(
    maps: Iterable[Single],
    shape: tuple[int, int],
    protocol: ProtocolName = "published",
    frame_px: int = 0,
) -> EdgeMap:
    """The strongest edge of many masks at each pixel, not yet stretched to 0..1.

    Parameters
    ----------
    maps
        Each mask's logits `(H, W)`.
    frame_px
        A band around the image that is set to zero.
    """
    from scipy.special import expit

    strength, down, across = (np.zeros(shape, dtype=np.float32) for _ in range(3))
    winner = np.zeros(shape, dtype=np.int32)
    for place, logits in enumerate(maps):
        dy, dx = _sobel(np.asarray(expit(logits), dtype=np.float32), protocol)
        rise = np.sqrt(dx * dx + dy * dy) * outer_boundary(logits > 0, protocol)
        if frame_px:
            rise[:frame_px] = rise[-frame_px:] = 0
            rise[:, :frame_px] = rise[:, -frame_px:] = 0
        better = rise > strength if place else np.ones(shape, dtype=bool)
        for kept, new in ((strength, rise), (down, dy), (across, dx)):
            np.copyto(kept, new, where=better)
        winner[better] = place
    return EdgeMap(strength, down, across, winner)


def outer_boundary(bits: Bits, protocol: ProtocolName) -> Bits:
    """Pixels where a mask's edge may lie."""
    import cv2

    if protocol == "published":
        dy, dx = _sobel(bits.astype(np.float32), protocol)
        return np.asarray((dx != 0) | (dy != 0))
    grown = cv2.dilate(bits.astype(np.uint8), np.ones((3, 3), np.uint8))
    return np.asarray((grown > 0) & ~bits)


def stretched(strength: Single, protocol: ProtocolName = "published") -> Single:
    """A map in 0..1: from its lowest to its highest value, or (`corrected`) by its highest alone.

    A map of one value only has no number in it as published, and stays as it is when corrected.
    """
    if protocol == "corrected":
        most = strength.max(initial=0)
        return strength / most if most > 0 else strength
    low, high = strength.min(), strength.max()
    with np.errstate(invalid="ignore"):
        return np.asarray((strength - low) / (high - low), dtype=np.float32)


def _sobel(values: Single, protocol: ProtocolName) -> tuple[Single, Single]:
    """Derivatives along y and x, by Sobel's unnormalised 3 x 3 filters."""
    import cv2

    border = cv2.BORDER_CONSTANT if protocol == "published" else cv2.BORDER_REPLICATE

    def along(dx: int, dy: int) -> Any:
        return cv2.Sobel(values, cv2.CV_32F, dx, dy, ksize=3, borderType=border)

    return along(0, 1), along(1, 0)

"""Small regions: holes that are filled and islands that are removed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Bits
from segmeter.core.models import ProtocolName

__all__ = ["clean_logits", "clean_mask", "largest_region"]

LIFT = 10.0
"""How far beyond the threshold SAM 2 puts the logits of what it fills or removes."""


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


def clean_logits(
    maps: npt.NDArray[np.float32], smallest: int, threshold: float = 0.0
) -> npt.NDArray[np.float32]:
    """SAM 2's way: low-resolution logits `(n, h, w)` with small regions lifted or lowered.

    Regions of up to `smallest` pixels of the map are small; holes and islands are both found
    in the map as it came.
    """
    cleaned = maps.copy()
    for place, one in enumerate(maps):
        for bits, value in (
            (one <= threshold, threshold + LIFT),
            (one > threshold, threshold - LIFT),
        ):
            labels, areas = _regions(bits, 8)
            cleaned[place][_small(areas, smallest + 1)[labels]] = np.float32(value)
    return cleaned


def _regions(bits: Bits, joined: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Labels from 1 on, 0 elsewhere, and each label's pixels."""
    import cv2

    count, labels, found, _ = cv2.connectedComponentsWithStats(
        bits.astype(np.uint8), connectivity=joined
    )
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

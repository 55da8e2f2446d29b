"""Clicking groups: tenths of a click map, from the least to the most clickable.

`published` keeps the pixels between two values, both included, so that groups overlap where
values are equal, and hold more than a tenth; everything is float32, as in the original.
`corrected` gives each group exactly its share of the mass: pixels in order of value, equal values
in the order of a hash, a pixel on a limit split between its two groups.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from segmeter.clickability.maps import ClickMap
from segmeter.core.errors import BadInput
from segmeter.kernels import compiled

__all__ = [
    "GROUPS",
    "draw_corrected",
    "draw_published",
    "group_of_pixels",
    "limits",
    "share_of_group",
]

GROUPS = 10
Point = tuple[int, int]
Share = tuple[float, float]
Frame = tuple[int, int, int, int]  # the image's height and width, the box's first pixel
_MASK = (1 << 64) - 1


def share_of_group(group: int, groups: int = GROUPS) -> tuple[float, float]:
    """The shares of the mass between which a group lies; group 0 is the whole map.

    >>> share_of_group(10)
    (0.9, 1.0)
    """
    if not 0 <= group <= groups:
        raise BadInput(f"there is no clicking group {group}; groups are 1 to {groups}, 0 for all")
    return (0.0, 1.0) if group == 0 else ((group - 1) / groups, group / groups)


def draw_corrected(map: ClickMap, share: Share, uniform: float, seed: int) -> Point | None:
    """The pixel at a uniform place within a share of the mass; None if there is no mass.

    Pixels stand in order of value, equal ones in the order of a hash of `seed` and place, so
    this is a draw from the group's pixels by weight, in one pass and without sorting the map.
    """
    low, high = share
    at = low + uniform * (high - low)
    search = compiled.at_share if compiled is not None else _plain_at_share
    return _point(map, int(search(map.weights, at, seed & _MASK)))


def draw_published(map: ClickMap, share: Share, uniform: float) -> Point | None:
    """A pixel between the group's limits, by weight, counted in raster order; None if no mass."""
    bounds = limits(map, share)
    frame = (*map.shape, *map.low)
    draw = compiled.draw_between if compiled is not None else _plain_draw_between
    return _point(map, int(draw(map.weights, frame, bounds, uniform)))


def limits(map: ClickMap, share: Share) -> tuple[float, float]:
    """The published limits of a group: the first value at which the running sum of sorted
    weights reaches the lower share, and the first at which it exceeds the upper one."""
    pixels = map.shape[0] * map.shape[1]
    find = compiled.group_limits if compiled is not None else _plain_limits
    low, high = find(map.weights, pixels, *share)
    return float(low), float(high)


def group_of_pixels(map: ClickMap, seed: int, groups: int = GROUPS) -> npt.NDArray[np.uint8]:
    """Each pixel's corrected group by the middle of its mass, 0 where there is none; for images."""
    order = _order(map.weights, seed & _MASK)
    values = map.weights.ravel()[order].astype(np.float64)
    labels = np.zeros(map.weights.size, dtype=np.uint8)
    if order.size:
        middle = (np.cumsum(values) - values / 2) / values.sum()
        labels[order] = np.minimum(np.floor(middle * groups) + 1, groups)
    return labels.reshape(map.weights.shape)


def _point(map: ClickMap, place: int) -> Point | None:
    if place < 0:
        return None
    y, x = divmod(place, map.weights.shape[1])
    return y + map.low[0], x + map.low[1]


def _order(weights: npt.NDArray[np.float32], seed: int) -> npt.NDArray[np.intp]:
    """Places of the pixels with mass, by value and then by hash."""
    flat = weights.ravel()
    places = np.flatnonzero(flat > 0)
    return places[np.lexsort((_mixed(seed, places), flat[places]))]


def _mixed(seed: int, places: npt.NDArray[np.intp]) -> npt.NDArray[np.uint64]:
    """SplitMix64 of seed and place, as the kernel has it."""
    z = np.uint64(seed) + (places.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def _plain_at_share(weights: npt.NDArray[np.float32], share: float, seed: int) -> int:
    order = _order(weights, seed)
    if not order.size:
        return -1
    sums = np.cumsum(weights.ravel()[order].astype(np.float64))
    place = int(np.searchsorted(sums, share * sums[-1], side="right"))
    return int(order[min(place, order.size - 1)])


def _plain_limits(
    weights: npt.NDArray[np.float32], pixels: int, low: float, high: float
) -> tuple[float, float]:
    ordered = _ordered(weights, pixels)
    total, sums = ordered.sum(), np.cumsum(ordered)
    first = int(np.searchsorted(sums, np.float32(low) * total))
    last = int(np.searchsorted(sums, np.float32(high) * total, side="right"))
    bottom = float(ordered[first]) if first < pixels else float("inf")
    return bottom, float(ordered[min(last, pixels - 1)])


def _ordered(weights: npt.NDArray[np.float32], pixels: int) -> npt.NDArray[np.float32]:
    """The weights of the whole image in order, its zeros first."""
    ordered = np.zeros(pixels, dtype=np.float32)
    positive = np.sort(weights[weights > 0])
    ordered[pixels - positive.size :] = positive
    return ordered


def _plain_draw_between(
    weights: npt.NDArray[np.float32], frame: Frame, bounds: tuple[float, float], uniform: float
) -> int:
    steps = _steps(weights, frame, bounds)
    if not steps.size:
        return -1
    _, width, y, x = frame
    place_y, place_x = divmod(np.searchsorted(steps, uniform, side="right"), width)
    return int((place_y - y) * weights.shape[1] + place_x - x)


def _steps(
    weights: npt.NDArray[np.float32], frame: Frame, bounds: tuple[float, float]
) -> npt.NDArray[np.float64]:
    """Running sums of the kept shares over the whole image, up to one; none without mass."""
    height, width, y, x = frame
    rows, columns = weights.shape
    kept = np.zeros((height, width), dtype=np.float32)
    inside = (weights >= np.float32(bounds[0])) & (weights <= np.float32(bounds[1]))
    kept[y : y + rows, x : x + columns] = np.where(inside, weights, 0)
    total = kept.ravel().sum()
    if not 0 < total < np.inf:
        return np.zeros(0)
    sums = np.cumsum((kept.ravel() / total).astype(np.float64))
    return np.asarray(sums / sums[-1])

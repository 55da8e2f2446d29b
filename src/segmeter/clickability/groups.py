"""Clicking groups: tenths of a clickability map, from the least to the most clickable.

`published` keeps the pixels between two values, both included, so that groups overlap where
values are equal, and hold more than a tenth; everything is float32, as in the original.
`corrected` gives each group exactly its share of the mass: pixels in order of value, equal values
in the order of a hash, a pixel on a limit split between its two groups.

For clicks on the prior the kernel goes from masks to clicks without a box of weights in between,
for all users of a round in one call. In volumes the prior has the law and the numbers of images,

    p(voxel) ~ depth^a * exp(-r^2 / 2 s^2)

with depth in millimetres and r in units of the box's three sides. It is based on 475 544 clicks on
images, none of them in volumes, and leaves out the jitter over the edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.clickability import maps
from segmeter.clickability.maps import ClickabilityMap, ClickRegion, Numbers, Round
from segmeter.core.error_regions import Numbered, error_regions
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.morphology import squared_depths
from segmeter.core.scenes import Scene, Target
from segmeter.kernels import compiled, threads

GROUPS = 10
Point = tuple[int, int]
Share = tuple[float, float]
Frame = tuple[int, int, int, int]  # the image's height and width, the box's first pixel
_MASK = (1 << 64) - 1
_PROTOCOLS: tuple[ProtocolName, ...] = ("corrected", "published")
Weights = npt.NDArray[np.float64]
Voxel = tuple[int, ...]


def share_of_group(group: int, groups: int = GROUPS) -> tuple[float, float]:
    """The shares of the mass between which a group lies; group 0 is the whole map.

    >>> share_of_group(10)
    (0.9, 1.0)
    """
    if not 0 <= group <= groups:
        raise BadInput(f"there is no clicking group {group}; groups are 1 to {groups}, 0 for all")
    return (0.0, 1.0) if group == 0 else ((group - 1) / groups, group / groups)


def draw_corrected(map: ClickabilityMap, share: Share, uniform: float, seed: int) -> Point | None:
    """The pixel at a uniform place within a share of the mass; None if there is no mass.

    Pixels stand in order of value, equal ones in the order of a hash of `seed` and place, so
    this is a draw from the group's pixels by weight, in one pass and without sorting the map.
    """
    low, high = share
    at = low + uniform * (high - low)
    search = compiled.at_share if compiled is not None else _plain_at_share
    return _point(map, int(search(map.weights, at, seed & _MASK)))


def draw_published(map: ClickabilityMap, share: Share, uniform: float) -> Point | None:
    """A pixel between the group's limits, by weight, counted in raster order; None if no mass."""
    bounds = limits(map, share)
    frame = (*map.shape, *map.low)
    draw = compiled.draw_between if compiled is not None else _plain_draw_between
    return _point(map, int(draw(map.weights, frame, bounds, uniform)))


def limits(map: ClickabilityMap, share: Share) -> tuple[float, float]:
    """The published limits of a group: the first value at which the running sum of sorted
    weights reaches the lower share, and the first at which it exceeds the upper one."""
    pixels = map.shape[0] * map.shape[1]
    find = compiled.group_limits if compiled is not None else _plain_limits
    low, high = find(map.weights, pixels, *share)
    return float(low), float(high)


def group_of_pixels(map: ClickabilityMap, seed: int) -> npt.NDArray[np.uint8]:
    """Each pixel's corrected group by the middle of its mass, 0 where there is none; for images."""
    order = _order(map.weights, seed & _MASK)
    values = map.weights.ravel()[order].astype(np.float64)
    labels = np.zeros(map.weights.size, dtype=np.uint8)
    if order.size:
        middle = (np.cumsum(values) - values / 2) / values.sum()
        labels[order] = np.minimum(np.floor(middle * GROUPS) + 1, GROUPS)
    return labels.reshape(map.weights.shape)


def _point(map: ClickabilityMap, place: int) -> Point | None:
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
    positive = np.sort(weights[weights > 0])
    ordered = np.zeros(pixels, dtype=np.float32)  # of the whole image, its zeros first
    ordered[pixels - positive.size :] = positive
    total, sums = ordered.sum(), np.cumsum(ordered)
    first = int(np.searchsorted(sums, np.float32(low) * total))
    last = int(np.searchsorted(sums, np.float32(high) * total, side="right"))
    bottom = float(ordered[first]) if first < pixels else float("inf")
    return bottom, float(ordered[min(last, pixels - 1)])


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


@dataclass(frozen=True, slots=True)
class Draw:
    scene: Scene
    target: Target
    prediction: Mask
    positive: bool  # on false negatives of the prediction, else on false positives
    first: bool  # nothing was segmented yet
    clicked: tuple[tuple[int, ...], ...]  # before; no pixel is clicked twice
    share: Share  # the range of the mass that the click is drawn from
    uniform: float  # the position within it
    seed: int | None  # 64 bits for the order of equally likely pixels; None for a published draw

    @property
    def region(self) -> ClickRegion:
        wrong = error_regions(self.target, self.prediction)[not self.positive]
        protocol = _PROTOCOLS[self.seed is None]
        return ClickRegion(self.scene, self.target, wrong, self.first, protocol)

    def on(self, map: ClickabilityMap) -> Point | None:
        """The click on a map of the error region; None if there is no mass."""
        left = map.without(self.clicked)
        if self.seed is None:
            return draw_published(left, self.share, self.uniform)
        return draw_corrected(left, self.share, self.uniform, self.seed)


def drawn_on_prior(draws: Sequence[Draw]) -> list[Point | None]:
    """Clicks of later rounds on one image, in one call; None if there is no mass."""
    if compiled is None or not draws:
        return [draw.on(maps.prior_on(draw.region.mask, round="later")) for draw in draws]
    masks = Numbered()
    tasks = []
    for draw in draws:
        side = masks.sides(draw.target, draw.prediction)[not draw.positive]
        tasks.append((*side, draw.clicked, draw.share, draw.uniform, draw.seed))
    height, width = draws[0].prediction.shape
    numbers = maps.kernel_numbers(maps.shipped("later"), (height, width))
    found = compiled.prior_clicks(masks.boxes, tasks, (height, width), numbers, threads())
    return [None if y < 0 else (y, x) for y, x in found]


def volume_prior(
    error_region: Mask,
    spacing_mm: Sequence[float],
    numbers: Numbers | None = None,
    round: Round = "first",
) -> Weights:
    """The weight of every voxel of the error region's box, summing to one.

    >>> weights = volume_prior(Mask.box((9, 9, 9), (2, 2, 2), (7, 7, 7)), (1, 1, 1))
    >>> [int(i) for i in np.unravel_index(weights.argmax(), weights.shape)]
    [2, 2, 2]
    """
    found, bits = numbers or maps.shipped(round), error_region.bits
    depth = np.sqrt(squared_depths(bits, spacing_mm))
    weights = np.where(bits, (depth / max(depth.max(), 1e-12)) ** found.depth, 0.0)
    for axis, side in enumerate(bits.shape):
        away = (np.arange(side) - (side - 1) / 2) / side
        pull = np.exp(-0.5 * (away / found.spread) ** 2)
        weights *= pull.reshape([-1 if a == axis else 1 for a in range(bits.ndim)])
    return np.asarray(weights / weights.sum())


def draw_voxel(
    error_region: Mask,
    weights: Weights,
    share: Share,
    uniform: float,
    clicked: Iterable[Voxel] = (),
) -> Voxel | None:
    """The voxel at a uniform place within a share of the mass; None if nothing is left.

    Voxels stand in order of weight, equal ones in raster order, so that a share from 0.9 to 1
    holds the likeliest tenth of clicks. No voxel is clicked twice.
    """
    left = weights.copy()
    for voxel in clicked:
        place = tuple(v - a for v, a in zip(voxel, error_region.low, strict=True))
        if all(0 <= p < n for p, n in zip(place, left.shape, strict=True)):
            left[place] = 0.0
    order = np.argsort(left, axis=None, kind="stable")
    mass = np.cumsum(left.ravel()[order])
    if mass.size == 0 or mass[-1] <= 0:
        return None
    at = (share[0] + uniform * (share[1] - share[0])) * mass[-1]
    last = min(int(np.searchsorted(mass, at, side="right")), mass.size - 1)
    found = np.unravel_index(int(order[last]), left.shape)
    return tuple(int(p) + a for p, a in zip(found, error_region.low, strict=True))

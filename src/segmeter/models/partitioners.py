"""Classical segmenters: partitions and hierarchies without a network or a user.

Each is a method: `segment(scene)` gives one result at its settings. Those whose result is
one flat partition also have `sweep(scene)`, the same method from fine to coarse settings,
so that a curve can be drawn; a hierarchy is its own sweep.

Quadtree: the baseline that ignores the image.

The frame is halved again and again into 1024 equal boxes, and the lines are numbered by
the level at which they are drawn, so that joining weaker lines first climbs the tree. A
useful measure ranks any segmenter that uses the image above it.

Hierarchies by merging start from a fine partition: a criterion gives the cost of joining two
neighbours, the cheapest pair is joined until one region is left, and the heights at which regions
are joined become an ultrametric contour map.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import Sweeps, SweptByRegions, capable
from segmeter.core.models import ModelCard, Segmentation
from segmeter.core.morphology import joined_pixels
from segmeter.core.scenes import Scene
from segmeter.core.seeds import generator

Labels = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]
Levels = npt.NDArray[np.float32]
Join = tuple[int, int, float]


class _Method:
    card: ModelCard


Method = TypeVar("Method", bound=type[_Method])


def _method(name: str, summary: str, citation: str = "") -> Callable[[Method], Method]:
    card = ModelCard(name, summary, frozenset({"automatic"}), citation=citation, family="classical")

    def register(method: Method) -> Method:
        method.card = card
        catalogue.methods.add(name, summary)(method)
        return method

    return register


@_method("felzenszwalb", "graph-based segmentation, coarser with scale", "felzenszwalb2004")
@capable(Sweeps)
class Felzenszwalb(_Method):
    """Efficient graph-based segmentation; `scale` is its k, `smallest` in pixels."""

    scales = (50, 100, 200, 300, 400, 500, 600, 800, 1000, 1500, 2000, 4000, 8000)

    def __init__(self, scale: float = 500, sigma: float = 0.8, smallest: int = 50) -> None:
        self.scale, self.sigma, self.smallest = scale, sigma, smallest

    def segment(self, scene: Scene) -> Segmentation:
        return Segmentation(labels=self._cut(scene, self.scale))

    def sweep(self, scene: Scene) -> Mapping[str, Segmentation]:
        return {f"scale={k}": Segmentation(labels=self._cut(scene, k)) for k in self.scales}

    def _cut(self, scene: Scene, scale: float) -> Labels:
        from skimage.segmentation import felzenszwalb

        # The library scales k down by 255 to match images in 0..1.
        found = felzenszwalb(scene.pixels, scale=scale, sigma=self.sigma, min_size=self.smallest)
        return np.asarray(found, dtype=np.int32)


@_method("mean-shift", "mean shift in position and colour, small regions merged", "comaniciu2002")
@capable(Sweeps)
class MeanShift(_Method):
    """Mean shift filtering, then neighbours of like colour joined.

    `reach` in pixels, `colour` in 8-bit Lab units, `smallest` in pixels.
    """

    # The time grows with the square of the reach; beyond twelve pixels only colour matters.
    settings = ((4, 6), (5, 8), (6, 10), (7, 12), (8, 16), (8, 20), (10, 25), (10, 32), (12, 40))

    def __init__(self, reach: int = 10, colour: int = 12, smallest: int = 200) -> None:
        self.reach, self.colour, self.smallest = reach, colour, smallest

    def segment(self, scene: Scene) -> Segmentation:
        return Segmentation(labels=self._cut(scene, self.reach, self.colour))

    def sweep(self, scene: Scene) -> Mapping[str, Segmentation]:
        return {
            f"reach={reach} colour={colour}": Segmentation(labels=self._cut(scene, reach, colour))
            for reach, colour in self.settings
        }

    def _cut(self, scene: Scene, reach: int, colour: int) -> Labels:
        import cv2

        lab = cv2.cvtColor(scene.pixels, cv2.COLOR_RGB2LAB)
        smooth = cv2.pyrMeanShiftFiltering(lab, reach, colour, maxLevel=1).astype(np.int16)
        down = np.abs(np.diff(smooth, axis=0)).max(axis=2)
        right = np.abs(np.diff(smooth, axis=1)).max(axis=2)
        found = joined_pixels(down <= colour // 2, right <= colour // 2)
        return _without_small(found, smooth.astype(np.float64), self.smallest)


@_method("slic-hierarchy", "SLIC superpixels merged by colour, a hierarchy", "achanta2012")
class SlicHierarchy(_Method):
    """SLIC superpixels, joined where the spread of colours grows least."""

    def __init__(self, superpixels: int = 400, compactness: float = 10) -> None:
        self.superpixels, self.compactness = superpixels, compactness

    def segment(self, scene: Scene) -> Segmentation:
        labels = _superpixels(scene, self.superpixels, self.compactness)
        criterion = ColourSpread(labels, _lab(scene))
        apart = joined_at(labels, criterion)
        return Segmentation(levels=contour_map(labels, apart))


@_method("watershed", "watershed of the colour gradient, a hierarchy", "vincent1991")
class Watershed(_Method):
    """Catchment basins of the colour gradient, joined over their weakest shared ridge."""

    def __init__(self, sigma: float = 2.0, apart: int = 7) -> None:
        self.sigma, self.apart = sigma, apart

    def segment(self, scene: Scene) -> Segmentation:
        from scipy.ndimage import gaussian_gradient_magnitude, label, minimum_filter
        from skimage.segmentation import watershed

        colours = _lab(scene)
        channels = [gaussian_gradient_magnitude(colours[..., c], self.sigma) for c in range(3)]
        strength = np.sqrt(np.sum(np.square(channels), axis=0))  # in Lab units a pixel
        ridge = np.asarray(strength / (1 + strength))
        basins, _ = label(ridge == minimum_filter(ridge, size=self.apart))  # lowest within a window
        labels = consecutive(watershed(ridge, markers=basins))
        apart = joined_at(labels, BoundaryStrength(labels, ridge))
        return Segmentation(levels=contour_map(labels, apart))


@_method("random-hierarchy", "superpixels merged at random, a baseline")
class RandomHierarchy(_Method):
    """200 SLIC superpixels of compactness 10, random neighbours joined until one is left.

    The original baseline's settings are not public; these are ours.
    """

    def __init__(self, superpixels: int = 200, seed: int = 0) -> None:
        self.superpixels, self.seed = superpixels, seed

    def segment(self, scene: Scene) -> Segmentation:
        labels = _superpixels(scene, self.superpixels, 10)
        rng = generator("random-hierarchy", self.seed, scene.name)
        return Segmentation(levels=contour_map(labels, random_joins(labels, rng)))


def _superpixels(scene: Scene, count: int, compactness: float) -> Numbers:
    from skimage.segmentation import slic

    return consecutive(slic(scene.pixels, n_segments=count, compactness=compactness))


def _lab(scene: Scene) -> npt.NDArray[np.float64]:
    from skimage.color import rgb2lab

    return np.asarray(rgb2lab(scene.pixels), dtype=np.float64)


def _without_small(labels: Labels, colours: npt.NDArray[np.float64], smallest: int) -> Labels:
    """Join each region below `smallest` pixels to the neighbour of the nearest colour.

    Smallest first, in rounds, until none is left or one region is.
    """
    found = consecutive(labels)
    while True:
        areas = np.bincount(found.ravel())
        if areas.min() >= smallest or areas.size == 1:
            return found.astype(np.int32)
        colour = means(found, colours)
        pairs = adjacent(found)
        both = np.concatenate([pairs, pairs[:, ::-1]])
        both = both[areas[both[:, 0]] < smallest]
        gaps = np.abs(colour[both[:, 0]] - colour[both[:, 1]]).sum(axis=1)
        order = np.lexsort((both[:, 1], gaps, both[:, 0]))
        small, first = np.unique(both[order, 0], return_index=True)
        found = consecutive(_joined_once(areas, small, both[order][first, 1])[found])


def _joined_once(areas: Any, small: Any, nearest: Any) -> Numbers:
    """New number of every region after each small one, smallest first, joined its nearest."""
    parent = np.arange(areas.size)

    def root(region: int) -> int:
        while parent[region] != region:
            region = int(parent[region])
        return region

    for place in np.lexsort((small, areas[small])):
        a, b = root(int(small[place])), root(int(nearest[place]))
        parent[a] = b
    return np.array([root(region) for region in range(areas.size)])


_CUTS = 32


@_method("quadtree", "a regular grid of boxes, a baseline", "ponttuset2013")
@capable(SweptByRegions)
class Quadtree(_Method):
    """A hierarchy of boxes.

    Parameters
    ----------
    turned
        Build landscape images as portrait ones and turn them, as the published scores
        did; otherwise the tree is built for the image's own size.
    """

    region_counts = (2, 3, 4, 8, 16, 20, 32, 40, 50, 64, 80, 128, 160, 256, 320, 400, 800)

    def __init__(self, turned: bool = False) -> None:
        self.turned = turned

    def segment(self, scene: Scene) -> Segmentation:
        height, width = scene.shape
        if self.turned and width > height:
            return Segmentation(levels=np.rot90(quadtree_levels(width, height)).copy())
        return Segmentation(levels=quadtree_levels(height, width))


def quadtree_levels(height: int, width: int) -> Levels:
    """The quadtree's contour map: each line's number is its strength.

    >>> int(quadtree_levels(64, 48).max())
    1954
    """
    levels = np.zeros((2 * height + 1, 2 * width + 1), dtype=np.float32)
    number = 1
    for level in range(1, 5):
        rows, columns = _cuts(height, level), _cuts(width, level)
        number = _draw_lines(levels, rows, columns, number)
        number = _draw_lines(levels.T, columns, _cuts(height, level + 1), number)
    # The last two cuts: the middle row in two pieces, then the middle column whole.
    row, column = _cuts(height, 5)[0], _cuts(width, 5)[0]
    levels[row, 1 : column + 1] = number + 1
    levels[row, column + 1 : -1] = number + 2
    levels[1:-1, column] = number + 3
    levels[0], levels[-1] = levels[1], levels[-2]
    levels[:, 0], levels[:, -1] = levels[:, 1], levels[:, -2]
    return levels


def _cuts(length: int, level: int) -> Numbers:
    """Contour-map rows (or columns) of a level's cuts: every one, every second, fourth..."""
    every = 2 ** (level - 1)
    first_after = 1 + np.arange(every, _CUTS, every) * length // _CUTS
    return 2 * (first_after - 1)


def _draw_lines(levels: Levels, lines: Numbers, across: Numbers, number: int) -> int:
    """Draw each line in pieces between the lines across, a new number a piece."""
    ends = [1, *(across + 1).tolist(), levels.shape[1] - 1]
    for line in lines.tolist():
        for begin, end in pairwise(ends):
            levels[line, begin:end] = number
            number += 1
    return number


class ColourSpread:
    """Ward's criterion: how much the spread of colours inside regions grows.

    The root of the growth, as a share of the image, is squeezed into 0..1 so that
    evenly spaced thresholds cover fine and coarse levels.
    """

    def __init__(self, labels: Numbers, colours: npt.NDArray[np.float64]) -> None:
        self._areas = np.bincount(labels.ravel()) / labels.size
        self._means = means(labels, colours)

    def cost(self, first: int, second: int) -> float:
        a, b = self._areas[first], self._areas[second]
        gap = self._means[first] - self._means[second]
        growth = float(np.sqrt(a * b / (a + b) * (gap @ gap)))
        return growth / (1 + growth)

    def joined(self, first: int, second: int, neighbours: set[int]) -> None:
        a, b = self._areas[first], self._areas[second]
        self._means[first] = (a * self._means[first] + b * self._means[second]) / (a + b)
        self._areas[first] = a + b


class BoundaryStrength:
    """Mean strength along the boundary that two regions share."""

    def __init__(self, labels: Numbers, strength: npt.NDArray[np.float64]) -> None:
        self._shared: dict[tuple[int, int], tuple[float, int]] = {}
        across = (labels[:-1], labels[1:], np.maximum(strength[:-1], strength[1:]))
        along = (labels[:, :-1], labels[:, 1:], np.maximum(strength[:, :-1], strength[:, 1:]))
        for first, second, values in (across, along):
            apart = first != second
            for a, b, value in zip(first[apart], second[apart], values[apart], strict=True):
                self._add(_pair(int(a), int(b)), float(value), 1)

    def cost(self, first: int, second: int) -> float:
        total, length = self._shared[_pair(first, second)]
        return total / length

    def joined(self, first: int, second: int, neighbours: set[int]) -> None:
        for other in neighbours:
            if (found := self._shared.pop(_pair(second, other), None)) is not None:
                self._add(_pair(first, other), *found)

    def _add(self, pair: tuple[int, int], total: float, length: int) -> None:
        before = self._shared.get(pair, (0.0, 0))
        self._shared[pair] = (before[0] + total, before[1] + length)


def _neighbours(labels: Numbers) -> dict[int, set[int]]:
    """The regions that each region touches."""
    touching: dict[int, set[int]] = {region: set() for region in range(int(labels.max()) + 1)}
    for a, b in adjacent(labels).tolist():
        touching[a].add(b)
        touching[b].add(a)
    return touching


def _join(touching: dict[int, set[int]], first: int, second: int) -> set[int]:
    """Merge `second` into `first`; the neighbours of both."""
    for other in touching.pop(second):
        touching[other].discard(second)
        if other != first:
            touching[other].add(first)
            touching[first].add(other)
    return touching[first]


def joined_at(labels: Numbers, criterion: ColourSpread | BoundaryStrength) -> Levels:
    """For every pair of regions the height at which they are joined, cheapest joins first.

    A join is never lower than those before it. Ties go to the pair with smaller numbers.
    """
    touching = _neighbours(labels)
    queue = [(criterion.cost(a, b), a, b, 0, 0) for a, b in adjacent(labels).tolist()]
    heapq.heapify(queue)
    changes = [0] * len(touching)
    joins: list[Join] = []
    height = 0.0
    while queue:
        cost, a, b, seen_a, seen_b = heapq.heappop(queue)
        if not {a, b} <= touching.keys() or (seen_a, seen_b) != (changes[a], changes[b]):
            continue
        height = max(height, cost)
        joins.append((a, b, height))
        near = _join(touching, a, b)
        criterion.joined(a, b, near)
        changes[a] += 1
        for other in near:
            low, high = _pair(a, other)
            entry = (criterion.cost(low, high), low, high, changes[low], changes[high])
            heapq.heappush(queue, entry)
    return _heights(len(changes), joins)


def random_joins(labels: Numbers, rng: np.random.Generator) -> Levels:
    """Joins a random one of the pairs that touch, again and again; heights are even steps."""
    touching = _neighbours(labels)
    count = len(touching)
    joins: list[Join] = []
    for step in range(1, count):
        pairs = [(a, b) for a, others in touching.items() for b in sorted(others) if a < b]
        a, b = pairs[int(rng.integers(len(pairs)))]
        joins.append((a, b, step / count))
        _join(touching, a, b)
    return _heights(count, joins)


def adjacent(labels: Numbers) -> Numbers:
    """Pairs of regions that touch along an edge, the smaller number first, ascending."""
    down = np.stack([labels[:-1].ravel(), labels[1:].ravel()], axis=1)
    right = np.stack([labels[:, :-1].ravel(), labels[:, 1:].ravel()], axis=1)
    pairs = np.sort(np.concatenate([down, right]), axis=1)
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0).astype(np.int64)


def consecutive(labels: npt.NDArray[Any]) -> Numbers:
    """The same regions numbered from 0 without gaps."""
    return np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int64)


def means(labels: Numbers, colours: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    flat = labels.ravel()
    sums = [np.bincount(flat, weights=colours[..., c].ravel()) for c in range(colours.shape[2])]
    return np.asarray(np.stack(sums, axis=1) / np.bincount(flat)[:, None])


def contour_map(labels: Numbers, apart: Levels) -> Levels:
    """The ultrametric contour map of regions i and j that are joined at `apart[i, j]`.

    `(2H + 1, 2W + 1)`; crossings have the strongest of their lines, the frame is 0.
    """
    height, width = labels.shape
    levels = np.zeros((2 * height + 1, 2 * width + 1), dtype=np.float32)
    levels[2:-1:2, 1::2] = apart[labels[:-1], labels[1:]]
    levels[1::2, 2:-1:2] = apart[labels[:, :-1], labels[:, 1:]]
    rows, columns = levels[2:-1:2], levels[:, 2:-1:2]
    sides = (rows[:, 1:-2:2], rows[:, 3::2], columns[1:-2:2], columns[3::2])
    levels[2:-1:2, 2:-1:2] = np.maximum.reduce(sides)
    return levels


def _heights(count: int, joins: list[Join]) -> Levels:
    """Assign each join's height to all pairs that it connects."""
    apart = np.zeros((count, count), dtype=np.float32)
    members: list[list[int]] = [[region] for region in range(count)]
    for first, second, height in joins:
        apart[np.ix_(members[first], members[second])] = height
        apart[np.ix_(members[second], members[first])] = height
        members[first] += members[second]
    return apart


def _pair(first: int, second: int) -> tuple[int, int]:
    return (first, second) if first < second else (second, first)

"""Region merging: from a fine partition up to one region, pair by pair.

A criterion says what joining two neighbours costs; the cheapest pair is joined until one
region is left. The heights at which regions meet become an ultrametric contour map.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Join = tuple[int, int, float]


class ColourSpread:
    """Ward's criterion: how much the spread of colours inside regions grows.

    The root of the growth, as a share of the image, is squeezed into 0..1 so that
    evenly spaced thresholds are spread over fine and coarse levels alike.
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


@dataclass(slots=True)
class _Forest:
    """Regions that are still apart, and who touches whom."""

    touching: list[set[int]]
    alive: list[bool]

    @classmethod
    def of(cls, labels: Numbers) -> _Forest:
        count = int(labels.max()) + 1
        touching: list[set[int]] = [set() for _ in range(count)]
        for a, b in adjacent(labels).tolist():
            touching[a].add(b)
            touching[b].add(a)
        return cls(touching, [True] * count)

    def join(self, first: int, second: int) -> set[int]:
        """Let `first` take over `second`; what they touch together."""
        self.alive[second] = False
        for other in self.touching[second]:
            self.touching[other].discard(second)
            if other != first:
                self.touching[other].add(first)
        self.touching[first] |= self.touching[second]
        self.touching[first] -= {first, second}
        return self.touching[first]


def joined_at(
    labels: Numbers, criterion: ColourSpread | BoundaryStrength
) -> npt.NDArray[np.float32]:
    """For every pair of regions the height at which they meet, cheapest joins first.

    A join is never lower than those before it. Ties go to the pair with smaller numbers.
    """
    forest = _Forest.of(labels)
    queue = [(criterion.cost(a, b), a, b, 0, 0) for a, b in adjacent(labels).tolist()]
    heapq.heapify(queue)
    changes = [0] * len(forest.alive)
    joins: list[Join] = []
    height = 0.0
    while queue:
        cost, a, b, seen_a, seen_b = heapq.heappop(queue)
        fresh = (seen_a, seen_b) == (changes[a], changes[b])
        if not (forest.alive[a] and forest.alive[b] and fresh):
            continue
        height = max(height, cost)
        joins.append((a, b, height))
        touching = forest.join(a, b)
        criterion.joined(a, b, touching)
        changes[a] += 1
        for other in touching:
            low, high = _pair(a, other)
            entry = (criterion.cost(low, high), low, high, changes[low], changes[high])
            heapq.heappush(queue, entry)
    return _heights(len(forest.alive), joins)


def random_joins(labels: Numbers, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Joins a random one of the pairs that touch, again and again; heights are even steps."""
    forest = _Forest.of(labels)
    count = len(forest.alive)
    joins: list[Join] = []
    for step in range(1, count):
        alive = (a for a in range(count) if forest.alive[a])
        pairs = [(a, b) for a in alive for b in sorted(forest.touching[a]) if a < b]
        a, b = pairs[int(rng.integers(len(pairs)))]
        joins.append((a, b, step / count))
        forest.join(a, b)
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
    """The mean colour of each region."""
    flat = labels.ravel()
    sums = [np.bincount(flat, weights=colours[..., c].ravel()) for c in range(colours.shape[2])]
    return np.asarray(np.stack(sums, axis=1) / np.bincount(flat)[:, None])


def contour_map(labels: Numbers, apart: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The ultrametric contour map of regions i and j that meet at `apart[i, j]`.

    `(2H + 1, 2W + 1)`; points where lines meet take the strongest, the frame stays 0.
    """
    height, width = labels.shape
    levels = np.zeros((2 * height + 1, 2 * width + 1), dtype=np.float32)
    levels[2:-1:2, 1::2] = apart[labels[:-1], labels[1:]]
    levels[1::2, 2:-1:2] = apart[labels[:, :-1], labels[:, 1:]]
    sides = (
        levels[2:-1:2, 1:-2:2],
        levels[2:-1:2, 3::2],
        levels[1:-2:2, 2:-1:2],
        levels[3::2, 2:-1:2],
    )
    levels[2:-1:2, 2:-1:2] = np.maximum.reduce(sides)
    return levels


def _heights(count: int, joins: list[Join]) -> npt.NDArray[np.float32]:
    """Spread each join's height over all pairs that it brings together."""
    apart = np.zeros((count, count), dtype=np.float32)
    members: list[list[int]] = [[region] for region in range(count)]
    for first, second, height in joins:
        apart[np.ix_(members[first], members[second])] = height
        apart[np.ix_(members[second], members[first])] = height
        members[first] += members[second]
    return apart


def _pair(first: int, second: int) -> tuple[int, int]:
    return (first, second) if first < second else (second, first)

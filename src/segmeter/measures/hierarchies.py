"""Hierarchies of partitions, given as ultrametric contour maps.

A contour map has `2H + 1` rows and `2W + 1` columns: pixel (y, x) sits at (2y + 1, 2x + 1),
and the element between two neighbouring pixels holds the strength of the boundary that
separates them. At threshold t, neighbours are joined unless their boundary is stronger than t
(strengths of single precision are compared as the numbers they are: 0.2f is above 0.2).
Raising t only joins regions, so the finest level is found once and coarser ones are
gathered from it, both labels and shared-pixel tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.morphology import joined_pixels
from segmeter.measures.tables import Real, Regions, Whole, number_regions, regions

Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Hierarchy:
    """The finest partition and the joins that lead up to one region.

    `pairs` are joined at `heights`, which ascend; there is one join less than finest
    regions where the map holds together.
    """

    finest: Regions
    pairs: npt.NDArray[np.int64]
    heights: Real
    values: Real

    @classmethod
    def of(cls, levels: npt.NDArray[Any]) -> Hierarchy:
        """Read a contour map."""
        _check(levels)
        down, right = _between(levels.astype(np.float64))
        finest = regions(joined_pixels(down <= 0, right <= 0))
        pairs, heights = _joins(finest, down, right)
        values = np.unique(levels[levels > 0].astype(np.float64))
        return cls(finest, pairs, heights, values)

    @cached_property
    def shape(self) -> tuple[int, int]:
        return self.finest.shape

    def groups(self, threshold: float) -> Whole:
        """The region of each finest region at a threshold, numbered by first appearance."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        chosen = self.pairs[self.heights <= threshold]
        count = self.finest.count
        graph = coo_array((np.ones(len(chosen)), (chosen[:, 0], chosen[:, 1])), (count, count))
        _, labels = connected_components(graph, directed=False)
        return number_regions(labels)[0].astype(np.int64)

    def labels(self, threshold: float) -> Numbers:
        """The partition at a threshold, `(H, W)`, numbered from 0 by first appearance."""
        return self.groups(threshold).astype(np.int32)[self.finest.numbers].reshape(self.shape)

    def threshold_for(self, count: int) -> float:
        """The threshold that leaves `count` regions: the count-th largest strength, or 0."""
        if count < 1:
            raise BadInput(f"a partition has at least one region, not {count}")
        return float(self.values[-count]) if count <= self.values.size else 0.0


def partition_at(levels: npt.NDArray[Any], threshold: float) -> Numbers:
    """The partition of a contour map at one threshold.

    >>> levels = np.array([[0] * 7, [0, 0, 1, 0, 3, 0, 0], [0] * 7])
    >>> partition_at(levels, 1)
    array([[0, 0, 1]], dtype=int32)
    """
    _check(levels)
    down, right = _between(levels.astype(np.float64))
    found = regions(joined_pixels(down <= threshold, right <= threshold))
    return found.numbers.reshape(found.shape)


def check_contour_size(levels: npt.NDArray[Any]) -> None:
    """Refuse what has not the size of a contour map.

    >>> check_contour_size(np.zeros((5, 9)))
    """
    if levels.ndim != 2 or min(levels.shape) < 3 or any(side % 2 == 0 for side in levels.shape):
        size = " x ".join(map(str, levels.shape))
        raise BadInput(f"a contour map has 2H + 1 rows and 2W + 1 columns, but this is {size}")


def _check(levels: npt.NDArray[Any]) -> None:
    check_contour_size(levels)
    if levels.dtype.kind not in "fiu" or not np.isfinite(levels).all() or levels.min() < 0:
        raise BadInput("a contour map holds finite strengths from 0 up")


def _between(levels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Strengths between each pixel and the one below, and the one to the right."""
    return levels[2:-1:2, 1::2], levels[1::2, 2:-1:2]


def _joins(
    finest: Regions, down: npt.NDArray[Any], right: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], Real]:
    """The joins of neighbouring regions that matter, weakest boundary first."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    numbers = finest.numbers.reshape(finest.shape).astype(np.int64)
    first = np.concatenate([numbers[:-1].ravel(), numbers[:, :-1].ravel()])
    second = np.concatenate([numbers[1:].ravel(), numbers[:, 1:].ravel()])
    strength = np.concatenate([down.ravel(), right.ravel()])
    apart = first != second
    keys = np.minimum(first, second)[apart] * finest.count + np.maximum(first, second)[apart]
    order = np.argsort(strength[apart], kind="stable")
    pairs, weakest = np.unique(keys[order], return_index=True)
    heights = strength[apart][order][weakest]
    low, high = np.divmod(pairs, finest.count)
    graph = coo_array((heights, (low, high)), shape=(finest.count, finest.count))
    csr = graph.tocsr()
    # SciPy before 1.17.1 takes 32-bit indices only.
    csr.indices, csr.indptr = csr.indices.astype(np.int32), csr.indptr.astype(np.int32)
    tree = minimum_spanning_tree(csr).tocoo()
    order = np.argsort(tree.data, kind="stable")
    return np.stack([tree.row, tree.col], axis=1).astype(np.int64)[order], tree.data[order]

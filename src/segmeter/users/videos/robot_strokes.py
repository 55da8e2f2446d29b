"""Strokes of the DAVIS interactive robot: curves along the middle of what a mask misses.

Rules of the package davisinteractive 1.0.4 (its code is not used): open the error region with a
disc, take the medial axis, and draw a Bezier curve along the longest path of each piece. The
package breaks ties of the medial axis at random; here the seed is fixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Bits

KERNEL = 0.2
_LARGEST_RADIUS = 16.0
_FEWEST_NODES = 4
_SAMPLES = 1000
_SEED = 1
_MARGIN = 40  # more than a disc: what is beyond the frame erodes nothing
Points = npt.NDArray[np.float64]


def robot_strokes(error: Bits, kernel: float = KERNEL) -> list[Points]:
    """Strokes through an error region, each 1000 points `(y, x)` in pixels.

    >>> strokes = robot_strokes(np.ones((9, 60), bool))
    >>> len(strokes), strokes[0].shape
    (1, (1000, 2))
    """
    if not error.any():
        return []
    rows, columns = np.flatnonzero(error.any(1)), np.flatnonzero(error.any(0))
    low = np.maximum([rows[0] - _MARGIN, columns[0] - _MARGIN], 0)
    box = error[low[0] : rows[-1] + 1 + _MARGIN, low[1] : columns[-1] + 1 + _MARGIN]
    pixels = np.argwhere(_skeleton(box, kernel))
    return [_bezier(pixels[path][::-1] + low) for path in _paths(pixels)]


def _skeleton(error: Bits, kernel: float) -> Bits:
    """The medial axis of the region, opened by the largest disc that leaves something."""
    import cv2
    from skimage.morphology import disk, medial_axis

    whole: Any = error.astype(np.uint8)
    opened, radius = whole, min(0.5 * kernel * float(np.sqrt(error.sum())), _LARGEST_RADIUS)
    while radius > 1:
        disc = disk(radius).astype(np.uint8)  # type: ignore[no-untyped-call]  # skimage's
        opened = cv2.dilate(cv2.erode(whole, disc), disc)
        if opened.any():
            break
        radius *= 0.9
    padded = np.pad(opened, 1).astype(bool)
    found: Bits = medial_axis(padded, rng=_SEED)[1:-1, 1:-1]  # type: ignore[no-untyped-call]  # skimage's
    return found


def _paths(pixels: npt.NDArray[np.int64]) -> Iterator[list[int]]:
    """The longest path, in edges, of each piece of a skeleton.

    Removing the longest edge of a cycle until there is none leaves a minimum spanning tree.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

    number = {(int(y), int(x)): k for k, (y, x) in enumerate(pixels)}
    edges = [
        (k, m, np.hypot(dy, dx))
        for steps in (((0, 1), (1, 0)), ((1, -1), (1, 1)))  # those that share a side first
        for (y, x), k in number.items()
        for dy, dx in steps
        if (m := number.get((y + dy, x + dx))) is not None
    ]
    if not edges:
        return
    a, b, lengths = np.array(edges).T
    ranked = lengths + 1e-9 * np.arange(len(edges))  # of equal edges the first ones stay
    graph = csr_array((ranked, (a.astype(int), b.astype(int))), shape=(len(pixels),) * 2)
    tree = minimum_spanning_tree(graph)
    tree = csr_array(tree + tree.T)
    tree.sort_indices()
    _, pieces = connected_components(tree, directed=False)
    for piece in range(pieces.max() + 1):
        nodes = np.flatnonzero(pieces == piece)
        if len(nodes) >= _FEWEST_NODES:
            yield _farthest(tree, _farthest(tree, int(nodes[0]))[0])[::-1]


def _farthest(tree: Any, start: int) -> list[int]:
    """The path to a node from the first that is farthest from it, which comes first."""
    from scipy.sparse.csgraph import breadth_first_order

    order, before = breadth_first_order(tree, start)
    depth = np.zeros(len(before), int)
    for k in order[1:]:
        depth[k] = depth[before[k]] + 1
    path = [int(order[depth[order].argmax()])]
    while path[-1] != start:
        path.append(int(before[path[-1]]))
    return path


def _bezier(control: npt.NDArray[Any]) -> Points:
    """A Bezier curve with every point of a path as control point."""
    from scipy.stats import binom

    share, degree = np.linspace(0.0, 1.0, _SAMPLES), len(control) - 1
    weights = binom.pmf(np.arange(degree + 1)[None], degree, share[:, None])
    return np.asarray(weights @ control, dtype=np.float64)

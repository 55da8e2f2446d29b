"""Strokes of the DAVIS interactive robot: curves along the middle of what a mask misses.

Rules of the package davisinteractive 1.0.4 (its code is not used): open the error region with a
disc, take the medial axis, and draw a Bezier curve along the longest path of each piece. The
package breaks ties of the medial axis at random; here the seed is fixed.
"""

from __future__ import annotations

from collections import deque
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
    edges = _edges(pixels)
    return [
        _bezier(pixels[path][::-1] + low)
        for tree in _trees(len(pixels), edges)
        if len(path := _longest_path(tree)) and len(tree) >= _FEWEST_NODES
    ]


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


def _edges(pixels: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Pairs of 8-neighbours, those that share a side first."""
    number = {(int(y), int(x)): k for k, (y, x) in enumerate(pixels)}
    pairs = []
    for steps in (((0, 1), (1, 0)), ((1, -1), (1, 1))):
        for (y, x), k in number.items():
            pairs += [(k, m) for dy, dx in steps if (m := number.get((y + dy, x + dx))) is not None]
    return pairs


def _trees(count: int, edges: list[tuple[int, int]]) -> list[dict[int, list[int]]]:
    """Spanning trees of the pieces, as neighbours by node.

    Removing the longest edge of a cycle until there is none leaves a minimum spanning tree.
    """
    root = list(range(count))

    def find(k: int) -> int:
        while root[k] != k:
            root[k] = root[root[k]]
            k = root[k]
        return k

    near: dict[int, list[int]] = {k: [] for k in range(count)}
    for a, b in edges:
        first, second = find(a), find(b)
        if first != second:
            root[max(first, second)] = min(first, second)
            near[a].append(b)
            near[b].append(a)
    pieces: dict[int, dict[int, list[int]]] = {}
    for k in range(count):
        pieces.setdefault(find(k), {})[k] = sorted(near[k])
    return list(pieces.values())


def _longest_path(tree: dict[int, list[int]]) -> list[int]:
    """The longest path of a tree, in edges, by two traversals."""
    end = _traversed(tree, next(iter(tree)))[-1]
    return _traversed(tree, end)


def _traversed(tree: dict[int, list[int]], start: int) -> list[int]:
    """The path from a node to the first that is farthest away."""
    before, depth, queue, farthest = {start: start}, {start: 0}, deque([start]), start
    while queue:
        here = queue.popleft()
        farthest = here if depth[here] > depth[farthest] else farthest
        for there in tree[here]:
            if there not in before:
                before[there], depth[there] = here, depth[here] + 1
                queue.append(there)
    path = [farthest]
    while path[-1] != start:
        path.append(before[path[-1]])
    return path[::-1]


def _bezier(control: npt.NDArray[Any]) -> Points:
    """A Bezier curve with every point of a path as control point."""
    from scipy.stats import binom

    share, degree = np.linspace(0.0, 1.0, _SAMPLES), len(control) - 1
    weights = binom.pmf(np.arange(degree + 1)[None], degree, share[:, None])
    return np.asarray(weights @ control, dtype=np.float64)

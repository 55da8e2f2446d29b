"""The 48 ways to store a volume."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np

from segmeter.datasets.volumes.stored import Grid

ORIENTATIONS = [
    (world, flips) for world in permutations(range(3)) for flips in product((False, True), repeat=3)
]


def turned(world, flips, size=(5, 7, 9), sides=(1.0, 2.0, 3.0)):
    """A grid whose file axes point to the given world axes; size and sides in world order."""
    affine = np.eye(4)
    affine[:3, :3] = 0
    for axis, (w, f) in enumerate(zip(world, flips, strict=True)):
        affine[w, axis] = -sides[w] if f else sides[w]
        affine[w, 3] = (size[w] - 1) * sides[w] if f else 0
    return Grid([size[w] for w in world], affine)

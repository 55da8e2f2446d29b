"""Depth is the same in every bit, whichever way the memory lies."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from segmeter.clickability.maps import depth_px, distance
from segmeter.core.masks import Mask


def test_every_bit_is_that_of_the_exact_root() -> None:
    draws = np.random.default_rng(3)
    for _ in range(40):
        rows, columns = draws.integers(8, 90, 2)
        bits = np.pad(ndimage.binary_closing(draws.random((rows, columns)) < 0.7), 1)
        exact = ndimage.distance_transform_edt(bits).astype(np.float32)
        assert depth_px(bits).tobytes() == exact.tobytes()


def test_a_distance_map_is_the_same_every_time() -> None:
    y, x = np.mgrid[:70, :90]
    mask = Mask.of((y - 33) ** 2 / 900 + (x - 47) ** 2 / 1500 < 1)
    held = []  # so that every call gets other memory
    for size in range(1, 40):
        held.append(np.empty(7 * size, np.uint8))
        held.append(distance(mask).weights)
    assert len({map.tobytes() for map in held[1::2]}) == 1

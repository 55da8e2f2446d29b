"""Grids of points and crops of an image, as Segment Anything lays them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput

__all__ = ["Crop", "checked_crops", "crops_of", "grid"]

EDGE_PX = 20
"""How near to the edge of its crop a mask counts as cut off."""

EDGE_SHARE = 0.05
"""The same for small crops, as a share of the crop's side, where it is asked for."""


@dataclass(frozen=True, slots=True)
class Crop:
    """A part of an image: first column and row, and one past the last."""

    left: int
    top: int
    right: int
    bottom: int
    layer: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.bottom - self.top, self.right - self.left

    @property
    def window(self) -> tuple[slice, slice]:
        return slice(self.top, self.bottom), slice(self.left, self.right)

    def cuts(
        self, boxes: npt.NDArray[np.int64], shape: tuple[int, int], *, scaled: bool = False
    ) -> npt.NDArray[np.bool_]:
        """Which boxes (in the crop's frame) reach its edge where the image goes on.

        An edge is reached within 20 pixels; `scaled` takes 5 % of the crop's side where that
        is less.

        >>> crop = Crop(40, 0, 100, 80)
        >>> crop.cuts(np.array([[20, 20, 40, 60], [21, 21, 39, 59]]), (80, 100)).tolist()
        [True, False]
        """
        moved = boxes + np.array([self.left, self.top, self.left, self.top])
        own = np.array([self.left, self.top, self.right, self.bottom])
        whole = np.array([0, 0, shape[1], shape[0]])
        near_px = self._near_px(scaled)
        near = np.abs(moved - own) <= near_px
        ends = np.abs(moved - whole) <= near_px
        cut: npt.NDArray[np.bool_] = (near & ~ends).any(axis=1)
        return cut

    def _near_px(self, scaled: bool) -> npt.NDArray[np.float64]:
        """How near is near, for left, top, right and bottom."""
        high, wide = self.shape
        sides = EDGE_SHARE * np.array([wide, high, wide, high], dtype=np.float64)
        return np.minimum(EDGE_PX, sides) if scaled else np.full(4, float(EDGE_PX))


def grid(side: int) -> npt.NDArray[np.float64]:
    """Points `(side * side, 2)`, x and y in 0..1, row by row.

    >>> grid(2).tolist()
    [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]]
    """
    if side < 1:
        raise BadInput(f"a grid has at least one point on a side, not {side}")
    half = 1 / (2 * side)
    places = np.linspace(half, 1 - half, side)
    return np.stack([np.tile(places, side), np.repeat(places, side)], axis=1)


def crops_of(shape: tuple[int, int], layers: int, overlap: float) -> list[Crop]:
    """The whole image, then each layer's crops column by column.

    >>> [(c.left, c.top, c.right, c.bottom) for c in crops_of((480, 640), 1, 512 / 1500)][1:3]
    [(0, 0, 402, 322), (0, 159, 402, 480)]
    """
    height, width = shape
    crops = [Crop(0, 0, width, height)]
    for layer in range(1, layers + 1):
        count = 2**layer
        shared = int(overlap * min(height, width) * (2 / count))
        wide = math.ceil((shared * (count - 1) + width) / count)
        high = math.ceil((shared * (count - 1) + height) / count)
        for left in ((wide - shared) * k for k in range(count)):
            for top in ((high - shared) * k for k in range(count)):
                right, bottom = min(left + wide, width), min(top + high, height)
                crops.append(Crop(left, top, right, bottom, layer))
    return crops


def checked_crops(shape: tuple[int, int], layers: int, overlap: float) -> list[Crop]:
    """Crops that can be looked at: none is empty, none was meant larger than the image."""
    height, width = shape
    crops = crops_of(shape, layers, overlap)
    if layers and overlap > 1:
        raise BadInput(
            f"crops that overlap by {overlap:g} of the shorter side are larger than the image "
            f"of {width} x {height}; let them overlap by less than 1"
        )
    if any(min(crop.shape) < 1 for crop in crops):
        raise BadInput(
            f"an image of {width} x {height} is too small for {layers} layers of crops; take fewer"
        )
    return crops

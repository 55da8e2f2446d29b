"""Options of automatic masks, checked when they are read."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, check_choice
from segmeter.core.models import ProtocolName

Clean = Literal["masks", "logits"]
Nms = Literal["boxes", "masks"]
Edge = Literal["fixed", "scaled"]
Output = Literal["three", "single"]
Grid = npt.NDArray[np.float64]

MOST_LAYERS = 6
"""Crops double on a side with every layer; six layers are 5461 crops."""


_LEAST = {"points": 1, "crops": 0, "fewer": 1, "smallest": 0, "batch": 1}


@dataclass(frozen=True, slots=True)
class Options:
    """How masks are made, filtered and thinned out; the defaults are those of SAM's code.

    Attributes
    ----------
    points
        Points on a side of the grid over the whole image.
    crops
        Layers of crops beyond the whole image: layer i has 2^i on a side.
    fewer
        A crop of layer i has `points / fewer^i` points on a side.
    overlap
        How far crops overlap, as a share of the image's shorter side.
    score, stability
        A mask stays when the model's own score is above, and its stability at least this;
        0 switches a filter off.
    offset
        Logits above 0 are the mask; stability moves that threshold by the offset.
    box_nms, crop_nms
        Of masks whose boxes overlap more than this the better one stays, within a crop and
        between crops.
    smallest
        Holes and islands below so many pixels are filled and removed; 0 leaves them.
    clean
        `masks`: as SAM, on finished masks, with one more suppression. `logits`: as SAM 2, on
        low-resolution logits, counted in their pixels.
    refine
        SAM 2: every mask is given back to the model once before it is judged.
    nms
        `boxes` as published, or `masks`: overlap of the masks themselves.
    covers
        Masks that cover at least this share of the image are removed. The paper says 0.95
        and the code does not do it: None is off in `published` and 0.95 in `corrected`.
    edge
        Masks near an edge of their crop that is not an edge of the image are dropped:
        within 20 pixels (`fixed`), or within 5 % of the crop's side where that is less
        (`scaled`).
    output
        `three` masks for each point, or the `single` one of a model that takes a point for
        unambiguous (the paper's ablation).
    batch
        Points per batch; changes memory (a processor holds up to 0.8 MB each),
        never results.
    grids
        Own grids instead, one a layer: `(n, 2)` of x and y in 0..1.
    """

    points: int = 32
    crops: int = 0
    fewer: int = 1
    overlap: float = 512 / 1500
    score: float = 0.88
    stability: float = 0.95
    offset: float = 1.0
    box_nms: float = 0.7
    crop_nms: float = 0.7
    smallest: int = 0
    clean: Clean = "masks"
    refine: bool = False
    nms: Nms = "boxes"
    covers: float | None = None
    edge: Edge = "fixed"
    output: Output = "three"
    batch: int = 512
    protocol: ProtocolName = "published"
    grids: tuple[Grid, ...] | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            number = isinstance(value, int | float) and math.isfinite(value)
            if field.type == "float" and not number:
                raise BadInput(f"automatic masks: {field.name} is a finite number, not {value!r}")
        self._check_counts()
        for name, kind in _CHOICES.items():
            check_choice(name, getattr(self, name), get_args(kind))

    def points_in(self, layer: int) -> int:
        return int(self.points / self.fewer**layer)

    def _check_counts(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BadInput(
                    f"automatic masks: {name} is a whole number from {least} on, not {value!r}"
                )
        if self.crops > MOST_LAYERS:
            raise BadInput(
                f"automatic masks: at most {MOST_LAYERS} layers of crops, not {self.crops}"
            )
        if self.grids is None and self.points_in(self.crops) < 1:
            raise BadInput(
                f"automatic masks: {self.points} points on a side, divided by {self.fewer} in each "
                f"of {self.crops} layers of crops, leave a grid of no points; take more points or "
                "fewer layers"
            )
        if self.offset < 0 or self.overlap < 0:
            raise BadInput("automatic masks: offset and overlap are not negative")


_CHOICES = {"clean": Clean, "nms": Nms, "edge": Edge, "output": Output, "protocol": ProtocolName}


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
        """Which boxes (in the crop's frame) reach an edge that is not the image's.

        An edge is reached within 20 pixels; `scaled` takes 5 % of the crop's side where that
        is less.

        >>> crop = Crop(40, 0, 100, 80)
        >>> crop.cuts(np.array([[20, 20, 40, 60], [21, 21, 39, 59]]), (80, 100)).tolist()
        [True, False]
        """
        moved = boxes + np.array([self.left, self.top, self.left, self.top])
        own = np.array([self.left, self.top, self.right, self.bottom])
        whole = np.array([0, 0, shape[1], shape[0]])
        high, wide = self.shape
        sides = EDGE_SHARE * np.array([wide, high, wide, high], dtype=np.float64)
        near_px = np.minimum(EDGE_PX, sides) if scaled else np.full(4, float(EDGE_PX))
        near = np.abs(moved - own) <= near_px
        ends = np.abs(moved - whole) <= near_px
        return np.asarray((near & ~ends).any(axis=1))


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
    """Valid crops: none is empty, none is larger than the image."""
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

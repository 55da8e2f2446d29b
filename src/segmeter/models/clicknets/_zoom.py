"""Zooming in: the part of the image that a click network is shown.

From the click after the first ones on, the network sees a box around the object it found
so far, enlarged. The box is kept from click to click and changes only when it has to.
Boxes are `(top, bottom, left, right)`, all four inside.

Clicks as discs, the input of a click network.

The hard disc is what the networks were trained on. The soft disc has an edge one pixel
wide, so that the click can be moved by a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

ZoomBox = tuple[int, int, int, int]
Spot = tuple[float, float, bool]


@dataclass(frozen=True, slots=True)
class ZoomFrame:
    """How the image becomes the network's input and the output a map of the image.

    `shown` is the box the network sees, None for the whole image at its own size;
    `pasted` the box its answer is put into. They differ in one odd case: when nothing is
    above the threshold any more, RITM shows the whole image again, and yet squeezes the
    answer into the box it had kept.
    """

    image: tuple[int, int]
    input: tuple[int, int]
    shown: ZoomBox | None
    pasted: ZoomBox | None

    def into(self, point: tuple[float, float]) -> tuple[float, float]:
        """A point of the image in the network's input; not rounded."""
        if self.shown is None:
            return point
        top, bottom, left, right = self.shown
        y = self.input[0] * (point[0] - top) / (bottom - top + 1)
        return y, self.input[1] * (point[1] - left) / (right - left + 1)

    def out_of(self, point: tuple[float, float]) -> tuple[float, float]:
        """A point of the network's input in the image."""
        if self.shown is None:
            return point
        top, bottom, left, right = self.shown
        y = point[0] * (bottom - top + 1) / self.input[0] + top
        return y, point[1] * (right - left + 1) / self.input[1] + left

    def cut(self, whole: Tensor) -> Tensor:
        """`(C, H, W)` of the image as the network sees it."""
        if self.shown is None:
            return whole
        top, bottom, left, right = self.shown
        return _resized(whole[:, top : bottom + 1, left : right + 1], self.input)

    def paste(self, answer: Tensor) -> Tensor:
        """The network's map `(h, w)` at the image's size; 0 outside the box."""
        if self.pasted is None:
            return answer
        top, bottom, left, right = self.pasted
        whole = answer.new_zeros(self.image)
        size = (bottom - top + 1, right - left + 1)
        whole[top : bottom + 1, left : right + 1] = _resized(answer[None], size)[0]
        return whole


@dataclass(frozen=True, slots=True)
class Zoom:
    """The rule by which the box is chosen.

    Attributes
    ----------
    target
        Long side of the input, or its exact size; None never zooms.
    skip_clicks
        The image is shown whole up to this many clicks; with -1 a box is kept from the
        first click on, at first the whole image.
    expansion, min_crop
        The object's box is made this much larger, and no side smaller than that.
    replace_below
        The kept box gives way when it overlaps the object's box by less.
    threshold
        Probability above which a pixel counts as found.
    """

    target: int | tuple[int, int] | None = 400
    skip_clicks: int = 1
    expansion: float = 1.4
    min_crop: int = 200
    replace_below: float = 0.5
    threshold: float = 0.5

    def frame(
        self, spots: Sequence[Spot], found: Tensor, kept: ZoomBox | None
    ) -> tuple[ZoomFrame, ZoomBox | None]:
        """The zoom for these clicks, and the box to keep.

        `found` is the last map of probabilities, all zero before the first answer.
        """
        image = (found.shape[0], found.shape[1])
        whole = ZoomFrame(image, image, None, kept)
        if self.target is None or len(spots) <= self.skip_clicks:
            return whole, kept
        box = self._object_box(found, spots)
        if box is None:
            if self.skip_clicks >= 0:
                return whole, kept
            box = (0, image[0] - 1, 0, image[1] - 1)
        if kept is not None:
            top, bottom, left, right = kept
            inside = all(
                top <= y < bottom and left <= x < right for y, x, positive in spots if positive
            )  # the last row and column count as outside
        if kept is None or not inside or overlap(box, kept) < self.replace_below:
            kept = box
        return ZoomFrame(image, self._input_size(kept), kept, kept), kept

    def encodes_again(self, found: Tensor, kept: ZoomBox | None) -> bool:
        """Whether the first prediction is repeated at once, zoomed in.

        Only with `skip_clicks` 0, and for an object much smaller than the image.
        """
        if self.target is None or kept is not None or self.skip_clicks > 0:
            return False
        box = self._object_box(found, ())
        if box is None:
            return False
        whole = (0, found.shape[0] - 1, 0, found.shape[1] - 1)
        return overlap(box, whole) < self.replace_below

    def _object_box(self, found: Tensor, spots: Sequence[Spot]) -> ZoomBox | None:
        """The box around what was found and clicked on, made larger; None if nothing was."""
        box = _around(found > self.threshold)
        if box is None:
            return None
        rows = [int(y) for y, _, positive in spots if positive]
        columns = [int(x) for _, x, positive in spots if positive]
        top, bottom = self._grown(min([box[0], *rows]), max([box[1], *rows]), found.shape[0])
        left, right = self._grown(min([box[2], *columns]), max([box[3], *columns]), found.shape[1])
        return top, bottom, left, right

    def _grown(self, first: int, last: int, length: int) -> tuple[int, int]:
        centre = 0.5 * (first + last)
        half = max(self.expansion * (last - first + 1), self.min_crop) / 2
        return max(0, round(centre - half)), min(length - 1, round(centre + half))

    def _input_size(self, box: ZoomBox) -> tuple[int, int]:
        if isinstance(self.target, tuple):
            return self.target
        assert self.target is not None
        height, width = box[1] - box[0] + 1, box[3] - box[2] + 1
        scale = self.target / max(height, width)
        return round(height * scale), round(width * scale)


def overlap(box: ZoomBox, other: ZoomBox) -> float:
    """Overlap over union of the rows times that of the columns.

    >>> overlap((0, 9, 0, 9), (0, 4, 0, 9))
    0.5
    """
    return _overlap1d(box[:2], other[:2]) * _overlap1d(box[2:], other[2:])


def _overlap1d(a: tuple[int, int], b: tuple[int, int]) -> float:
    shared = max(0, min(a[1], b[1]) - max(a[0], b[0]) + 1)
    return shared / max(1e-6, max(a[1], b[1]) - min(a[0], b[0]) + 1)


def _around(found: Tensor) -> ZoomBox | None:
    rows = found.any(dim=1).nonzero()
    if rows.numel() == 0:
        return None
    columns = found.any(dim=0).nonzero()
    return int(rows[0]), int(rows[-1]), int(columns[0]), int(columns[-1])


def _resized(planes: Tensor, size: tuple[int, int]) -> Tensor:
    """Bilinear, corners on corners, `(C, H, W)`."""
    return F.interpolate(planes[None], size=size, mode="bilinear", align_corners=True)[0]


RADIUS = 5.0
_FAR = 1e6  # squared distance of a row that holds no click


def points_tensor(sessions: Sequence[Sequence[Spot]]) -> Tensor:
    """Clicks `(row, column, positive)` of many sessions as `(B, 2, N, 2)`.

    Positive clicks come first, then negative ones; rows without a click hold -1.
    """
    most = max(
        (sum(spot[2] is sign for spot in spots) for spots in sessions for sign in (True, False)),
        default=0,
    )
    points = torch.full((len(sessions), 2, max(1, most), 2), -1.0)
    for b, spots in enumerate(sessions):
        for side, sign in enumerate((True, False)):
            mine = [spot[:2] for spot in spots if spot[2] is sign]
            if mine:
                points[b, side, : len(mine)] = torch.tensor(mine)
    return points


def hard_discs(points: Tensor, size: tuple[int, int], radius: float = RADIUS) -> Tensor:
    """1 where a click lies within the radius, `(B, 2, H, W)`."""
    nearest = _squared(points[:, :, 0], size)
    for n in range(1, points.shape[2]):
        nearest = torch.minimum(nearest, _squared(points[:, :, n], size))
    return (nearest <= radius**2).to(points.dtype)


def soft_discs(points: Tensor, size: tuple[int, int], radius: float = RADIUS) -> Tensor:
    """Discs with an edge one pixel wide, `(B, 2, H, W)`; differentiable in the points.

    The coverage of a pixel at distance d is `clip(radius + 1/2 - d, 0, 1)`; where discs
    of one sign overlap they add up to no more than 1.
    """
    covered = soft_disc(points[:, :, 0], size, radius)
    for n in range(1, points.shape[2]):
        covered = covered + soft_disc(points[:, :, n], size, radius)
    return covered.clamp(max=1)


def soft_disc(points: Tensor, size: tuple[int, int], radius: float = RADIUS) -> Tensor:
    """One soft disc a point: `(..., 2)` to `(..., H, W)`."""
    # At the centre itself the root has no slope; the disc is flat there anyway.
    distance = _squared(points, size).clamp_min(1e-12).sqrt()
    return (radius + 0.5 - distance).clamp(0, 1)


def _squared(points: Tensor, size: tuple[int, int]) -> Tensor:
    """Squared distance of every pixel to a click: `(..., 2)` to `(..., H, W)`."""
    rows = torch.arange(size[0], dtype=points.dtype, device=points.device)
    columns = torch.arange(size[1], dtype=points.dtype, device=points.device)
    down = (rows - points[..., 0, None]).square()
    across = (columns - points[..., 1, None]).square()
    squared = down[..., :, None] + across[..., None, :]
    empty = (points.amax(dim=-1) < 0)[..., None, None]
    return squared.masked_fill(empty, _FAR)

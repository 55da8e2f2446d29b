"""Zooming in: the part of the image that a click network is shown.

From the click after the first ones on, the network sees a box around the object it found
so far, enlarged. The box is kept from click to click and changes only when it has to.
Boxes are `(top, bottom, left, right)`, all four inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Zoom", "ZoomBox", "ZoomFrame"]

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
        return (
            self.input[0] * (point[0] - top) / (bottom - top + 1),
            self.input[1] * (point[1] - left) / (right - left + 1),
        )

    def out_of(self, point: tuple[float, float]) -> tuple[float, float]:
        """A point of the network's input in the image."""
        if self.shown is None:
            return point
        top, bottom, left, right = self.shown
        return (
            point[0] * (bottom - top + 1) / self.input[0] + top,
            point[1] * (right - left + 1) / self.input[1] + left,
        )

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
        """What to show for these clicks, and the box to keep.

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
            box = _all(image)
        if kept is None or self._outgrown(kept, box, spots):
            kept = box
        return ZoomFrame(image, self._input_size(kept), kept, kept), kept

    def encodes_again(self, found: Tensor, kept: ZoomBox | None) -> bool:
        """Whether the first answer is at once asked for again, zoomed in.

        Only with `skip_clicks` 0, and for an object much smaller than the image.
        """
        if self.target is None or kept is not None or self.skip_clicks > 0:
            return False
        box = self._object_box(found, ())
        if box is None:
            return False
        return overlap(box, _all((found.shape[0], found.shape[1]))) < self.replace_below

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

    def _outgrown(self, kept: ZoomBox, box: ZoomBox, spots: Sequence[Spot]) -> bool:
        """A positive click outside (the last row and column count as outside), or moved."""
        top, bottom, left, right = kept
        outside = any(
            positive and not (top <= y < bottom and left <= x < right) for y, x, positive in spots
        )
        return outside or overlap(box, kept) < self.replace_below

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


def _all(image: tuple[int, int]) -> ZoomBox:
    return 0, image[0] - 1, 0, image[1] - 1


def _around(found: Tensor) -> ZoomBox | None:
    rows = found.any(dim=1).nonzero()
    if rows.numel() == 0:
        return None
    columns = found.any(dim=0).nonzero()
    return int(rows[0]), int(rows[-1]), int(columns[0]), int(columns[-1])


def _resized(planes: Tensor, size: tuple[int, int]) -> Tensor:
    """Bilinear, corners on corners, `(C, H, W)`."""
    from torch.nn import functional as F

    return F.interpolate(planes[None], size=size, mode="bilinear", align_corners=True)[0]

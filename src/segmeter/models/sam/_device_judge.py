"""Judging many answers on the device: no full-size logits are kept, only counts leave it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from segmeter.core.masks import Mask
from segmeter.core.scenes import Target
from segmeter.models.sam._frames import Frame, Padded
from segmeter.models.sam._packed_bits import count, erode, pack

__all__ = ["DeviceJudge"]

PIXELS_AT_ONCE = 1 << 26
"""Pixels that are up-sampled, thresholded and counted in one go."""


class DeviceJudge:
    """IoU and Boundary IoU of low-resolution logits against one target.

    Both resizings of a SAM are linear and work on rows and columns apart, so together they
    are one matrix from the left and one from the right.
    """

    def __init__(
        self,
        frame: Frame,
        target: Target,
        low: int,
        like: Tensor,
        reach: int = 0,
        compiled: bool = False,
    ) -> None:
        """`reach` is the width of the boundary's band in pixels; 0 leaves it out."""
        self._rows, self._columns = (_axis(frame, axis, low).to(like) for axis in (0, 1))
        self._reach, self._pixels = reach, frame.shape[0] * frame.shape[1]
        ignored = target.ignore or Mask.empty(target.mask.shape)
        whole, self._judged = (
            pack(torch.from_numpy(bits)[None].to(like.device))
            for bits in (target.mask.dense(), ~ignored.dense())
        )
        self._ground_truth = whole & self._judged
        self._band = whole & ~erode(whole, reach) & self._judged
        # Where all of a band is ignored, bands of what is judged count (`measures.bands`).
        self._hidden = bool(reach) and not bool(self._band.any())
        self._inner = (
            self._ground_truth & ~erode(self._ground_truth, reach) if self._hidden else self._band
        )
        self._score = torch.compile(self._scores, dynamic=False) if compiled else self._scores

    def __call__(self, logits: Tensor) -> Tensor:
        """Scores `(B, 2)` of logits `(B, low, low)`: IoU, and Boundary IoU or NaN."""
        step = max(1, PIXELS_AT_ONCE // self._pixels)
        parts = [logits[i : i + step] for i in range(0, len(logits), step)]
        return torch.cat([self._score(part) for part in parts])

    def _scores(self, logits: Tensor) -> Tensor:
        prediction = pack(self._rows @ logits @ self._columns.T > 0)
        iou = self._ratio(prediction, self._ground_truth)
        if not self._reach:
            return torch.stack([iou, torch.full_like(iou, torch.nan)], dim=1)
        band = prediction & ~erode(prediction, self._reach)
        boundary = self._ratio(band, self._band)
        if self._hidden:
            seen = prediction & self._judged
            inner = self._ratio(seen & ~erode(seen, self._reach), self._inner)
            boundary = torch.where(count(band & self._judged) == 0, inner, boundary)
        return torch.stack([iou, boundary.masked_fill(count(prediction) == 0, 0.0)], dim=1)

    def _ratio(self, prediction: Tensor, ground_truth: Tensor) -> Tensor:
        """IoU of sets with one ground truth; 1 where neither holds a judged pixel."""
        both, either = (
            count(prediction & ground_truth),
            count((prediction | ground_truth) & self._judged),
        )
        return torch.where(either > 0, both / either.clamp_min(1), 1.0)


def _axis(frame: Frame, axis: int, low: int) -> Tensor:
    """How the frame resizes one axis: `(pixels, low)`."""
    sizes = [frame.shape[axis]]
    if isinstance(frame, Padded):
        sizes = [frame.side, frame.shape[axis]]
    weights = torch.eye(low)[None, None]
    for i, size in enumerate(sizes):
        weights = F.interpolate(weights, (size, low), mode="bilinear", align_corners=False)
        if i == 0 and isinstance(frame, Padded):
            weights = weights[:, :, : frame.inside[axis]]
    return weights[0, 0]

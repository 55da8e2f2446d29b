"""Judging many answers on the device: no full-size logits are kept, only counts leave it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from segmeter.core.masks import Mask
from segmeter.core.scenes import Target
from segmeter.models._frames import Frame, Padded

__all__ = ["DeviceJudge"]

PIXELS_AT_ONCE = 1 << 27
"""Pixels that are up-sampled, thresholded and counted in one go."""


class DeviceJudge:
    """IoU and Boundary IoU of low-resolution logits against one target.

    Both resizings of a SAM are linear and work on rows and columns apart, so together they
    are one matrix from the left and one from the right.
    """

    def __init__(
        self, frame: Frame, target: Target, low: int, like: Tensor, reach: int = 0
    ) -> None:
        """`reach` is the width of the boundary's band in pixels; 0 leaves it out."""
        self._rows, self._columns = (_axis(frame, axis, low).to(like) for axis in (0, 1))
        self._reach, self._pixels = reach, frame.shape[0] * frame.shape[1]
        device = like.device
        judged = ~_bits(target.ignore or Mask.empty(target.mask.shape), device)
        truth = _bits(target.mask, device)
        self._judged, self._truth = judged, truth & judged
        if reach:
            self._band = truth & ~erode(truth[None], reach)[0] & judged

    def __call__(self, logits: Tensor) -> Tensor:
        """Scores `(B, 2)` of logits `(B, low, low)`: IoU, and Boundary IoU or NaN."""
        step = max(1, PIXELS_AT_ONCE // self._pixels)
        parts = [logits[i : i + step] for i in range(0, len(logits), step)]
        return torch.cat([self._scores(part) for part in parts])

    def _scores(self, logits: Tensor) -> Tensor:
        full = self._rows @ logits @ self._columns.T
        bits = full > 0
        iou = _ratio(bits, self._truth, self._judged)
        if not self._reach:
            return torch.stack([iou, torch.full_like(iou, torch.nan)], dim=1)
        band = bits & ~erode(bits, self._reach)
        boundary = _ratio(band, self._band, self._judged)
        empty = ~bits.flatten(1).any(dim=1)
        return torch.stack([iou, boundary.masked_fill(empty, 0.0)], dim=1)


def erode(bits: Tensor, reach: int) -> Tensor:
    """Pixels whose square of side `2 reach + 1` lies wholly inside, `(B, H, W)`."""
    return _erode_last(_erode_last(bits, reach).transpose(1, 2), reach).transpose(1, 2)


def _erode_last(bits: Tensor, reach: int) -> Tensor:
    """All of a window along the last axis, by doubling its length."""
    length, whole = bits.shape[-1], 2 * reach + 1
    run, width = F.pad(bits, (reach, reach)), 1
    while 2 * width <= whole:
        run, width = run[..., :-width] & run[..., width:], 2 * width
    rest = whole - width
    return run[..., :length] & run[..., rest : rest + length]


def _ratio(guess: Tensor, truth: Tensor, judged: Tensor) -> Tensor:
    """IoU of sets `(B, H, W)` with one truth; 1 where neither holds a judged pixel."""
    both = (guess & truth).sum((1, 2), dtype=torch.int32)
    either = truth.sum() + (guess & judged).sum((1, 2), dtype=torch.int32) - both
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


def _bits(mask: Mask, device: torch.device) -> Tensor:
    return torch.from_numpy(mask.dense()).to(device)

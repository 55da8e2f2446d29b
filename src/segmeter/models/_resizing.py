"""Steps that the frames of several networks share: pixels to tensors, and sizes to sizes."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from segmeter.core.scenes import Pixels
from segmeter.models.sam._device_copies import arriving, constant

__all__ = [
    "DEVIATION",
    "MEAN",
    "antialiased",
    "as_channels",
    "bilinear",
    "channels",
    "cut_out",
    "normalised",
    "padded",
    "sent",
    "shrunk",
]

MEAN = (123.675, 116.28, 103.53)
DEVIATION = (58.395, 57.12, 57.375)
"""Of ImageNet's colours in 0..255, by which SAM was trained."""

Colour = tuple[float, float, float]


def channels(pixels: Pixels, device: torch.device) -> Tensor:
    """`(H, W, 3)` as `(1, 3, H, W)` float32 on the device."""
    return as_channels(sent(pixels, device))


def sent(pixels: Pixels, device: torch.device) -> Tensor:
    """Pixels `(H, W, 3)` on the device; of grey ones that only pretend to be three, one goes."""
    if pixels.strides[2] == 0:
        grey = arriving(np.array(pixels[:, :, 0], order="C"), device)
        return grey[:, :, None].expand(*pixels.shape).contiguous()
    return arriving(np.array(pixels, order="C"), device)


def as_channels(pixels: Tensor) -> Tensor:
    """`(H, W, 3)` as `(1, 3, H, W)` float32."""
    return pixels.permute(2, 0, 1)[None].float()


def normalised(x: Tensor, mean: Colour, deviation: Colour) -> Tensor:
    """Channels `(B, 3, H, W)` less their mean, over their deviation."""
    middle, width = (constant(v, x.device)[:, None, None] for v in (mean, deviation))
    return (x - middle) / width


def antialiased(x: Tensor, size: tuple[int, int]) -> Tensor:
    """In floating point with antialias, as the originals do (rounding to 8 bits moves masks)."""
    return F.interpolate(x, size, mode="bilinear", align_corners=False, antialias=True)


def bilinear(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Without antialias, in single precision."""
    return F.interpolate(x.float(), size, mode="bilinear", align_corners=False)


def shrunk(masks: Tensor, inside: tuple[int, int], side: int, low: int) -> Tensor:
    """Masks of an image that fills a part of a square, at the square's low resolution."""
    # At the square's own resolution first, so that padding starts where the image ends.
    return antialiased(padded(antialiased(masks, inside), side), (low, low))


def cut_out(logits: Tensor, inside: tuple[int, int], side: int, shape: tuple[int, int]) -> Tensor:
    """Low-resolution logits of such a square at the image's size, without the padding."""
    square = bilinear(logits, (side, side))
    return bilinear(square[..., : inside[0], : inside[1]], shape)


def padded(x: Tensor, side: int) -> Tensor:
    """Zeros to the right and below, until both sides are so long."""
    high, wide = x.shape[-2:]
    return F.pad(x, (0, side - wide, 0, side - high))

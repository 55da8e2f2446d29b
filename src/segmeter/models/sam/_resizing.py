"""Resizing: images to the network's input, and its masks back to the image."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from segmeter.core.scenes import Pixels
from segmeter.models._enlarging import Enlargement


def fetched(bits: Tensor) -> npt.NDArray[np.bool_]:
    """Bits on the host, through memory that a GPU may write to by itself: four times as fast."""
    host = torch.empty(bits.shape, dtype=torch.bool, pin_memory=bits.is_cuda)
    return np.asarray(host.copy_(bits))


RENDERED_PIXELS = 1 << 24
"""Most pixels that are rendered at once: 64 MB of float32."""

MEAN = (123.675, 116.28, 103.53)
DEVIATION = (58.395, 57.12, 57.375)
"""Of ImageNet's colours in 0..255, by which SAM was trained."""

Colour = tuple[float, float, float]
SAM3 = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
"""Mean and deviation of colours in 0..1, by which SAM 3 was trained."""


def channels(pixels: Pixels, device: torch.device) -> Tensor:
    """`(H, W, 3)` as `(1, 3, H, W)` float32 on the device.

    Of grey pixels stored in three channels, one channel is sent.
    """
    given = pixels[:, :, :1] if pixels.strides[2] == 0 else pixels
    there = torch.from_numpy(np.array(given, order="C")).to(device)
    return there.expand(*pixels.shape).contiguous().permute(2, 0, 1)[None].float()


def normalised(x: Tensor, mean: Colour, deviation: Colour) -> Tensor:
    """Channels `(B, 3, H, W)` less their mean, over their deviation."""
    middle, width = (x.new_tensor(v)[:, None, None] for v in (mean, deviation))
    return (x - middle) / width


def antialiased(x: Tensor, size: tuple[int, int]) -> Tensor:
    """In floating point with antialias, as the originals do (rounding to 8 bits moves masks)."""
    return F.interpolate(x, size, mode="bilinear", align_corners=False, antialias=True)


def bilinear(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Without antialias, in single precision."""
    return F.interpolate(x.float(), size, mode="bilinear", align_corners=False)


def padded(x: Tensor, side: int) -> Tensor:
    """Zeros to the right and below, until both sides are so long."""
    high, wide = x.shape[-2:]
    return F.pad(x, (0, side - wide, 0, side - high))


@dataclass(frozen=True, slots=True)
class Squeezed:
    """Position of an image's pixels in the network's square input.

    As SAM 2: the image is stretched to the square.
    """

    shape: tuple[int, int]
    side: int = 1024
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    deviation: tuple[float, float, float] = (0.229, 0.224, 0.225)

    @property
    def scale(self) -> tuple[float, float]:
        """Pixels of the square for each pixel of the image, `(y, x)`."""
        height, width = self.shape
        return self.side / height, self.side / width

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        """The network's input `(1, 3, side, side)`, float32."""
        resized = antialiased(channels(pixels, device) / 255, (self.side, self.side))
        return normalised(resized, self.mean, self.deviation)

    def shrink(self, masks: Tensor, side: int) -> Tensor:
        """Masks `(B, 1, H, W)` in the network's low resolution `(B, 1, side, side)`."""
        return antialiased(masks, (side, side))

    def leave(self, logits: Tensor) -> Tensor:
        """Low-resolution logits `(B, 1, h, w)` at the image's size `(B, 1, H, W)`."""
        return bilinear(logits, self.shape)

    def enlargement(self, low: tuple[int, int]) -> Enlargement:
        """How `leave` enlarges maps of a size, for those who look only along contours."""
        return Enlargement(low, self.shape)


@dataclass(frozen=True, slots=True)
class Padded:
    """The first SAM's way: the long side fills the square, the rest is zero.

    Click benchmarks resize in floating point; Meta's own predictor resizes with Pillow, which
    rounds to 8 bits (`pillow`). Scores differ by up to 0.005, masks by pixels.
    """

    shape: tuple[int, int]
    side: int = 1024
    mean: tuple[float, float, float] = MEAN
    deviation: tuple[float, float, float] = DEVIATION
    pillow: bool = False

    @property
    def inside(self) -> tuple[int, int]:
        """Size of the image within the square."""
        height, width = self.shape
        scale = self.side / max(height, width)
        return max(1, int(height * scale + 0.5)), max(1, int(width * scale + 0.5))

    @property
    def scale(self) -> tuple[float, float]:
        (height, width), (high, wide) = self.shape, self.inside
        return high / height, wide / width

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        if self.pillow:  # in 8 bits with antialias
            from PIL import Image

            whole, size = Image.fromarray(np.ascontiguousarray(pixels)), self.inside[::-1]
            inside = channels(np.array(whole.resize(size, Image.Resampling.BILINEAR)), device)
        else:
            inside = antialiased(channels(pixels, device), self.inside)
        return padded(normalised(inside, self.mean, self.deviation), self.side)

    def shrink(self, masks: Tensor, side: int) -> Tensor:
        # At the square's own resolution first, so that padding starts where the image ends.
        whole = padded(antialiased(masks, self.inside), self.side)
        return antialiased(whole, (side, side))

    def leave(self, logits: Tensor) -> Tensor:
        (high, wide), square = self.inside, bilinear(logits, (self.side, self.side))
        return bilinear(square[..., :high, :wide], self.shape)

    def enlargement(self, low: tuple[int, int]) -> Enlargement:
        return Enlargement(low, self.shape, self.side, self.inside)


Frame: TypeAlias = Squeezed | Padded


def enlarged(frame: Frame, maps: Tensor, pixels: int) -> Iterator[Tensor]:
    """Maps `(n, h, w)` at the image's size, some at a time: so many pixels at once, at most."""
    largest = max(math.prod(frame.shape), frame.side**2)  # what a map becomes on its way
    for some in torch.split(maps, max(1, pixels // largest)):
        yield frame.leave(some[:, None])[:, 0]

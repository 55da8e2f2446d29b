"""Frames: how an image is brought into a network's square, and its answers back out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from segmeter.core.scenes import Pixels
from segmeter.models._enlarging import Enlargement
from segmeter.models._resizing import (
    DEVIATION,
    MEAN,
    antialiased,
    as_channels,
    bilinear,
    channels,
    cut_out,
    normalised,
    padded,
    sent,
    shrunk,
)
from segmeter.models.sam._device_copies import arriving
from segmeter.models.sam._pillow_resize import enlarged

__all__ = ["Frame", "Padded", "Squeezed"]


class Frame(Protocol):
    """Where an image's pixels lie in the square that a network sees."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def side(self) -> int: ...

    @property
    def scale(self) -> tuple[float, float]:
        """Pixels of the square for each pixel of the image, `(y, x)`."""
        ...

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        """The network's input `(1, 3, side, side)`, float32."""
        ...

    def shrink(self, masks: Tensor, side: int) -> Tensor:
        """Masks `(B, 1, H, W)` in the network's low resolution `(B, 1, side, side)`."""
        ...

    def leave(self, logits: Tensor) -> Tensor:
        """Low-resolution logits `(B, 1, h, w)` at the image's size `(B, 1, H, W)`."""
        ...

    def enlargement(self, low: tuple[int, int]) -> Enlargement:
        """How `leave` enlarges maps of a size, for those who look only along contours."""
        ...


@dataclass(frozen=True, slots=True)
class Squeezed:
    """SAM 2's way: the image fills the square, whatever its aspect."""

    shape: tuple[int, int]
    side: int = 1024
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    deviation: tuple[float, float, float] = (0.229, 0.224, 0.225)

    @property
    def scale(self) -> tuple[float, float]:
        height, width = self.shape
        return self.side / height, self.side / width

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        resized = antialiased(channels(pixels, device) / 255, (self.side, self.side))
        return normalised(resized, self.mean, self.deviation)

    def shrink(self, masks: Tensor, side: int) -> Tensor:
        return antialiased(masks, (side, side))

    def leave(self, logits: Tensor) -> Tensor:
        return bilinear(logits, self.shape)

    def enlargement(self, low: tuple[int, int]) -> Enlargement:
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
        return int(height * scale + 0.5), int(width * scale + 0.5)

    @property
    def scale(self) -> tuple[float, float]:
        (height, width), (high, wide) = self.shape, self.inside
        return high / height, wide / width

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        if self.pillow:
            inside = as_channels(_by_pillow(pixels, self.inside, device))
        else:
            inside = antialiased(channels(pixels, device), self.inside)
        return padded(normalised(inside, self.mean, self.deviation), self.side)

    def shrink(self, masks: Tensor, side: int) -> Tensor:
        return shrunk(masks, self.inside, self.side, side)

    def leave(self, logits: Tensor) -> Tensor:
        return cut_out(logits, self.inside, self.side, self.shape)

    def enlargement(self, low: tuple[int, int]) -> Enlargement:
        return Enlargement(low, self.shape, self.side, self.inside)


def _by_pillow(pixels: Pixels, size: tuple[int, int], device: torch.device) -> Tensor:
    """In 8 bits with antialias, as Meta's predictor does: `(h, w, 3)`, uint8."""
    grows = size[0] >= pixels.shape[0] and size[1] >= pixels.shape[1]
    if grows and device.type != "cpu":
        return enlarged(sent(pixels, device), size)
    from PIL import Image

    whole = Image.fromarray(np.ascontiguousarray(pixels))
    return arriving(np.array(whole.resize(size[::-1], Image.Resampling.BILINEAR)), device)

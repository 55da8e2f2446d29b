"""Frames: how a picture is brought into a network's square, and its answers back out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from segmeter.core.scenes import Pixels
from segmeter.models._enlarging import Enlargement

__all__ = ["Frame", "Padded", "Squeezed"]


class Frame(Protocol):
    """Where a picture's pixels lie in the square that a network sees."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def side(self) -> int: ...

    @property
    def scale(self) -> tuple[float, float]:
        """Pixels of the square for each pixel of the picture, `(y, x)`."""
        ...

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        """The network's input `(1, 3, side, side)`, float32."""
        ...

    def shrink(self, masks: Tensor, side: int) -> Tensor:
        """Masks `(B, 1, H, W)` in the network's low resolution `(B, 1, side, side)`."""
        ...

    def leave(self, logits: Tensor) -> Tensor:
        """Low-resolution logits `(B, 1, h, w)` at the picture's size `(B, 1, H, W)`."""
        ...

    def enlargement(self, low: tuple[int, int]) -> Enlargement:
        """How `leave` enlarges maps of a size, for those who look only along contours."""
        ...


@dataclass(frozen=True, slots=True)
class Squeezed:
    """SAM 2's way: the picture fills the square, whatever its aspect."""

    shape: tuple[int, int]
    side: int = 1024
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    deviation: tuple[float, float, float] = (0.229, 0.224, 0.225)

    @property
    def scale(self) -> tuple[float, float]:
        height, width = self.shape
        return self.side / height, self.side / width

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        resized = _resize(_channels(pixels, device) / 255, (self.side, self.side))
        return (resized - _column(self.mean, device)) / _column(self.deviation, device)

    def shrink(self, masks: Tensor, side: int) -> Tensor:
        return _resize(masks, (side, side))

    def leave(self, logits: Tensor) -> Tensor:
        return _bilinear(logits, self.shape)

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
    mean: tuple[float, float, float] = (123.675, 116.28, 103.53)
    deviation: tuple[float, float, float] = (58.395, 57.12, 57.375)
    pillow: bool = False

    @property
    def inside(self) -> tuple[int, int]:
        """Size of the picture within the square."""
        height, width = self.shape
        scale = self.side / max(height, width)
        return int(height * scale + 0.5), int(width * scale + 0.5)

    @property
    def scale(self) -> tuple[float, float]:
        (height, width), (high, wide) = self.shape, self.inside
        return high / height, wide / width

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        if self.pillow:
            resized = _channels(_resize_by_pillow(pixels, self.inside), device)
        else:
            resized = _resize(_channels(pixels, device), self.inside)
        normal = (resized - _column(self.mean, device)) / _column(self.deviation, device)
        return self._pad(normal, self.side)

    def shrink(self, masks: Tensor, side: int) -> Tensor:
        # Four times the resolution first, so that padding starts where the picture ends.
        fine = self._pad(_resize(masks, self.inside), self.side)
        return _resize(fine, (side, side))

    def leave(self, logits: Tensor) -> Tensor:
        high, wide = self.inside
        square = _bilinear(logits, (self.side, self.side))
        return _bilinear(square[..., :high, :wide], self.shape)

    def enlargement(self, low: tuple[int, int]) -> Enlargement:
        return Enlargement(low, self.shape, self.side, self.inside)

    def _pad(self, x: Tensor, side: int) -> Tensor:
        high, wide = x.shape[-2:]
        return F.pad(x, (0, side - wide, 0, side - high))


def _channels(pixels: Pixels, device: torch.device) -> Tensor:
    """`(H, W, 3)` uint8 as `(1, 3, H, W)` float32."""
    whole = torch.from_numpy(pixels.copy()).to(device)
    return whole.permute(2, 0, 1)[None].float()


def _column(values: tuple[float, float, float], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device)[:, None, None]


def _resize(x: Tensor, size: tuple[int, int]) -> Tensor:
    """In floating point with antialias, as the originals do (rounding to 8 bits moves masks)."""
    return F.interpolate(x, size, mode="bilinear", align_corners=False, antialias=True)


def _resize_by_pillow(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """In 8 bits with antialias, as Meta's predictor does."""
    import numpy as np
    from PIL import Image

    whole = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(whole.resize((size[1], size[0]), Image.Resampling.BILINEAR))


def _bilinear(x: Tensor, size: tuple[int, int]) -> Tensor:
    return F.interpolate(x.float(), size, mode="bilinear", align_corners=False)

"""Frames of the medical SAM kinds: how a slice enters their square, and leaves it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from segmeter.core.scenes import Pixels
from segmeter.models._enlarging import Enlargement
from segmeter.models._resizing import (
    DEVIATION,
    MEAN,
    antialiased,
    bilinear,
    channels,
    cut_out,
    normalised,
    padded,
    shrunk,
)

__all__ = ["LiteMedSamFrame", "MedSamFrame", "SamMed2dFrame"]


@dataclass(frozen=True, slots=True)
class LiteMedSamFrame:
    """The long side fills 256 pixels, values are stretched to 0..1, the rest is zero."""

    shape: tuple[int, int]
    side: int = 256

    @property
    def inside(self) -> tuple[int, int]:
        """Size of the slice within the square."""
        height, width = (int(n * self.scale[0] + 0.5) for n in self.shape)
        return height, width

    @property
    def scale(self) -> tuple[float, float]:
        """One factor for both axes: sizes are rounded, places are not."""
        factor = self.side / max(self.shape)
        return factor, factor

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        resized = antialiased(channels(pixels, device), self.inside)
        return padded(_stretched(resized), self.side)

    def shrink(self, masks: Tensor, side: int) -> Tensor:
        return shrunk(masks, self.inside, self.side, side)

    def leave(self, logits: Tensor) -> Tensor:
        return cut_out(logits, self.inside, self.side, self.shape)

    def enlargement(self, low: tuple[int, int]) -> Enlargement:
        return Enlargement(low, self.shape, self.side, self.inside)


@dataclass(frozen=True, slots=True)
class MedSamFrame:
    """The slice fills 1024 x 1024 by bicubic curves, and values are stretched to 0..1."""

    shape: tuple[int, int]
    side: int = 1024

    @property
    def scale(self) -> tuple[float, float]:
        height, width = self.shape
        return self.side / height, self.side / width

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        import cv2

        size = (self.side, self.side)
        values: npt.NDArray[np.float32] = np.ascontiguousarray(pixels, dtype=np.float32)
        if np.ptp(values) == 0:  # the curves' rounding would be stretched to full contrast
            return torch.zeros((1, 3, *size), device=device)
        resized = np.asarray(cv2.resize(values, size, interpolation=cv2.INTER_CUBIC))
        return _stretched(channels(resized, device))

    def shrink(self, masks: Tensor, side: int) -> Tensor:
        return antialiased(masks, (side, side))

    def leave(self, logits: Tensor) -> Tensor:
        """Probabilities less a half: this kind is enlarged after the sigmoid."""
        return bilinear(logits.float().sigmoid(), self.shape) - 0.5

    def enlargement(self, low: tuple[int, int]) -> Enlargement:
        return Enlargement(low, self.shape)


@dataclass(frozen=True, slots=True)
class SamMed2dFrame:
    """The slice fills 256 x 256 by nearest neighbours, after SAM's normalisation."""

    shape: tuple[int, int]
    side: int = 256

    @property
    def scale(self) -> tuple[float, float]:
        height, width = self.shape
        return self.side / height, self.side / width

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        normal = normalised(channels(pixels, device), MEAN, DEVIATION)
        return F.interpolate(normal, (self.side, self.side), mode="nearest")

    def shrink(self, masks: Tensor, side: int) -> Tensor:
        return antialiased(masks, (side, side))

    def leave(self, logits: Tensor) -> Tensor:
        return bilinear(bilinear(logits, (self.side, self.side)), self.shape)

    def enlargement(self, low: tuple[int, int]) -> Enlargement:
        return Enlargement(low, self.shape, self.side, (self.side, self.side))


def _stretched(x: Tensor) -> Tensor:
    """Smallest value to 0, largest to 1."""
    low, high = x.amin(), x.amax()
    return (x - low) / (high - low).clamp(min=1e-8)

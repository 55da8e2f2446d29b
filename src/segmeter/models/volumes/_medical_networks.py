"""Networks of LiteMedSAM, MedSAM and SAM-Med2D, filled from their published checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from segmeter.core.scenes import Pixels
from segmeter.models._enlarging import Enlargement
from segmeter.models.sam._decoder import named
from segmeter.models.sam._loading import SamNetwork
from segmeter.models.sam._resizing import (
    DEVIATION,
    MEAN,
    Frame,
    Padded,
    Squeezed,
    antialiased,
    bilinear,
    channels,
    normalised,
    padded,
)
from segmeter.models.sam._vit import SamVit, TinyVit


@dataclass(frozen=True, slots=True)
class LiteMedSamFrame(Padded):
    """The long side fills 256 pixels, values are stretched to 0..1, the rest is zero."""

    side: int = 256

    @property
    def scale(self) -> tuple[float, float]:
        """One factor for both axes: sizes are rounded, places are not."""
        factor = self.side / max(self.shape)
        return factor, factor

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        resized = antialiased(channels(pixels, device), self.inside)
        return padded(_stretched(resized), self.side)


@dataclass(frozen=True, slots=True)
class MedSamFrame(Squeezed):
    """The slice fills 1024 x 1024 by bicubic curves, and values are stretched to 0..1."""

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        import cv2

        size = (self.side, self.side)
        values: npt.NDArray[np.float32] = np.ascontiguousarray(pixels, dtype=np.float32)
        if np.ptp(values) == 0:  # the curves' rounding would be stretched to full contrast
            return torch.zeros((1, 3, *size), device=device)
        resized = np.asarray(cv2.resize(values, size, interpolation=cv2.INTER_CUBIC))
        return _stretched(channels(resized, device))

    def leave(self, logits: Tensor) -> Tensor:
        """Probabilities less a half: this kind is enlarged after the sigmoid."""
        return bilinear(logits.float().sigmoid(), self.shape) - 0.5


@dataclass(frozen=True, slots=True)
class SamMed2dFrame(Squeezed):
    """The slice fills 256 x 256 by nearest neighbours, after SAM's normalisation."""

    side: int = 256

    def enter(self, pixels: Pixels, device: torch.device) -> Tensor:
        normal = normalised(channels(pixels, device), MEAN, DEVIATION)
        return F.interpolate(normal, (self.side, self.side), mode="nearest")

    def leave(self, logits: Tensor) -> Tensor:
        return bilinear(bilinear(logits, (self.side, self.side)), self.shape)

    def enlargement(self, low: tuple[int, int]) -> Enlargement:
        return Enlargement(low, self.shape, self.side, (self.side, self.side))


def _stretched(x: Tensor) -> Tensor:
    """Smallest value to 0, largest to 1."""
    low, high = x.amin(), x.amax()
    return (x - low) / (high - low).clamp(min=1e-8)


_BUILT: Mapping[
    str, tuple[Callable[[], nn.Module], int, int, Callable[[tuple[int, int]], Frame]]
] = {
    "litemedsam": (lambda: TinyVit(fine=True), 256, 64, LiteMedSamFrame),
    "medsam": (SamVit, 1024, 64, MedSamFrame),
    "sam-med2d": (lambda: SamVit(256, adapters=True), 256, 16, SamMed2dFrame),
}
"""Encoder, sides of the square and of the grid, and frame of each kind."""


class MedicalNetwork(SamNetwork):
    """An image encoder before the first SAM's prompt encoder and mask decoder."""

    def __init__(self, kind: str, device: str = "cpu", dtype: str = "float32") -> None:
        encoder, side, grid, self._frame = _BUILT[kind]
        super().__init__(encoder(), side, device=device, dtype=dtype, grid=grid)

    def frame(self, shape: tuple[int, int]) -> Frame:
        return self._frame(shape)


class ScribbleUNet(nn.Module):
    """Five channels `(B, 5, side, side)` to logits `(B, 1, side, side)`."""

    def __init__(self, width: int = 192, levels: int = 4) -> None:
        super().__init__()
        self.downs = nn.ModuleList([_layer(5 if i == 0 else width, width) for i in range(levels)])
        # Odd places only: the checkpoint counts the enlargements between them.
        self.ups = nn.ModuleList(
            [nn.Identity() if i % 2 == 0 else _layer(2 * width, width) for i in range(2 * levels)]
        )
        self.bottleneck = _layer(width, width)
        self.final_conv = _layer(width, 1, side=1, active=False)

    def forward(self, x: Tensor) -> Tensor:
        across: list[Tensor] = []
        for layer in self.downs:
            across.append(layer(x))
            x = F.max_pool2d(across[-1], 2)
        x = self.bottleneck(x)
        for layer, skipped in zip(self.ups[1::2], reversed(across), strict=True):
            larger = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
            x = layer(torch.cat([skipped, larger], dim=1))
        return self.final_conv(x)


def _layer(width: int, out: int, side: int = 3, active: bool = True) -> nn.Sequential:
    """A convolution, and a PReLU with one slope for all channels."""
    convolution = nn.Conv2d(width, out, side, padding=side // 2)
    return named(conv=nn.Sequential(convolution, *([nn.PReLU()] if active else [])))

"""ScribblePrompt's U-Net: four levels of one convolution each, all of one width."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["ScribbleUNet"]


class ScribbleUNet(nn.Module):
    """Five channels `(B, 5, side, side)` to logits `(B, 1, side, side)`."""

    def __init__(self, width: int = 192, levels: int = 4) -> None:
        super().__init__()
        self.downs = nn.ModuleList([_Layer(5 if i == 0 else width, width) for i in range(levels)])
        # Odd places only: the checkpoint counts the enlargements between them.
        self.ups = nn.ModuleList(
            [nn.Identity() if i % 2 == 0 else _Layer(2 * width, width) for i in range(2 * levels)]
        )
        self.bottleneck = _Layer(width, width)
        self.final_conv = _Layer(width, 1, side=1, active=False)

    def forward(self, x: Tensor) -> Tensor:
        across: list[Tensor] = []
        for layer in self.downs:
            across.append(layer(x))
            x = F.max_pool2d(across[-1], 2)
        x = self.bottleneck(x)
        for layer, skipped in zip(self.ups[1::2], reversed(across), strict=True):
            larger = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
            x = layer(torch.cat([skipped, larger], dim=1))
        out: Tensor = self.final_conv(x)
        return out


class _Layer(nn.Module):
    """A convolution, and a PReLU with one slope for all channels."""

    def __init__(self, width: int, out: int, side: int = 3, active: bool = True) -> None:
        super().__init__()
        parts: list[nn.Module] = [nn.Conv2d(width, out, side, padding=side // 2)]
        self.conv = nn.Sequential(*parts, *([nn.PReLU()] if active else []))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return out

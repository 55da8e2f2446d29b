"""U2-Net-P: nested U-shaped blocks that find what stands out in an image (Qin et al. 2020)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_INNER, _OUTER = 16, 64


class U2NetP(nn.Module):
    """The small U2-Net; keys as in the original checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        heights = (7, 6, 5, 4)
        for i, height in enumerate(heights):
            self.add_module(f"stage{i + 1}", _Block(3 if i == 0 else _OUTER, height))
            self.add_module(f"stage{i + 1}d", _Block(2 * _OUTER, height))
        for name, before in (("stage5", _OUTER), ("stage6", _OUTER), ("stage5d", 2 * _OUTER)):
            self.add_module(name, _FlatBlock(before))
        for i in range(6):
            self.add_module(f"side{i + 1}", nn.Conv2d(_OUTER, 1, 3, padding=1))
        self.outconv = nn.Conv2d(6, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The fused saliency `(B, 1, H, W)`, 0..1, of a normalised image `(B, 3, H, W)`."""
        size = x.shape[-2:]
        stages: list[Tensor] = []
        for i in range(1, 7):
            if i > 1:
                x = F.max_pool2d(x, 2, stride=2, ceil_mode=True)
            x = getattr(self, f"stage{i}")(x)
            stages.append(x)
        ways = [stages[5]]
        for i in range(5, 0, -1):
            up = _like(ways[0], stages[i - 1])
            ways.insert(0, getattr(self, f"stage{i}d")(torch.cat([up, stages[i - 1]], dim=1)))
        sides = []
        for i, way in enumerate(ways):
            side = getattr(self, f"side{i + 1}")(way)
            sides.append(F.interpolate(side, size=size, mode="bilinear", align_corners=False))
        return torch.sigmoid(self.outconv(torch.cat(sides, dim=1)))


class _Conv(nn.Module):
    def __init__(self, before: int, width: int, dilation: int = 1) -> None:
        super().__init__()
        self.conv_s1 = nn.Conv2d(before, width, 3, padding=dilation, dilation=dilation)
        self.bn_s1 = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn_s1(self.conv_s1(x)))


class _Block(nn.Module):
    """A U of a given height inside a residual path."""

    def __init__(self, before: int, height: int) -> None:
        super().__init__()
        self.height = height
        self.rebnconvin = _Conv(before, _OUTER)
        for i in range(1, height):
            self.add_module(f"rebnconv{i}", _Conv(_OUTER if i == 1 else _INNER, _INNER))
            out = _OUTER if i == 1 else _INNER
            self.add_module(f"rebnconv{i}d", _Conv(2 * _INNER, out))
        self.add_module(f"rebnconv{height}", _Conv(_INNER, _INNER, dilation=2))

    def forward(self, x: Tensor) -> Tensor:
        start: Tensor = self.rebnconvin(x)
        down, kept = start, []
        for i in range(1, self.height):
            if i > 1:
                down = F.max_pool2d(down, 2, stride=2, ceil_mode=True)
            down = getattr(self, f"rebnconv{i}")(down)
            kept.append(down)
        up: Tensor = getattr(self, f"rebnconv{self.height}")(down)
        for i in range(self.height - 1, 0, -1):
            up = _like(up, kept[i - 1])
            up = getattr(self, f"rebnconv{i}d")(torch.cat([up, kept[i - 1]], dim=1))
        return up + start


class _FlatBlock(nn.Module):
    """The same without shrinking: wider and wider strides instead."""

    def __init__(self, before: int) -> None:
        super().__init__()
        self.rebnconvin = _Conv(before, _OUTER)
        self.rebnconv1 = _Conv(_OUTER, _INNER)
        self.rebnconv2 = _Conv(_INNER, _INNER, 2)
        self.rebnconv3 = _Conv(_INNER, _INNER, 4)
        self.rebnconv4 = _Conv(_INNER, _INNER, 8)
        self.rebnconv3d = _Conv(2 * _INNER, _INNER, 4)
        self.rebnconv2d = _Conv(2 * _INNER, _INNER, 2)
        self.rebnconv1d = _Conv(2 * _INNER, _OUTER)

    def forward(self, x: Tensor) -> Tensor:
        start = self.rebnconvin(x)
        one = self.rebnconv1(start)
        two = self.rebnconv2(one)
        three = self.rebnconv3(two)
        up = self.rebnconv3d(torch.cat([self.rebnconv4(three), three], dim=1))
        up = self.rebnconv2d(torch.cat([up, two], dim=1))
        return cast(Tensor, self.rebnconv1d(torch.cat([up, one], dim=1)) + start)


def _like(x: Tensor, other: Tensor) -> Tensor:
    if x.shape[-2:] == other.shape[-2:]:
        return x
    return F.interpolate(x, size=other.shape[-2:], mode="bilinear", align_corners=False)

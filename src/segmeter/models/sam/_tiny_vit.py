"""TinyViT-5M, the image encoder of MobileSAM, HQ-SAM light and LiteMedSAM.

Written from the papers of TinyViT (arXiv 2207.10666) and MobileSAM (2306.14289); parameter
names are those of MobileSAM's checkpoint. The classifier it also holds is left out.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from segmeter.models.sam._vit import vit_neck

__all__ = ["TinyVit"]

_WIDTHS = (64, 128, 160, 320)
_DEPTHS = (2, 2, 6, 2)
_WINDOWS = (7, 7, 14, 7)
_HEAD_WIDTH = 32


class TinyVit(nn.Module):
    """An image `(B, 3, 1024, 1024)` to its embedding `(B, 256, 64, 64)`.

    LiteMedSAM's is `fine`: its first two convolutions see one pixel each and halve nothing,
    so that 256 pixels a side give 64 cells too.
    """

    def __init__(self, *, fine: bool = False) -> None:
        super().__init__()
        self.patch_embed = _PatchEmbedding(_WIDTHS[0], fine)
        self.layers = nn.ModuleList([_Stage(i) for i in range(4)])
        self.neck = vit_neck(_WIDTHS[-1], 256)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.features(pixels)[0]

    def features(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """The embedding, and SAM-HQ's early features: the second stage's `(B, 160, h, w)`."""
        x = self.patch_embed(pixels)
        early = x
        for number, stage in enumerate(self.layers):
            x = stage(x)
            early = x if number == 1 else early
        return self.neck(x.permute(0, 3, 1, 2)), early.permute(0, 3, 1, 2)


class _ConvNorm(nn.Module):
    """Convolution without bias, then batch norm."""

    def __init__(self, width: int, out: int, side: int = 1, stride: int = 1, groups: int = 1):
        super().__init__()
        self.c = nn.Conv2d(width, out, side, stride, side // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(out)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.bn(self.c(x))
        return out


class _PatchEmbedding(nn.Module):
    """Two strided convolutions: a quarter of the resolution, or all of it where it is fine."""

    def __init__(self, width: int, fine: bool) -> None:
        super().__init__()
        side, stride = (1, 1) if fine else (3, 2)
        self.seq = nn.Sequential(
            _ConvNorm(3, width // 2, side, stride),
            nn.GELU(),
            _ConvNorm(width // 2, width, side, stride),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.seq(x)
        return out


class _Stage(nn.Module):
    """Blocks of one width, then the way to the next; maps leave it with channels last."""

    def __init__(self, index: int) -> None:
        super().__init__()
        width = _WIDTHS[index]
        self.blocks = nn.ModuleList(
            [
                _ConvBlock(width) if index == 0 else _WindowBlock(width, _WINDOWS[index])
                for _ in range(_DEPTHS[index])
            ]
        )
        if index < 3:
            self.downsample = _Downsample(width, _WIDTHS[index + 1])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        if not hasattr(self, "downsample"):
            return x
        first = isinstance(self.blocks[0], _ConvBlock)
        out: Tensor = self.downsample(x if first else x.permute(0, 3, 1, 2))
        return out.permute(0, 2, 3, 1)


class _ConvBlock(nn.Module):
    """Widen, look around within each channel, narrow, add."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = 4 * width
        self.conv1 = _ConvNorm(width, inner)
        self.conv2 = _ConvNorm(inner, inner, 3, groups=inner)
        self.conv3 = _ConvNorm(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        inner = F.gelu(self.conv2(F.gelu(self.conv1(x))))
        return F.gelu(x + self.conv3(inner))


class _Downsample(nn.Module):
    """Half the resolution, but for the last stage, which keeps it."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        stride = 1 if out == _WIDTHS[-1] else 2
        self.conv1 = _ConvNorm(width, out)
        self.conv2 = _ConvNorm(out, out, 3, stride, groups=out)
        self.conv3 = _ConvNorm(out, out)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv3(F.gelu(self.conv2(F.gelu(self.conv1(x)))))
        return out


class _WindowBlock(nn.Module):
    """Attention within windows, a convolution within each channel, a perceptron.

    Maps are `(B, H, W, C)`.
    """

    def __init__(self, width: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.attn = _WindowAttention(width, window)
        self.mlp = _Perceptron(width)
        self.local_conv = _ConvNorm(width, width, 3, groups=width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._attend(x)
        # The convolution replaces the map; it is not added to it.
        x = self.local_conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        out: Tensor = x + self.mlp(x)
        return out

    def _attend(self, x: Tensor) -> Tensor:
        """Windows reach past the image; what they find there are zeros, and they count."""
        batch, height, width, channels = x.shape
        side = self.window
        padded = F.pad(x, (0, 0, 0, -width % side, 0, -height % side))
        rows, columns = padded.shape[1] // side, padded.shape[2] // side
        cut = padded.reshape(batch, rows, side, columns, side, channels).transpose(2, 3)
        mixed = self.attn(cut.reshape(-1, side * side, channels))
        back = mixed.reshape(batch, rows, columns, side, side, channels).transpose(2, 3)
        whole: Tensor = back.reshape(padded.shape)[:, :height, :width]
        return whole


class _WindowAttention(nn.Module):
    """Attention with a learned bias for each distance `(|dy|, |dx|)`."""

    distance: Tensor

    def __init__(self, width: int, window: int) -> None:
        super().__init__()
        self.heads = width // _HEAD_WIDTH
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.attention_biases = nn.Parameter(torch.zeros(self.heads, window * window))
        y, x = np.indices((window, window)).reshape(2, -1)
        distance = window * abs(y[:, None] - y) + abs(x[:, None] - x)
        self.register_buffer("distance", torch.from_numpy(distance), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        windows, cells, width = x.shape
        mixed = self.qkv(self.norm(x)).reshape(windows, cells, self.heads, 3 * _HEAD_WIDTH)
        query, key, value = mixed.transpose(1, 2).split(_HEAD_WIDTH, dim=-1)
        bias = self.attention_biases[:, self.distance]
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        out: Tensor = self.proj(seen.transpose(1, 2).reshape(windows, cells, width))
        return out


class _Perceptron(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(F.gelu(self.fc1(self.norm(x))))
        return out

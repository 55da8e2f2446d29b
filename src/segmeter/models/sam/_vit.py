"""The vision transformer of SAM, SAM-HQ and MedSAM, plain or with SAM-Med2D's adapters.

Written from the papers of SAM (arXiv 2304.02643) and SAM-Med2D (2308.16184); parameter names
are those of the authors' checkpoints.

TinyViT-5M, the image encoder of MobileSAM, HQ-SAM light and LiteMedSAM.

Written from the papers of TinyViT (arXiv 2207.10666) and MobileSAM (2306.14289); parameter
names are those of MobileSAM's checkpoint. The classifier it also holds is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from segmeter.models.sam._decoder import ChannelNorm

_PATCH = 16
_WINDOW = 14


class SamVit(nn.Module):
    """An image `(B, 3, side, side)` to its embedding `(B, 256, side / 16, side / 16)`.

    Attention within windows of 14 cells a side, except in the blocks in `everywhere`.
    """

    def __init__(
        self,
        side: int = 1024,
        width: int = 768,
        depth: int = 12,
        heads: int = 12,
        everywhere: tuple[int, ...] = (2, 5, 8, 11),
        adapters: bool = False,
    ) -> None:
        super().__init__()
        cells = side // _PATCH
        self.patch_embed = _Patches(width)
        self.pos_embed = nn.Parameter(torch.zeros(1, cells, cells, width))
        self.blocks = nn.ModuleList(
            [
                _Block(
                    width, heads, cells if i in everywhere else _WINDOW, i in everywhere, adapters
                )
                for i in range(depth)
            ]
        )
        self.neck = vit_neck(width, 256)
        self._early = everywhere[0]

    @classmethod
    def sized(cls, sizes: Mapping[str, tuple[int, ...]]) -> Self:
        """The encoder that has parameters of these shapes, by their names in this class."""
        cells, width = sizes["pos_embed"][1], sizes["pos_embed"][-1]
        codes = {k.split(".")[1]: v for k, v in sizes.items() if k.endswith(".rel_pos_h")}
        whole = sorted(int(n) for n, shape in codes.items() if shape[0] == 2 * cells - 1)
        heads = width // codes.get("0", (0, 64))[1]
        return cls(cells * _PATCH, width, len(codes), heads, tuple(whole))

    def forward(self, pixels: Tensor) -> Tensor:
        return self.features(pixels)[0]

    def features(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """The embedding, and SAM-HQ's early features: the first global block's `(B, C, h, w)`."""
        x = self.patch_embed(pixels) + self.pos_embed
        early = x
        for number, block in enumerate(self.blocks):
            x = block(x)
            early = x if number == self._early else early
        return self.neck(x.permute(0, 3, 1, 2)), early.permute(0, 3, 1, 2)


class _Patches(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, _PATCH, _PATCH)

    def forward(self, pixels: Tensor) -> Tensor:
        out: Tensor = self.proj(pixels).permute(0, 2, 3, 1)
        return out


class _Block(nn.Module):
    """Attention, then a perceptron with a parallel adapter; maps are `(B, H, W, C)`."""

    def __init__(self, width: int, heads: int, reach: int, whole: bool, adapter: bool) -> None:
        super().__init__()
        self.whole, self.reach = whole, reach
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = _Attention(width, heads, reach)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = VitPerceptron(width)
        if adapter:
            self.Adapter = _Adapter(width)

    def forward(self, x: Tensor) -> Tensor:
        normal = self.norm1(x)
        x = x + (self.attn(normal) if self.whole else in_windows(normal, self.reach, self.attn))
        normal = self.norm2(x)
        out: Tensor = x + self.mlp(normal)
        return out + self.Adapter(normal) if hasattr(self, "Adapter") else out


class _Attention(nn.Module):
    """Attention with learned codes of the distance in rows and in columns."""

    def __init__(self, width: int, heads: int, reach: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.rel_pos_h = nn.Parameter(torch.zeros(2 * reach - 1, width // heads))
        self.rel_pos_w = nn.Parameter(torch.zeros(2 * reach - 1, width // heads))

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        mixed = self.qkv(x).reshape(batch, height * width, 3, self.heads, -1)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        bias = self._distances(query, height, width)
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        out: Tensor = self.proj(seen.transpose(1, 2).reshape(batch, height, width, channels))
        return out

    def _distances(self, query: Tensor, height: int, width: int) -> Tensor:
        """Bias for each pair of cells, `(B, heads, cells, cells)`; query unscaled."""
        places = query.reshape(*query.shape[:2], height, width, -1)
        rows = torch.einsum("bnhwc,hkc->bnhwk", places, distance_codes(self.rel_pos_h, height))
        columns = torch.einsum("bnhwc,wkc->bnhwk", places, distance_codes(self.rel_pos_w, width))
        whole = rows[..., :, None] + columns[..., None, :]
        return whole.reshape(*query.shape[:3], height * width)


class _Adapter(nn.Module):
    """SAM-Med2D's: channels weighed, a look around at half the resolution, normalised."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.channel = nn.Sequential(
            nn.Linear(width, width // 4, bias=False),
            nn.ReLU(),
            nn.Linear(width // 4, width, bias=False),
            nn.Sigmoid(),
        )
        self.spatial = nn.Sequential(
            nn.Conv2d(width, width, 3, 2, 1, bias=False),
            nn.ReLU(),
            nn.ConvTranspose2d(width, width, 4, 2, 1, bias=False),
            nn.ReLU(),
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        weighed = self.channel(x.mean((1, 2)))[:, None, None] * x
        around = self.spatial(weighed.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        out: Tensor = self.norm(x + around)
        return out


class VitPerceptron(nn.Module):
    """Two layers with GELU between, four times as wide inside."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lin1 = nn.Linear(width, 4 * width)
        self.lin2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.lin2(F.gelu(self.lin1(x)))
        return out


def vit_neck(
    width: int,
    out: int,
    convolution: type[nn.Conv2d | nn.Conv3d] = nn.Conv2d,
    norm: Callable[[int], nn.Module] = ChannelNorm,
) -> nn.Sequential:
    """The layers that make an embedding of the last block's map, in either dimension."""
    return nn.Sequential(
        convolution(width, out, 1, bias=False),
        norm(out),
        convolution(out, out, 3, padding=1, bias=False),
        norm(out),
    )


def in_windows(x: Tensor, side: int, attend: Callable[[Tensor], Tensor]) -> Tensor:
    """A map `(B, H, W, C)` attended window by window `(n, side, side, C)`.

    Windows reach past the image; what they find there are zeros, and they count.
    """
    batch, height, width, channels = x.shape
    padded = F.pad(x, (0, 0, 0, -width % side, 0, -height % side))
    rows, columns = padded.shape[1] // side, padded.shape[2] // side
    cut = padded.reshape(batch, rows, side, columns, side, channels).transpose(2, 3)
    mixed = attend(cut.reshape(-1, side, side, channels))
    back = mixed.reshape(batch, rows, columns, side, side, channels).transpose(2, 3)
    return back.reshape(padded.shape)[:, :height, :width]


def distance_codes(codes: Tensor, side: int) -> Tensor:
    """The code of each distance, `(side, side, C)`, query first."""
    places = torch.arange(side, device=codes.device)
    return codes[places[:, None] - places[None] + side - 1]


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
        x = x + in_windows(x, self.window, lambda cut: self.attn(cut.flatten(1, 2)))
        # The convolution replaces the map; it is not added to it.
        x = self.local_conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        out: Tensor = x + self.mlp(x)
        return out


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

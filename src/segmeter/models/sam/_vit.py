"""Vision transformers: SAM's, for images and cubes, and TinyViT-5M.

The blocks serve SAM, SAM-HQ, MedSAM, SAM-Med2D (with adapters), SAM-Med3D, SegVol and SimpleClick;
TinyViT is the image encoder of MobileSAM, HQ-SAM light and LiteMedSAM.

Written from the papers of SAM (arXiv 2304.02643), SAM-Med2D (2308.16184), TinyViT (2207.10666) and
MobileSAM (2306.14289); parameter names are those of the authors' checkpoints. The classifier in
MobileSAM's is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from segmeter.core.errors import BadWeights
from segmeter.models.sam._decoder import ChannelNorm, channels_first, channels_last, named

_PATCH = 16
_WINDOW = 14


class SamVit(nn.Module):
    """An image `(B, 3, side, side)` to its embedding `(B, 256, side / 16, side / 16)`.

    Attention within windows of 14 cells a side, except in the blocks in `everywhere`. With the axes
    `dhw` it takes cubes of one channel.
    """

    def __init__(
        self,
        side: int = 1024,
        width: int = 768,
        depth: int = 12,
        heads: int = 12,
        everywhere: tuple[int, ...] = (2, 5, 8, 11),
        adapters: bool = False,
        axes: str = "hw",
        out: int = 256,
    ) -> None:
        super().__init__()
        cells, flat = side // _PATCH, len(axes) == 2
        convolution = nn.Conv2d if flat else nn.Conv3d
        self.patch_embed = named(proj=convolution(3 if flat else 1, width, _PATCH, _PATCH))
        self.pos_embed = nn.Parameter(torch.zeros(1, *[cells] * len(axes), width))
        reaches = [cells if i in everywhere else _WINDOW for i in range(depth)]
        self.blocks = nn.ModuleList([VitBlock(width, heads, reach, axes) for reach in reaches])
        for block in self.blocks if adapters else ():
            block.Adapter = _Adapter(width)
        self.neck = _neck(width, out, convolution)
        self._everywhere, self._windows = everywhere, (_WINDOW,) * len(axes)

    @classmethod
    def sized(cls, sizes: Mapping[str, tuple[int, ...]]) -> Self:
        """The encoder of a checkpoint with tensors of these shapes, in any layout."""
        try:
            places = next(v for k, v in sizes.items() if k.endswith("encoder.pos_embed"))
            _, cells, _, width = places
            codes = {k.split(".")[-3]: v for k, v in sizes.items() if k.endswith(".rel_pos_h")}
            whole = sorted(int(n) for n, shape in codes.items() if shape[0] == 2 * cells - 1)
            heads = width // codes.get("0", (0, 64))[1]
        except (LookupError, ValueError, ArithmeticError) as error:
            raise BadWeights(f"no encoder of a SAM has tensors of these shapes: {error}") from error
        return cls(cells * _PATCH, width, len(codes), heads, tuple(whole))

    def forward(self, pixels: Tensor) -> Tensor:
        return self.features(pixels)[0]

    def features(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """The embedding, and SAM-HQ's early features: the first global block's `(B, C, h, w)`."""
        early = x = channels_last(self.patch_embed(pixels)) + self.pos_embed
        for number, block in enumerate(self.blocks):
            x = block(x, None if number in self._everywhere else self._windows)
            early = x if number == self._everywhere[0] else early
        return self.neck(channels_first(x)), channels_first(early)


class VitBlock(nn.Module):
    """Attention, then a perceptron with a parallel adapter; maps are `(B, H, W, C)`.

    Relative positions up to `reach`; 0 for none. `layers` are the names of
    the perceptron's two layers.
    """

    Adapter: nn.Module  # SAM-Med2D's

    def __init__(
        self,
        width: int,
        heads: int,
        reach: int = 0,
        axes: str = "hw",
        layers: tuple[str, str] = ("lin1", "lin2"),
        eps: float = 1e-6,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=eps)
        self.norm2 = nn.LayerNorm(width, eps=eps)
        self.attn = VitAttention(width, heads, reach, axes, bias)
        self.mlp = two_layers(width, *layers)

    def forward(self, x: Tensor, windows: Sequence[int] | None) -> Tensor:
        """Attention is within windows of these sides, or everywhere."""
        normal = self.norm1(x)
        x = x + (in_windows(normal, windows, self.attn) if windows else self.attn(normal))
        normal = self.norm2(x)
        out = x + self.mlp(normal)
        return out + self.Adapter(normal) if hasattr(self, "Adapter") else out


class VitAttention(nn.Module):
    """Attention in maps `(B, ..., C)`, with learned codes of the distance along each axis."""

    def __init__(self, width: int, heads: int, reach: int, axes: str, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.axes = heads, axes if reach else ""
        self.qkv = nn.Linear(width, 3 * width, bias)
        self.proj = nn.Linear(width, width)
        for axis in self.axes:
            codes = nn.Parameter(torch.zeros(2 * reach - 1, width // heads))
            self.register_parameter(f"rel_pos_{axis}", codes)

    def forward(self, x: Tensor) -> Tensor:
        batch, *sizes, _ = x.shape
        mixed = self.qkv(x).reshape(batch, math.prod(sizes), 3, self.heads, -1)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        bias = self._distances(query, sizes) if self.axes else None
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return self.proj(seen.transpose(1, 2).reshape(x.shape))

    def _distances(self, query: Tensor, sizes: Sequence[int]) -> Tensor:
        """Bias for each pair of cells, `(B, heads, cells, cells)`; query unscaled."""
        places = query.reshape(*query.shape[:2], *sizes, -1)
        whole: Tensor | None = None
        for number, (axis, side) in enumerate(zip(self.axes, sizes, strict=True)):
            numbers = torch.arange(side, device=query.device)
            apart = numbers[:, None] - numbers[None] + side - 1
            codes = self.get_parameter(f"rel_pos_{axis}")[apart]  # (side, side, C), query first
            far = torch.einsum(f"bn{self.axes}c,{axis}kc->bn{self.axes}k", places, codes)
            # Else the sum takes over einsum's order of axes, and is copied to be reshaped.
            far = far.contiguous()
            far = far[(..., *(slice(None) if k == number else None for k in range(len(sizes))))]
            whole = far if whole is None else whole + far
        assert whole is not None
        return whole.reshape(*query.shape[:3], query.shape[2])


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
        return self.norm(x + around)


def two_layers(width: int, first: str, second: str, **before: nn.Module) -> nn.Sequential:
    """Two layers with GELU between, four times as wide inside, after what comes `before`."""
    layers = {first: nn.Linear(width, 4 * width), "act": nn.GELU()}
    return named(**before, **layers, **{second: nn.Linear(4 * width, width)})


def _neck(width: int, out: int, convolution: type[nn.Conv2d | nn.Conv3d]) -> nn.Sequential:
    """The layers that make an embedding of the last block's map, in either dimension."""
    return nn.Sequential(
        convolution(width, out, 1, bias=False),
        ChannelNorm(out),
        convolution(out, out, 3, padding=1, bias=False),
        ChannelNorm(out),
    )


def in_windows(x: Tensor, sides: Sequence[int], attend: Callable[[Tensor], Tensor]) -> Tensor:
    """A map `(B, ..., C)` attended window by window `(n, *sides, C)`, which may halve its sides.

    Windows reach past the map, where zeros are padded, which count.
    """
    batch, *sizes, channels = x.shape
    pads = [p for n, side in zip(sizes[::-1], sides[::-1], strict=True) for p in (0, -n % side)]
    padded = F.pad(x, (0, 0, *pads))
    counts = [n // side for n, side in zip(padded.shape[1:-1], sides, strict=True)]
    pairs = [n for pair in zip(counts, sides, strict=True) for n in pair]
    dims, axes = len(sides), range(1, 2 * len(sides) + 1)
    cut = padded.reshape(batch, *pairs, channels)
    cut = cut.permute(0, *axes[::2], *axes[1::2], 2 * dims + 1)
    mixed = attend(cut.reshape(-1, *sides, channels))
    inner = mixed.shape[1:-1]
    back = mixed.reshape(batch, *counts, *inner, -1)
    order = [axis for pair in zip(axes[:dims], axes[dims:], strict=True) for axis in pair]
    back = back.permute(0, *order, 2 * dims + 1)
    whole = back.reshape(batch, *(n * m for n, m in zip(counts, inner, strict=True)), -1)
    kept = (n * m // side for n, m, side in zip(sizes, inner, sides, strict=True))
    return whole[(slice(None), *(slice(n) for n in kept))]


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
        width, (side, stride) = _WIDTHS[0], (1, 1) if fine else (3, 2)
        first = _normed(3, width // 2, side, stride)
        second = _normed(width // 2, width, side, stride)
        self.patch_embed = named(seq=nn.Sequential(first, nn.GELU(), second))
        self.layers = nn.ModuleList([_Stage(i) for i in range(4)])
        self.neck = _neck(_WIDTHS[-1], 256, nn.Conv2d)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.features(pixels)[0]

    def features(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """The embedding, and SAM-HQ's early features: the second stage's `(B, 160, h, w)`."""
        early = x = self.patch_embed(pixels)
        for number, stage in enumerate(self.layers):
            x = stage(x)
            early = x if number == 1 else early
        return self.neck(channels_first(x)), channels_first(early)


def _normed(width: int, out: int, side: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(width, out, side, stride, side // 2, groups=groups, bias=False)
    return named(c=convolution, bn=nn.BatchNorm2d(out))


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
            # Half the resolution, but for the last stage, which keeps it.
            out, stride = _WIDTHS[index + 1], 1 if index == 2 else 2
            self.downsample = named(
                conv1=_normed(width, out),
                act1=nn.GELU(),
                conv2=_normed(out, out, 3, stride, groups=out),
                act2=nn.GELU(),
                conv3=_normed(out, out),
            )

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        if not hasattr(self, "downsample"):
            return x
        first = isinstance(self.blocks[0], _ConvBlock)
        return self.downsample(x if first else x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


class _ConvBlock(nn.Module):
    """Widen, look around within each channel, narrow, add."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = 4 * width
        self.conv1 = _normed(width, inner)
        self.conv2 = _normed(inner, inner, 3, groups=inner)
        self.conv3 = _normed(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        inner = F.gelu(self.conv2(F.gelu(self.conv1(x))))
        return F.gelu(x + self.conv3(inner))


class _WindowBlock(nn.Module):
    """Attention within windows, a convolution within each channel, a perceptron.

    Maps are `(B, H, W, C)`.
    """

    def __init__(self, width: int, window: int) -> None:
        super().__init__()
        self.windows = (window, window)
        self.attn = _WindowAttention(width, window)
        self.mlp = two_layers(width, "fc1", "fc2", norm=nn.LayerNorm(width))
        self.local_conv = _normed(width, width, 3, groups=width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + in_windows(x, self.windows, self.attn)
        # The convolution replaces the map; it is not added to it.
        x = self.local_conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return x + self.mlp(x)


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
        mixed = self.qkv(self.norm(x.flatten(1, 2)))
        mixed = mixed.unflatten(2, (self.heads, 3 * _HEAD_WIDTH)).transpose(1, 2)
        query, key, value = mixed.split(_HEAD_WIDTH, dim=-1)
        bias = self.attention_biases[:, self.distance]
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return self.proj(seen.transpose(1, 2).reshape(x.shape))

"""SimpleClick's network: a plain ViT with windows, a simple pyramid and an all-MLP head."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from segmeter.core.errors import BadInput
from segmeter.models.clicknets.containers import SimpleClick
from segmeter.models.clicknets.zoom import normalised

_WINDOW_PX = 224


class _Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, dim = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3, self.heads, dim // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v)
        out: Tensor = self.proj(seen.transpose(1, 2).reshape(batch, tokens, dim))
        return out


class _Mlp(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(F.gelu(self.fc1(x)))
        return out


class _Block(nn.Module):
    """A transformer block; its attention is windowed on request."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = _Attention(dim, heads)
        self.mlp = _Mlp(dim)

    def forward(self, x: Tensor, grid: tuple[int, int], windows: tuple[int, int]) -> Tensor:
        y = _into_windows(self.norm1(x), grid, windows)
        x = x + _out_of_windows(self.attn(y), grid, windows)
        out: Tensor = x + self.mlp(self.norm2(x))
        return out


def _into_windows(x: Tensor, grid: tuple[int, int], windows: tuple[int, int]) -> Tensor:
    """`(B, tokens, D)` to `(B * windows, tokens of a window, D)`, row by row."""
    (rows, columns), (down, across) = grid, windows
    parts = x.view(x.shape[0], down, rows // down, across, columns // across, x.shape[2])
    return parts.transpose(2, 3).reshape(-1, rows // down * (columns // across), x.shape[2])


def _out_of_windows(x: Tensor, grid: tuple[int, int], windows: tuple[int, int]) -> Tensor:
    (rows, columns), (down, across) = grid, windows
    parts = x.view(-1, down, across, rows // down, columns // across, x.shape[2])
    return parts.transpose(2, 3).reshape(-1, rows * columns, x.shape[2])


class _Patches(nn.Module):
    """Each patch of the input as one token, row by row."""

    def __init__(self, patch: int, dim: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, stride=patch)

    def forward(self, x: Tensor) -> Tensor:
        tokens: Tensor = self.proj(x).flatten(2).transpose(1, 2)
        return tokens


class _Backbone(nn.Module):
    def __init__(self, shape: SimpleClick) -> None:
        super().__init__()
        self.patch, self.depth = shape.patch, shape.depth
        self.grid = (shape.image // shape.patch, shape.image // shape.patch)
        dim = shape.dim
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, self.grid[0] * self.grid[1] + 1, dim))
        self.patch_embed = _Patches(shape.patch, dim)
        self.blocks = nn.ModuleList(_Block(dim, shape.heads) for _ in range(shape.depth))
        self.fc_norm = nn.LayerNorm(dim, eps=1e-6)  # left from pre-training, as is the head
        self.head = nn.Linear(dim, 1000)

    def forward(self, image: Tensor, clicks: Tensor) -> Tensor:
        grid = (image.shape[-2] // self.patch, image.shape[-1] // self.patch)
        windows = self._windows(grid)
        x: Tensor = self.patch_embed(image) + clicks + self.positions(grid)
        every = 6 if self.depth == 12 else self.depth // 4
        for number, block in enumerate(self.blocks, start=1):
            x = block(x, grid, windows if number % every else (1, 1))
        return x.transpose(1, 2).reshape(x.shape[0], -1, *grid)

    def positions(self, grid: tuple[int, int]) -> Tensor:
        """The position embedding of a grid, bicubic when it is not the trained one."""
        learnt = self.pos_embed[:, 1:]
        if grid == self.grid:
            return learnt
        table = learnt.transpose(1, 2).reshape(1, -1, *self.grid)
        resized = F.interpolate(table, size=grid, mode="bicubic", align_corners=False)
        return resized.flatten(2).transpose(1, 2)

    def _windows(self, grid: tuple[int, int]) -> tuple[int, int]:
        side = _WINDOW_PX // self.patch
        down, across = grid[0] // side, grid[1] // side
        if down < 1 or across < 1 or grid[0] % down or grid[1] % across:
            raise BadInput(
                f"SimpleClick cannot cut a grid of {grid[0]} x {grid[1]} patches into windows; "
                f"use a zoom target whose sides are multiples of {_WINDOW_PX}"
            )
        return down, across


class _Norm(nn.GroupNorm):
    """Normalises over all channels and pixels of one image."""

    def __init__(self, channels: int) -> None:
        super().__init__(1, channels)


class _Neck(nn.Module):
    """One resolution made into four."""

    def __init__(self, dim: int, outs: tuple[int, int, int, int]) -> None:
        super().__init__()
        c4, c8, c32 = max(2 * outs[0], dim // 2), max(outs[1], dim // 2), max(outs[3], 2 * dim)
        self.down_4 = nn.Sequential(
            nn.ConvTranspose2d(dim, c4, 2, stride=2), _Norm(c4), nn.GELU(),
            nn.ConvTranspose2d(c4, c4 // 2, 2, stride=2), _Norm(c4 // 2),
            nn.Conv2d(c4 // 2, outs[0], 1), _Norm(outs[0]), nn.GELU(),
        )  # fmt: skip
        self.down_8 = nn.Sequential(
            nn.ConvTranspose2d(dim, c8, 2, stride=2), _Norm(c8),
            nn.Conv2d(c8, outs[1], 1), _Norm(outs[1]), nn.GELU(),
        )  # fmt: skip
        self.down_16 = nn.Sequential(nn.Conv2d(dim, outs[2], 1), _Norm(outs[2]), nn.GELU())
        self.down_32 = nn.Sequential(
            nn.Conv2d(dim, c32, 2, stride=2), _Norm(c32),
            nn.Conv2d(c32, outs[3], 1), _Norm(outs[3]), nn.GELU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.down_4(x), self.down_8(x), self.down_16(x), self.down_32(x)]


class _ConvRelu(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(x))


class _Head(nn.Module):
    def __init__(self, ins: tuple[int, int, int, int], channels: int) -> None:
        super().__init__()
        self.conv_seg = nn.Conv2d(channels, 1, 1)
        self.convs = nn.ModuleList(_ConvRelu(width, channels) for width in ins)
        self.fusion_conv = _ConvRelu(4 * channels, channels)
        # Every checkpoint holds these two; the released ones do not use them.
        self.up_conv1 = _double(channels)
        self.up_conv2 = _double(channels // 2)

    def forward(self, levels: list[Tensor]) -> Tensor:
        size = levels[0].shape[-2:]
        parts = [
            F.interpolate(conv(x), size=size, mode="bilinear", align_corners=False)
            for conv, x in zip(self.convs, levels, strict=True)
        ]
        out: Tensor = self.conv_seg(self.fusion_conv(torch.cat(parts, dim=1)))
        return out


def _double(channels: int) -> nn.Sequential:
    half = channels // 2
    return nn.Sequential(
        nn.ConvTranspose2d(channels, half, 2, stride=2), _Norm(half),
        nn.Conv2d(half, half, 1), _Norm(half),
    )  # fmt: skip


class SimpleClickNetwork(nn.Module):
    """Image `(B, 3, H, W)` in 0..1 and maps `(B, 3, H, W)` to logits `(B, 1, H, W)`."""

    with_previous = True

    def __init__(self, shape: SimpleClick) -> None:
        super().__init__()
        self.patch_embed_coords = _Patches(shape.patch, shape.dim)
        self.backbone = _Backbone(shape)
        self.neck = _Neck(shape.dim, shape.neck)
        self.head = _Head(shape.neck, shape.head)

    def forward(self, image: Tensor, maps: Tensor) -> Tensor:
        logits = self.small(image, maps)
        size = image.shape[-2:]
        return F.interpolate(logits, size=size, mode="bilinear", align_corners=True)

    def small(self, image: Tensor, maps: Tensor) -> Tensor:
        """The logits as the head gives them."""
        tokens = self.backbone(normalised(image), self.patch_embed_coords(maps))
        logits: Tensor = self.head(self.neck(tokens))
        return logits

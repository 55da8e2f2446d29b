"""SimpleClick's network: a plain ViT with windows, a simple pyramid and an all-MLP head."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from segmeter.core.errors import BadInput
from segmeter.models.clicknets._zoom import normalised
from segmeter.models.clicknets.containers import SimpleClick
from segmeter.models.sam._decoder import channels_first, channels_last, named
from segmeter.models.sam._vit import VitBlock

_WINDOW_PX = 224


class _Backbone(nn.Module):
    def __init__(self, shape: SimpleClick) -> None:
        super().__init__()
        self.patch, self.depth = shape.patch, shape.depth
        self.grid = (shape.image // shape.patch, shape.image // shape.patch)
        dim = shape.dim
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, self.grid[0] * self.grid[1] + 1, dim))
        self.patch_embed = named(proj=nn.Conv2d(3, dim, shape.patch, shape.patch))
        self.blocks = nn.ModuleList(
            VitBlock(dim, shape.heads, layers=("fc1", "fc2")) for _ in range(shape.depth)
        )
        self.fc_norm = nn.LayerNorm(dim, eps=1e-6)  # left from pre-training, as is the head
        self.head = nn.Linear(dim, 1000)

    def forward(self, image: Tensor, clicks: Tensor) -> Tensor:
        grid = (image.shape[-2] // self.patch, image.shape[-1] // self.patch)
        windows = self._windows(grid)
        x = channels_last(self.patch_embed(image) + clicks + self.positions(grid))
        every = 6 if self.depth == 12 else self.depth // 4
        for number, block in enumerate(self.blocks, start=1):
            x = block(x, windows if number % every else None)
        return channels_first(x)

    def positions(self, grid: tuple[int, int]) -> Tensor:
        """The position embedding of a grid, bicubic when it is not the trained one."""
        table = self.pos_embed[:, 1:].transpose(1, 2).reshape(1, -1, *self.grid)
        if grid == self.grid:
            return table
        return F.interpolate(table, size=grid, mode="bicubic", align_corners=False)

    def _windows(self, grid: tuple[int, int]) -> tuple[int, int]:
        """Sides of the windows, in patches."""
        side = _WINDOW_PX // self.patch
        down, across = grid[0] // side, grid[1] // side
        if down < 1 or across < 1 or grid[0] % down or grid[1] % across:
            raise BadInput(
                f"SimpleClick cannot cut a grid of {grid[0]} x {grid[1]} patches into windows; "
                f"use a zoom target whose sides are multiples of {_WINDOW_PX}"
            )
        return grid[0] // down, grid[1] // across


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


def _conv_relu(inputs: int, outputs: int) -> nn.Sequential:
    return named(conv=nn.Conv2d(inputs, outputs, 1), act=nn.ReLU())


class _Head(nn.Module):
    def __init__(self, ins: tuple[int, int, int, int], channels: int) -> None:
        super().__init__()
        self.conv_seg = nn.Conv2d(channels, 1, 1)
        self.convs = nn.ModuleList(_conv_relu(width, channels) for width in ins)
        self.fusion_conv = _conv_relu(4 * channels, channels)
        # Every checkpoint holds these two; the released ones do not use them.
        self.up_conv1 = _double(channels)
        self.up_conv2 = _double(channels // 2)

    def forward(self, levels: list[Tensor]) -> Tensor:
        size = levels[0].shape[-2:]
        parts = [
            F.interpolate(conv(x), size=size, mode="bilinear", align_corners=False)
            for conv, x in zip(self.convs, levels, strict=True)
        ]
        return self.conv_seg(self.fusion_conv(torch.cat(parts, dim=1)))


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
        maps = nn.Conv2d(3, shape.dim, shape.patch, shape.patch)
        self.patch_embed_coords = named(proj=maps)
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
        return self.head(self.neck(tokens))

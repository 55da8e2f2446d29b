"""The vision transformer of SAM, SAM-HQ and MedSAM, plain or with SAM-Med2D's adapters.

Written from the papers of SAM (arXiv 2304.02643) and SAM-Med2D (2308.16184); parameter names
are those of the authors' checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from segmeter.models.sam._decoder import ChannelNorm

__all__ = ["SamVit", "VitPerceptron", "distance_codes", "vit_neck"]

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
        heads = width // codes["0"][1]
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
    """Attention, then a perceptron with the adapter beside it; maps are `(B, H, W, C)`."""

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
        x = x + (self.attn(normal) if self.whole else self._windowed(normal))
        normal = self.norm2(x)
        out: Tensor = x + self.mlp(normal)
        return out + self.Adapter(normal) if hasattr(self, "Adapter") else out

    def _windowed(self, x: Tensor) -> Tensor:
        """Windows reach past the image; what they find there are zeros, and they count."""
        batch, height, width, channels = x.shape
        side = self.reach
        padded = F.pad(x, (0, 0, 0, -width % side, 0, -height % side))
        rows, columns = padded.shape[1] // side, padded.shape[2] // side
        cut = padded.reshape(batch, rows, side, columns, side, channels).transpose(2, 3)
        mixed = self.attn(cut.reshape(-1, side, side, channels))
        back = mixed.reshape(batch, rows, columns, side, side, channels).transpose(2, 3)
        whole: Tensor = back.reshape(padded.shape)[:, :height, :width]
        return whole


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
        """What is added for each pair of cells, `(B, heads, cells, cells)`; query unscaled."""
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


def distance_codes(codes: Tensor, side: int) -> Tensor:
    """The code of each distance, `(side, side, C)`, query first."""
    places = torch.arange(side, device=codes.device)
    return codes[places[:, None] - places[None] + side - 1]

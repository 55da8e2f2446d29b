"""SAM-Med3D's network: SAM with every convolution and position in three dimensions.

Written from the paper (Wang et al., arXiv 2310.15161); parameter names are those of the
published checkpoints `sam_med3d.pth` and `sam_med3d_turbo.pth`.

The cells stay a list of tokens `(requests, cells, channels)`. Positions follow the original
network, which it was trained with: those of the cells have their first two axes swapped
against those of the points, and the sine stands twice.

SegVol shares the prompts and the mask decoder, with the positions that it was trained with too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from segmeter.models.sam._decoder import (
    NOT_A_POINT,
    Perceptron,
    TwoWayTransformer,
    mask_downscaling,
)
from segmeter.models.sam._vit import VitPerceptron, distance_codes, vit_neck

Size = tuple[int, int, int]


class VolumePromptEncoder(nn.Module):
    """Points as tokens, with the layers that make a dense prompt of a mask.

    Parameters
    ----------
    cells
        Cells of the embedding along each axis.
    width
        Channels of a token.
    kinds
        Kinds of points: clicks of two signs, and corners of boxes where there are any.
    waves
        How many of sine, cosine and sine again make a position's code.
    downscaling
        Makes the layers for masks, by the width.
    """

    def __init__(
        self,
        cells: Size,
        width: int,
        kinds: int,
        waves: int,
        downscaling: Callable[[int], nn.Sequential],
    ) -> None:
        super().__init__()
        self.cells = cells
        self.pe_layer = _FourierCode(width, waves)
        self.point_embeddings = nn.ModuleList([nn.Embedding(1, width) for _ in range(kinds)])
        self.not_a_point_embed = nn.Embedding(1, width)
        self.mask_downscaling = downscaling(width)
        self.no_mask_embed = nn.Embedding(1, width)

    def known(self, places: Tensor, labels: Tensor) -> Tensor:
        """Tokens `(B, n, width)` of points in [0, 1]; label -1 is not a point."""
        kinds = torch.cat([e.weight for e in self.point_embeddings])  # type: ignore[misc]
        code = self.pe_layer(places) + kinds[labels.clamp(min=0)]
        return torch.where((labels == NOT_A_POINT)[..., None], self.not_a_point_embed.weight, code)

    def padded(self, tokens: Tensor) -> Tensor:
        """Tokens with one behind them that is not a point."""
        padding = self.not_a_point_embed.weight.expand(len(tokens), 1, -1)
        return torch.cat([tokens, padding], dim=1)

    def position(self) -> Tensor:
        """Positional code of the cells, their first two axes swapped."""
        device = self.no_mask_embed.weight.device
        centres = [(torch.arange(n, device=device) + 0.5) / n for n in self.cells]
        first, second, third = torch.meshgrid(*centres, indexing="ij")
        code: Tensor = self.pe_layer(torch.stack([second, first, third], dim=-1))
        return code.reshape(1, -1, code.shape[-1])


class _FourierCode(nn.Module):
    """Positions in [0, 1] as sine, cosine and perhaps sine again of random projections."""

    positional_encoding_gaussian_matrix: Tensor

    def __init__(self, width: int, waves: int) -> None:
        super().__init__()
        self.waves = waves
        self.register_buffer("positional_encoding_gaussian_matrix", torch.randn(3, width // waves))

    def forward(self, place: Tensor) -> Tensor:
        angle = 2 * math.pi * ((2 * place - 1) @ self.positional_encoding_gaussian_matrix)
        return torch.cat([angle.sin(), angle.cos(), angle.sin()][: self.waves], dim=-1)


class VolumeMaskDecoder(nn.Module):
    """From cells and prompts to the single mask; the three of an ambiguous prompt rest.

    `norm` makes the norm between the two enlargements, by its channels.
    """

    def __init__(self, cells: Size, width: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.cells = cells
        self.transformer = TwoWayTransformer(width)
        self.iou_token = nn.Embedding(1, width)
        self.mask_tokens = nn.Embedding(4, width)
        self.output_upscaling = nn.Sequential(
            nn.ConvTranspose3d(width, width // 4, 2, 2),
            norm(width // 4),
            nn.GELU(),
            nn.ConvTranspose3d(width // 4, width // 8, 2, 2),
            nn.GELU(),
        )
        self.output_hypernetworks_mlps = nn.ModuleList(
            [Perceptron(width, width, width // 8) for _ in range(4)]
        )
        self.iou_prediction_head = Perceptron(width, 256, 4)

    def forward(self, cells: Tensor, position: Tensor, sparse: Tensor) -> Tensor:
        """Logits of the single mask, four times as fine as the cells."""
        own = torch.cat([self.iou_token.weight, self.mask_tokens.weight])[None]
        start = torch.cat([own.expand(len(sparse), -1, -1), sparse], dim=1)
        tokens, cells = self.transformer(start, cells, position)
        grid = cells.transpose(1, 2).reshape(len(cells), -1, *self.cells)
        head: Any = self.output_hypernetworks_mlps[0]
        large = self.output_upscaling(grid)
        answer: Tensor = torch.einsum("bc,bcdhw->bdhw", head(tokens[:, 1]), large)
        return answer


_PATCH, _WINDOW = 16, 14


class SamMed3dNetwork(nn.Module):
    """Image encoder, prompt encoder and mask decoder for cubes of `side` voxels."""

    def __init__(self, side: int = 128, width: int = 768, depth: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.side = side
        self.image_encoder = _Encoder(side, width, depth, heads)
        self.prompt_encoder = _PromptEncoder(side)
        self.mask_decoder = VolumeMaskDecoder((side // _PATCH,) * 3, 384, _Norm)

    def encode(self, cube: Tensor) -> Tensor:
        """Cells `(1, cells, 384)` of a cube `(1, 1, side, side, side)`."""
        grid: Tensor = self.image_encoder(cube)
        return grid.flatten(2).transpose(1, 2).contiguous()

    def decode(self, cells: Tensor, points: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Logits `(1, side / 4, ...)` for points `(n, 3)` and a low-resolution mask like them."""
        sparse = self.prompt_encoder.points(points[None], labels[None])
        dense = self.prompt_encoder.masks(mask[None, None])
        position = self.prompt_encoder.position()
        logits: Tensor = self.mask_decoder(cells + dense, position, sparse)
        return logits


class _Norm(nn.Module):
    """Layer norm over the channels of each voxel, `(B, C, D, H, W)`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        last = x.movedim(1, -1)
        return F.layer_norm(last, self.weight.shape, self.weight, self.bias, 1e-6).movedim(-1, 1)


class _Encoder(nn.Module):
    def __init__(self, side: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        cells = side // _PATCH
        self.patch_embed = _Patches(width)
        self.pos_embed = nn.Parameter(torch.zeros(1, cells, cells, cells, width))
        everywhere = {i for i in range(depth) if i % 3 == 2}
        self.blocks = nn.ModuleList(
            [_Block(width, heads, 0 if i in everywhere else _WINDOW, cells) for i in range(depth)]
        )
        self.neck = vit_neck(width, 384, nn.Conv3d, _Norm)

    def forward(self, cube: Tensor) -> Tensor:
        x = self.patch_embed(cube) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.neck(x.movedim(-1, 1))
        return out


class _Patches(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv3d(1, width, _PATCH, _PATCH)

    def forward(self, cube: Tensor) -> Tensor:
        out: Tensor = self.proj(cube).movedim(1, -1)
        return out


class _Block(nn.Module):
    """Attention within windows or everywhere, then a perceptron; `(B, D, H, W, C)`."""

    def __init__(self, width: int, heads: int, window: int, cells: int) -> None:
        super().__init__()
        self.window = window
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = _Attention(width, heads, window or cells)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = VitPerceptron(width)

    def forward(self, x: Tensor) -> Tensor:
        normal = self.norm1(x)
        x = x + (self._windowed(normal) if self.window else self.attn(normal))
        out: Tensor = x + self.mlp(self.norm2(x))
        return out

    def _windowed(self, x: Tensor) -> Tensor:
        """Windows reach past the cube; what they find there are zeros, and they count."""
        batch, *sizes, channels = x.shape
        side = self.window
        pads = [p for n in reversed(sizes) for p in (0, -n % side)]
        padded = F.pad(x, (0, 0, *pads))
        d, h, w = (n // side for n in padded.shape[1:4])
        cut = padded.reshape(batch, d, side, h, side, w, side, channels)
        cut = cut.permute(0, 1, 3, 5, 2, 4, 6, 7)
        mixed = self.attn(cut.reshape(-1, side, side, side, channels))
        back = mixed.reshape(cut.shape).permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(padded.shape)
        whole: Tensor = back[:, : sizes[0], : sizes[1], : sizes[2]]
        return whole


class _Attention(nn.Module):
    """Attention with learned codes of the distance along each of three axes."""

    def __init__(self, width: int, heads: int, reach: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        for axis in "dhw":
            codes = nn.Parameter(torch.zeros(2 * reach - 1, width // heads))
            self.register_parameter(f"rel_pos_{axis}", codes)

    def forward(self, x: Tensor) -> Tensor:
        batch, *sizes, channels = x.shape
        cells = math.prod(sizes)
        mixed = self.qkv(x).reshape(batch, cells, 3, self.heads, -1)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        bias = self._distances(query, sizes)
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        out: Tensor = self.proj(seen.transpose(1, 2).reshape(batch, *sizes, channels))
        return out

    def _distances(self, query: Tensor, sizes: list[int]) -> Tensor:
        """Bias for each pair of cells, `(B, heads, cells, cells)`; query unscaled."""
        places = query.reshape(*query.shape[:2], *sizes, -1)
        tables = [self.get_parameter(f"rel_pos_{axis}") for axis in "dhw"]
        d, h, w = (distance_codes(codes, n) for codes, n in zip(tables, sizes, strict=True))
        far_d = torch.einsum("bndhwc,dkc->bndhwk", places, d)[..., :, None, None]
        far_h = torch.einsum("bndhwc,hkc->bndhwk", places, h)[..., None, :, None]
        far_w = torch.einsum("bndhwc,wkc->bndhwk", places, w)[..., None, None, :]
        return (far_d + far_h + far_w).reshape(*query.shape[:3], query.shape[2])


class _PromptEncoder(VolumePromptEncoder):
    """Points and low-resolution masks as tokens of 384 channels."""

    def __init__(self, side: int, width: int = 384) -> None:
        cells = side // _PATCH
        masks = partial(mask_downscaling, convolution=nn.Conv3d, norm=_Norm)
        super().__init__((cells,) * 3, width, kinds=2, waves=3, downscaling=masks)
        self.side = side

    def points(self, points: Tensor, labels: Tensor) -> Tensor:
        """Tokens `(B, n + 1, width)` of points `(B, n, 3)` in voxels; the last one pads."""
        return self.padded(self.known((points + 0.5) / self.side, labels))

    def masks(self, logits: Tensor) -> Tensor:
        """Dense prompt `(B, cells, width)` of logits `(B, 1, side / 4, ...)`."""
        grid: Tensor = self.mask_downscaling(logits)
        return grid.flatten(2).transpose(1, 2)

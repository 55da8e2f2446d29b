"""What SAM-Med3D and SegVol share: SAM's prompts and mask decoder in three dimensions.

Both networks were trained with positions of cells whose first two axes are swapped against
those of points; that is kept. Parameter names are those of the published checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from segmeter.models.sam._decoder import NOT_A_POINT, Perceptron
from segmeter.models.sam._two_way_transformer import TwoWayTransformer

__all__ = ["Size", "VolumeMaskDecoder", "VolumePromptEncoder"]

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
        """Tokens `(B, n, width)` of points in [0, 1]; label -1 is no point."""
        kinds = torch.cat([e.weight for e in self.point_embeddings])  # type: ignore[misc]
        code = self.pe_layer(places) + kinds[labels.clamp(min=0)]
        return torch.where((labels == NOT_A_POINT)[..., None], self.not_a_point_embed.weight, code)

    def padded(self, tokens: Tensor) -> Tensor:
        """Tokens with one behind them that is no point."""
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

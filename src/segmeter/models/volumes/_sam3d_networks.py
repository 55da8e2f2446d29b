"""SAM-Med3D's network: SAM with every convolution and position in three dimensions.

Written from the paper (Wang et al., arXiv 2310.15161); parameter names are those of the
published checkpoints `sam_med3d.pth` and `sam_med3d_turbo.pth`.

The cells stay a list of tokens `(requests, cells, channels)`. Positions follow the original
network, which it was trained with: those of the cells have their first two axes swapped
against those of the points, and the sine stands twice.

SegVol shares the prompts and the mask decoder, with the positions that it was trained with too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from segmeter.models.sam._decoder import MaskDecoder, PromptTokens, mask_downscaling
from segmeter.models.sam._vit import SamVit

Size = tuple[int, int, int]
_PATCH = 16


class VolumePromptEncoder(PromptTokens):
    """Points in volumes as tokens; `cells` of the embedding along each axis."""

    def __init__(self, cells: Size, *shape: Any) -> None:
        super().__init__(*shape)
        self.cells = cells

    def padded(self, tokens: Tensor) -> Tensor:
        """Tokens with one behind them that is not a point."""
        padding = self.not_a_point_embed.weight.expand(len(tokens), 1, -1)
        return torch.cat([tokens, padding], dim=1)

    def position(self) -> Tensor:
        """Positional code of the cells, their first two axes swapped."""
        device = self.no_mask_embed.weight.device
        centres = [(torch.arange(n, device=device) + 0.5) / n for n in self.cells]
        first, second, third = torch.meshgrid(*centres, indexing="ij")
        code = self.pe_layer(torch.stack([second, first, third], dim=-1))
        return code.reshape(1, -1, code.shape[-1])


class VolumeMaskDecoder(MaskDecoder):
    """From cells and prompts to the single mask; the three of an ambiguous prompt rest.

    `norm` makes the norm between the two enlargements, by its channels.
    """

    def __init__(
        self, cells: Size, width: int, norm: Callable[[int], nn.Module] | None = None
    ) -> None:
        super().__init__(width=width, enlarger=nn.ConvTranspose3d, norm=norm)
        self.cells = cells

    def single(self, cells: Tensor, position: Tensor, sparse: Tensor) -> Tensor:
        """Logits of the single mask, four times as fine as the cells."""
        start = torch.cat([self._own_tokens().expand(len(sparse), -1, -1), sparse], dim=1)
        tokens, cells = self.transformer(start, cells, position)
        grid = cells.transpose(1, 2).reshape(len(cells), -1, *self.cells)
        head = self.output_hypernetworks_mlps[0](tokens[:, 1])
        return torch.einsum("bc,bcdhw->bdhw", head, self.output_upscaling(grid))


class SamMed3dNetwork(nn.Module):
    """Image encoder, prompt encoder and mask decoder for cubes of `side` voxels."""

    def __init__(self, side: int = 128, width: int = 768, depth: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.side = side
        cells = (side // _PATCH,) * 3
        self.image_encoder = SamVit(side, width, depth, heads, axes="dhw", out=384)
        masks = partial(mask_downscaling, convolution=nn.Conv3d)
        self.prompt_encoder = VolumePromptEncoder(cells, 384, 2, 3, 3, masks)
        self.mask_decoder = VolumeMaskDecoder(cells, 384)

    def encode(self, cube: Tensor) -> Tensor:
        """Cells `(1, cells, 384)` of a cube `(1, 1, side, side, side)`."""
        return self.image_encoder(cube).flatten(2).transpose(1, 2).contiguous()

    def decode(self, cells: Tensor, points: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Logits `(1, side / 4, ...)` for points `(n, 3)` and a low-resolution mask like them."""
        prompts = self.prompt_encoder
        sparse = prompts.padded(prompts.known((points[None] + 0.5) / self.side, labels[None]))
        dense = prompts.mask_downscaling(mask[None, None]).flatten(2).transpose(1, 2)
        return self.mask_decoder.single(cells + dense, prompts.position(), sparse)

"""SAM's mask decoder laid out as it was published, from the weights of ours.

What the programs of SAM and SAM 2 compute for a batch of points, step by step, in eager
PyTorch: the image's embedding and its positions are repeated for every point, keys and values
of all 4096 cells are projected for every point, maps are `(B, C, H, W)`, enlarged by transposed
convolutions, channels are normed by a mean, a variance and a division, and all four masks are
made. Attention is a softmax of a product in the first SAM and PyTorch's own in SAM 2. No
captured graph, no kernel of ours.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from segmeter.models.sam._decoder import to_grid
from segmeter.models.sam._encoded import SamEncodedScene

HEADS = 8


class PlainDecoder:
    """Logits `(B, 4, 256, 256)` and scores `(B, 4)` of prompt tokens `(B, n, 256)`."""

    def __init__(self, encoded: SamEncodedScene) -> None:
        self.decoder: Any = encoded.network.decoder
        self.second = encoded.network.second
        own, prompts = encoded.embedding, encoded.network.prompts
        side = prompts.grid_side
        self.image = to_grid(own.cells, side)
        self.position = to_grid(encoded.position, side)
        self.no_mask = prompts.no_mask().reshape(1, -1, 1, 1)
        self.fine = own.fine

    def __call__(self, sparse: Tensor) -> tuple[Tensor, Tensor]:
        count = len(sparse)
        own = self.decoder._own_tokens().expand(count, -1, -1)
        tokens = torch.cat([own, sparse], dim=1)
        dense = self.no_mask.expand(count, -1, *self.image.shape[-2:])
        source = torch.repeat_interleave(self.image, count, dim=0) + dense
        position = torch.repeat_interleave(self.position, count, dim=0)
        seen, cells = self.transform(tokens, source, position)
        skip = 1 if self.second else 0
        scores = self.decoder.iou_prediction_head(seen[:, skip])
        masks = self.masks(seen[:, skip + 1 : skip + 5], cells.transpose(1, 2).view_as(source))
        return masks.float(), (scores.sigmoid() if self.second else scores).float()

    def transform(self, start: Tensor, source: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        cells = source.flatten(2).permute(0, 2, 1)
        placed = position.flatten(2).permute(0, 2, 1)
        tokens = start
        transformer = self.decoder.transformer
        for layer in transformer.layers:
            tokens, cells = self.block(layer, tokens, cells, start, placed)
        asked, keys = tokens + start, cells + placed
        seen = self.attend(transformer.final_attn_token_to_image, asked, keys, cells)
        return transformer.norm_final_attn(tokens + seen), cells

    def block(
        self, layer: Any, tokens: Tensor, cells: Tensor, start: Tensor, placed: Tensor
    ) -> tuple[Tensor, Tensor]:
        if layer.first:
            tokens = self.attend(layer.self_attn, tokens, tokens, tokens)
        else:
            asked = tokens + start
            tokens = tokens + self.attend(layer.self_attn, asked, asked, tokens)
        tokens = layer.norm1(tokens)
        asked, keys = tokens + start, cells + placed
        seen = self.attend(layer.cross_attn_token_to_image, asked, keys, cells)
        tokens = layer.norm2(tokens + seen)
        tokens = layer.norm3(tokens + layer.mlp(tokens))
        asked, keys = tokens + start, cells + placed
        told = self.attend(layer.cross_attn_image_to_token, keys, asked, tokens)
        return tokens, layer.norm4(cells + told)

    def attend(self, attention: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        q, k, v = (
            project(x).unflatten(2, (HEADS, -1)).transpose(1, 2)
            for project, x in (
                (attention.q_proj, query),
                (attention.k_proj, key),
                (attention.v_proj, value),
            )
        )
        if self.second:
            mixed = F.scaled_dot_product_attention(q, k, v)
        else:
            shares = (q @ k.transpose(2, 3) / q.shape[3] ** 0.5).softmax(dim=-1)
            mixed = shares @ v
        out: Tensor = attention.out_proj(mixed.transpose(1, 2).flatten(2))
        return out

    def masks(self, tokens: Tensor, source: Tensor) -> Tensor:
        first, norm, _, second, _ = self.decoder.output_upscaling
        x = first(source)
        x = F.gelu(normed(x if self.fine is None else x + self.fine[0], norm))
        x = second(x)
        x = F.gelu(x if self.fine is None else x + self.fine[1])
        mlps = self.decoder.output_hypernetworks_mlps
        heads = torch.stack([mlp(tokens[:, i]) for i, mlp in enumerate(mlps)], dim=1)
        batch, channels, height, width = x.shape
        return (heads @ x.view(batch, channels, height * width)).view(batch, -1, height, width)


def normed(x: Tensor, norm: Any) -> Tensor:
    """Each pixel's channels with mean 0 and variance 1, then scaled."""
    away = x - x.mean(1, keepdim=True)
    spread = away.pow(2).mean(1, keepdim=True)
    x = away / torch.sqrt(spread + 1e-6)
    scaled: Tensor = norm.weight[:, None, None] * x + norm.bias[:, None, None]
    return scaled

"""SAM's two-way transformer: tokens look at the image, and the image at the tokens.

Written from the paper (arXiv 2304.02643); parameter names are those of the original.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["TwoWayTransformer"]

_STRETCH = 128
"""Cells that are summed up in one product."""


class TwoWayTransformer(nn.Module):
    """Two blocks, and a last look from the tokens to the image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([_TwoWayBlock(width, first=i == 0) for i in range(2)])
        self.final_attn_token_to_image = _Attention(width, 2)
        self.norm_final_attn = nn.LayerNorm(width)

    def forward(self, start: Tensor, cells: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        tokens = start
        for layer in self.layers:
            tokens, cells = layer(tokens, cells, start, position)
        seen = self.final_attn_token_to_image(tokens + start, cells + position, cells)
        return self.norm_final_attn(tokens + seen), cells


class _TwoWayBlock(nn.Module):
    """Tokens among themselves, tokens to image, a perceptron, image to tokens."""

    def __init__(self, width: int, first: bool) -> None:
        super().__init__()
        self.first = first
        self.self_attn = _Attention(width)
        self.norm1 = nn.LayerNorm(width)
        self.cross_attn_token_to_image = _Attention(width, 2)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = _TwoLayers(width, 2048)
        self.norm3 = nn.LayerNorm(width)
        self.norm4 = nn.LayerNorm(width)
        self.cross_attn_image_to_token = _Attention(width, 2)

    def forward(
        self, tokens: Tensor, cells: Tensor, start: Tensor, position: Tensor
    ) -> tuple[Tensor, Tensor]:
        if self.first:
            tokens = self.self_attn(tokens, tokens, tokens)
        else:
            asking = tokens + start
            tokens = tokens + self.self_attn(asking, asking, tokens)
        tokens = self.norm1(tokens)
        placed = cells + position
        tokens = self.norm2(tokens + self.cross_attn_token_to_image(tokens + start, placed, cells))
        tokens = self.norm3(tokens + self.mlp(tokens))
        cells = self.norm4(cells + self.cross_attn_image_to_token(placed, tokens + start, tokens))
        return tokens, cells


class _TwoLayers(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.lin1 = nn.Linear(width, inner)
        self.lin2 = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.lin2(F.relu(self.lin1(x)))
        return out


class _Attention(nn.Module):
    """Attention of 8 heads whose inner width may be smaller than the outer."""

    def __init__(self, width: int, shrink: int = 1) -> None:
        super().__init__()
        self.q_proj = nn.Linear(width, width // shrink)
        self.k_proj = nn.Linear(width, width // shrink)
        self.v_proj = nn.Linear(width, width // shrink)
        self.out_proj = nn.Linear(width // shrink, width)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        q, k, v = (
            project(x).unflatten(2, (8, -1)).transpose(1, 2)
            for project, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        )
        mixed = _attended(q, k, v)
        out: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
        return out


def _attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of few tokens and many cells, `(B, 8, n, d)` each.

    In float32 on a GPU torch's own kernel walks all cells with one block for each head, two
    thirds of a whole answer's time; as plain products over stretches of the cells it takes a
    tenth of that (perf/session.py).
    """
    if not q.is_cuda or q.dtype != torch.float32:
        return F.scaled_dot_product_attention(q, k, v)
    share = (q * q.shape[-1] ** -0.5 @ k.transpose(2, 3)).softmax(-1)
    batch, heads, cells, width = v.shape
    if cells % _STRETCH or cells == _STRETCH:
        whole: Tensor = share @ v
        return whole
    stretches = share.reshape(batch, heads, q.shape[2], -1, _STRETCH).transpose(2, 3)
    parts: Tensor = stretches @ v.reshape(batch, heads, -1, _STRETCH, width)
    return parts.sum(2)

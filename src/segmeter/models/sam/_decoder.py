"""Segment Anything's prompt encoder and mask decoder, for every kind of SAM.

Written from the papers of SAM (arXiv 2304.02643), SAM 2 (2408.00714) and SAM-HQ
(2306.01567); parameter names are those of the original SAM, so its files load as they are.

The image is a list of cells `(B, cells, channels)` from beginning to end; requests without a mask
prompt share it, `(1, cells, channels)`, until its cells have attended to theirs. A request has some
ten tokens and an image 4096 cells, so projections between the two are applied to the tokens, and
pixels are put in their places once, when four values are left of each. On a GPU cells are
projected and maps convolved, as published.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def named(**parts: nn.Module) -> nn.Sequential:
    """Layers one after the other, under the names that checkpoints give them."""
    return nn.Sequential(OrderedDict(parts))


class Scale(nn.Module):
    """One learned factor, never negative: of the click maps of RITM and RClicks."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((1,), 0.05))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale.abs()


class TwoWayTransformer(nn.Module):
    """Two blocks, and a last attention of the tokens to the image.

    `cells` may be `(1, n, width)` for any number of requests.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([_TwoWayBlock(width, first=i == 0) for i in range(2)])
        self.final_attn_token_to_image = _TokensToImage(width, 2)
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
        self.cross_attn_token_to_image = _TokensToImage(width, 2)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = named(lin1=nn.Linear(width, 2048), act=nn.ReLU(), lin2=nn.Linear(2048, width))
        self.norm3 = nn.LayerNorm(width)
        self.norm4 = nn.LayerNorm(width)
        self.cross_attn_image_to_token = _ImageToTokens(width, 2)

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
        cells = self.cross_attn_image_to_token(cells, placed, tokens + start, tokens)
        return tokens, self.norm4(cells)


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
            _heads(project(x))
            for project, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        )
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))


class _TokensToImage(_Attention):
    """Tokens attend to cells, whose keys and values are never made.

    With `q` a token's query, `K` and `V` the projections and `x` a cell: `q (K x) = (q K) x`, and
    the mean of all `V x` is `V` of the mean. A bias of the keys moves all scores of a token alike,
    which changes no share.
    """

    def forward(self, tokens: Tensor, placed: Tensor, cells: Tensor) -> Tensor:
        """`placed` are the cells with their positions; one image may serve all requests."""
        q, key, value = _heads(self.q_proj(tokens)), self.k_proj.weight, self.v_proj.weight
        asked = q * q.shape[-1] ** -0.5 @ _split(key, 0, 8)
        shares = (asked.flatten(1, 2) @ placed.transpose(1, 2)).softmax(-1)
        seen = _split(shares @ cells, 1, 8) @ _split(value, 0, 8).transpose(1, 2)
        return self.out_proj(seen.transpose(1, 2).flatten(2) + self.v_proj.bias)


class _ImageToTokens(_Attention):
    """Cells attend to tokens and add what they find; their queries are never made."""

    def forward(  # type: ignore[override]  # the cells to which it adds come first
        self, cells: Tensor, placed: Tensor, key: Tensor, value: Tensor
    ) -> Tensor:
        k, v = _heads(self.k_proj(key)), _heads(self.v_proj(value))
        k = k * k.shape[-1] ** -0.5
        asked = k @ _split(self.q_proj.weight, 0, 8)
        more = k @ self.q_proj.bias.reshape(8, -1, 1)
        scores = _split(asked.flatten(1, 2) @ placed.transpose(1, 2), 1, 8) + more
        # The shares of each head add up to one, so every head carries an eighth of the bias.
        values = v @ _split(self.out_proj.weight.t(), 0, 8) + self.out_proj.bias / 8
        shares = scores.softmax(2).flatten(1, 2).transpose(1, 2)
        return cells + shares @ values.flatten(1, 2)


def _heads(x: Tensor) -> Tensor:
    """Tokens `(B, n, C)` by heads: `(B, 8, n, C / 8)`."""
    return _split(x, 2, 8).transpose(1, 2)


def _split(x: Any, axis: int, *sizes: int) -> Tensor:
    """An axis in parts of these numbers; the last part is what is left. Torch has no types here."""
    return x.unflatten(axis, (*sizes, -1))


NOT_A_POINT = -1
"""Label of the padding token; 0 and 1 are clicks, 2 and 3 the corners of a box."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """An image after the image encoder.

    Attributes
    ----------
    cells
        `(1, side * side, 256)`, the cells row by row.
    fine
        SAM 2: the two finer maps of its pyramid, `(1, 64, 2 * side, 2 * side)` and
        `(1, 32, 4 * side, 4 * side)`.
    quality
        SAM-HQ: the fused features `(1, 32, 4 * side, 4 * side)`.
    """

    cells: Tensor
    fine: tuple[Tensor, Tensor] | None = None
    quality: Tensor | None = None

    def each(self, change: Callable[[Tensor], Tensor]) -> Embedding:
        fine, quality = self.fine, self.quality
        return Embedding(
            change(self.cells),
            None if fine is None else (change(fine[0]), change(fine[1])),
            None if quality is None else change(quality),
        )


def to_tokens(grid: Tensor) -> Tensor:
    """A map `(B, C, H, W)`, or a cube, as a list of its cells `(B, cells, C)`."""
    return grid.flatten(2).transpose(1, 2)


def to_cells(grid: Tensor, levels: int) -> Tensor:
    """A map `(B, C, H, W)` by cells of `2 ** levels` pixels a side: `(B, rows, columns, ..., C)`.

    Inside a cell come the rows and columns of its quarters, then those of the quarters' quarters.
    """
    rows, columns = (n >> levels for n in grid.shape[2:])
    halves = [2] * levels
    split = grid.reshape(*grid.shape[:2], rows, *halves, columns, *halves)
    axes = [axis for row in range(2, 3 + levels) for axis in (row, row + levels + 1)]
    return split.permute(0, *axes, 1)


def to_grid(tokens: Tensor, side: int, levels: int = 0) -> Tensor:
    """The inverse of both for a square map: `(B, C, H, W)` of `(B, pixels, C)`."""
    split = tokens.reshape(-1, side, side, *[2] * (2 * levels), tokens.shape[2])
    last, full = split.ndim - 1, side << levels
    placed = split.permute(0, last, *range(1, last, 2), *range(2, last, 2))
    return placed.reshape(*tokens.shape[::2], full, full)


class PromptTokens(nn.Module):
    """Points as tokens, with the layers that make a dense prompt of a mask.

    Parameters
    ----------
    kinds
        Kinds of points: clicks of two signs, and corners of boxes where there are any.
    axes, waves
        Dimensions of a point; how many of sine, cosine and sine again make its code.
    masks
        Makes the layers for masks, by the width.
    """

    def __init__(
        self, width: int, kinds: int, axes: int, waves: int, masks: Callable[[int], nn.Sequential]
    ) -> None:
        super().__init__()
        self.pe_layer = _FourierCode(width, axes, waves)
        self.point_embeddings = nn.ModuleList([nn.Embedding(1, width) for _ in range(kinds)])
        self.not_a_point_embed = nn.Embedding(1, width)
        self.mask_downscaling = masks(width)
        self.no_mask_embed = nn.Embedding(1, width)

    def known(self, places: Tensor, labels: Tensor) -> Tensor:
        """Tokens `(B, n, width)` of points `(B, n, axes)` in [0, 1]; label -1 is not a point."""
        kinds = torch.cat([e.weight for e in self.point_embeddings])  # type: ignore[misc]
        known = self.pe_layer(places).to(kinds.dtype) + kinds[labels.clamp(min=0)]
        return torch.where((labels == NOT_A_POINT)[..., None], self.not_a_point_embed.weight, known)

    def no_mask(self) -> Tensor:
        """Dense prompt `(1, 1, width)` when there is no mask."""
        return self.no_mask_embed.weight[None]


class PromptEncoder(PromptTokens):
    """Points, boxes and masks as tokens; `image_side` pixels, `grid_side` cells a side."""

    def __init__(self, image_side: int = 1024, grid_side: int = 64, width: int = 256) -> None:
        super().__init__(width, 4, 2, 2, mask_downscaling)
        self.image_side, self.grid_side = image_side, grid_side

    def points(self, points: Tensor, labels: Tensor) -> Tensor:
        """Tokens `(B, n, width)` of points `(B, n, 2)`, x first, in pixels of the network.

        Differentiable in the points.
        """
        return self.known((points + 0.5) / self.image_side, labels)

    def masks(self, logits: Tensor) -> Tensor:
        """Dense prompt `(B, cells, width)` of low-resolution logits `(B, 1, 4 side, 4 side)`."""
        logits = logits.to(self.no_mask_embed.weight.dtype)
        x = self.mask_downscaling[:-1](logits)
        last: Any = self.mask_downscaling[-1]  # 1 x 1: the same for each cell
        return F.linear(to_tokens(x), last.weight.flatten(1), last.bias)

    def position(self) -> Tensor:
        """Positional code `(1, cells, width)` of the cells' centres."""
        matrix = self.pe_layer.positional_encoding_gaussian_matrix
        centres = (torch.arange(self.grid_side, device=matrix.device) + 0.5) / self.grid_side
        y, x = torch.meshgrid(centres, centres, indexing="ij")
        code = self.pe_layer(torch.stack([x, y], dim=-1).reshape(1, -1, 2))
        return code.to(self.no_mask_embed.weight.dtype)


class MaskDecoder(nn.Module):
    """From image and prompts to four masks and the scores the network gives them.

    Mask 0 is the single-mask answer, masks 1 to 3 are the three of an ambiguous prompt.
    """

    def __init__(
        self,
        *,
        fine: bool = False,
        quality: int = 0,
        quality_token: bool = False,
        width: int = 256,
        enlarger: type[nn.ConvTranspose2d | nn.ConvTranspose3d] = nn.ConvTranspose2d,
        norm: Callable[[int], nn.Module] | None = None,
    ) -> None:
        """`fine` for SAM 2's pyramid; `quality` is SAM-HQ's encoder width, or 0.

        `quality_token` for HQ-SAM 2, which has SAM-HQ's token but not its fused features.
        """
        super().__init__()
        self.fine = fine
        self.transformer = TwoWayTransformer(width)
        if fine:
            self.obj_score_token = nn.Embedding(1, width)
        self.iou_token = nn.Embedding(1, width)
        self.mask_tokens = nn.Embedding(4, width)
        self.output_upscaling = nn.Sequential(
            enlarger(width, width // 4, 2, 2),
            (norm or ChannelNorm)(width // 4),
            nn.GELU(),
            enlarger(width // 4, width // 8, 2, 2),
            nn.GELU(),
        )
        heads = [Perceptron(width, width, width // 8) for _ in range(4)]
        self.output_hypernetworks_mlps = nn.ModuleList(heads)
        self.iou_prediction_head = Perceptron(width, 256, 4)
        if quality:
            self.compress_vit_feat = _enlarger(quality, width, width // 8)
            self.embedding_encoder = _enlarger(width, width // 4, width // 8)
        if quality or quality_token:
            self.hf_token = nn.Embedding(1, width)
            self.hf_mlp = Perceptron(width, width, width // 8)
            self.embedding_maskfeature = nn.Sequential(
                nn.Conv2d(width // 8, width // 4, 3, 1, 1),
                ChannelNorm(width // 4),
                nn.GELU(),
                nn.Conv2d(width // 4, width // 8, 3, 1, 1),
            )

    def forward(
        self, image: Embedding, position: Tensor, sparse: Tensor, dense: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Logits `(B, 4, 4 side, 4 side)` and scores `(B, 4)` for prompts `(B, n, 256)`."""
        own = self._own_tokens()
        count = sparse.shape[0]  # not len(): an export keeps the batch free
        tokens = torch.cat([own.expand(count, -1, -1), sparse], dim=1)
        tokens, cells = self.transformer(tokens, image.cells + dense, position)
        skip = 1 if self.fine else 0
        scores = self.iou_prediction_head(tokens[:, skip])
        # SAM 2 bounds its scores, the first SAM does not.
        scores = scores.sigmoid() if self.fine else scores
        return self._masks(image, tokens[:, skip + 1 :], cells), scores

    def _own_tokens(self) -> Tensor:
        parts = [self.iou_token.weight, self.mask_tokens.weight]
        if self.fine:
            parts.insert(0, self.obj_score_token.weight)
        if hasattr(self, "hf_token"):
            parts.append(self.hf_token.weight)
        return torch.cat(parts)[None]

    def _masks(self, image: Embedding, tokens: Tensor, cells: Tensor) -> Tensor:
        enlarge: Any = self.output_upscaling  # a Sequential does not say what its members are
        (first, norm, active, second, _), side = enlarge, math.isqrt(cells.shape[1])
        heads = [mlp(tokens[:, i]) for i, mlp in enumerate(self.output_hypernetworks_mlps)]
        x = _doubled(_split(cells, 1, side), first)
        x = active(norm.last(x if image.fine is None else x + to_cells(image.fine[0], 1)))
        x = _doubled(x, second)
        x = active(x if image.fine is None else x + to_cells(image.fine[1], 2)).flatten(1, -2)
        masks = to_grid(x @ torch.stack(heads, dim=2), side, 2)
        if image.quality is None:
            return masks
        refined = self.embedding_maskfeature(to_grid(x, side, 2)) + image.quality
        return masks + torch.einsum("bc,bchw->bhw", self.hf_mlp(tokens[:, 4]), refined)[:, None]


def _doubled(x: Tensor, convolution: nn.ConvTranspose2d) -> Tensor:
    """A transposed convolution of 2 x 2 and stride 2, `(..., C)` to `(..., 2, 2, C')`.

    It mixes no two cells, so it is one product.
    """
    weight, bias = convolution.weight.permute(2, 3, 1, 0), convolution.bias
    enlarged = F.linear(x, weight.flatten(0, 2), None if bias is None else bias.repeat(4))
    return _split(enlarged, x.ndim - 1, 2, 2)


class _FourierCode(nn.Module):
    """Positions in [0, 1] as sine, cosine and perhaps sine again of random projections."""

    positional_encoding_gaussian_matrix: Tensor

    def __init__(self, width: int, axes: int, waves: int) -> None:
        super().__init__()
        self.waves = waves
        matrix = torch.randn(axes, width // waves)
        self.register_buffer("positional_encoding_gaussian_matrix", matrix)

    def forward(self, place: Tensor) -> Tensor:
        matrix = self.positional_encoding_gaussian_matrix
        angle = 2 * math.pi * ((2 * place - 1) @ matrix)
        return torch.cat([angle.sin(), angle.cos(), angle.sin()][: self.waves], dim=-1)

    def _apply(self, *args: Any, **options: Any) -> Self:
        """Moves with the network but stays float32: angles reach many turns."""
        super()._apply(*args, **options)  # type: ignore[no-untyped-call]  # torch has none
        matrix = self.positional_encoding_gaussian_matrix
        self.positional_encoding_gaussian_matrix = matrix.float()
        return self


class ChannelNorm(nn.Module):
    """Layer norm over the channels of each pixel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        """For maps `(B, C, H, W)` and cubes `(B, C, D, H, W)`."""
        return channels_first(self.last(channels_last(x)))

    def last(self, x: Tensor) -> Tensor:
        """For channels on the last axis."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-6)


def channels_last(x: Tensor) -> Tensor:
    """A map `(B, C, ...)` as `(B, ..., C)`; without axis -1, which exported graphs do not have."""
    return x.movedim(1, x.ndim - 1)


def channels_first(x: Tensor) -> Tensor:
    """The inverse."""
    return x.movedim(x.ndim - 1, 1)


def mask_downscaling(
    width: int, convolution: type[nn.Conv2d | nn.Conv3d] = nn.Conv2d
) -> nn.Sequential:
    """The layers that make a dense prompt of low-resolution logits, in either dimension."""
    return nn.Sequential(
        convolution(1, 4, 2, 2),
        ChannelNorm(4),
        nn.GELU(),
        convolution(4, 16, 2, 2),
        ChannelNorm(16),
        nn.GELU(),
        convolution(16, width, 1),
    )


class Perceptron(nn.Module):
    def __init__(self, width: int, inner: int, out: int) -> None:
        super().__init__()
        sizes = pairwise((width, inner, inner, out))
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in sizes])

    def forward(self, x: Tensor) -> Tensor:
        first, second, last = self.layers
        return last(F.relu(second(F.relu(first(x)))))


def _enlarger(width: int, inner: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.ConvTranspose2d(width, inner, 2, 2),
        ChannelNorm(inner),
        nn.GELU(),
        nn.ConvTranspose2d(inner, out, 2, 2),
    )

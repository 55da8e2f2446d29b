"""Single clicks on a GPU with every run of small steps in one kernel; twin: `SingleClicks`.

Same arithmetic up to rounding, with two differences: cells are kept with their positions added,
which spares a product for each comparison, and half precision keeps its sums in single.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from segmeter.models.sam import _triton_kernels as fused
from segmeter.models.sam._single_clicks import SingleClicks, _into_cells, _said, _seen

__all__ = ["FusedClicks"]


class FusedClicks(SingleClicks):
    """Answers one positive click each, without memory, many at a time."""

    def _transform(self, start: Tensor) -> tuple[Tensor, Tensor]:
        tokens = self._first_tokens(start)
        cells, placed = self._settled(self._blocks[0], tokens, start, self._cells, self._placed)
        tokens = self._second_tokens(tokens, start, cells, placed)
        cells, placed = self._settled(self._blocks[1], tokens, start, cells, placed)
        transformer = self._decoder.transformer
        seen = _looked(transformer.final_attn_token_to_image, tokens + start, cells, placed)
        return transformer.norm_final_attn(tokens + seen), cells

    def _second_tokens(
        self, tokens: Tensor, start: Tensor, cells: Tensor, placed: Tensor
    ) -> Tensor:
        block = self._blocks[1]
        asking = tokens + start
        tokens = block.norm1(tokens + block.self_attn(asking, asking, tokens))
        seen = _looked(block.cross_attn_token_to_image, tokens + start, cells, placed)
        tokens = block.norm2(tokens + seen)
        settled: Tensor = block.norm3(tokens + block.mlp(tokens))
        return settled

    def _settled(
        self, block: Any, tokens: Tensor, start: Tensor, cells: Tensor, placed: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Cells after they were told of the tokens, and the same with their positions."""
        told = block.cross_attn_image_to_token
        questions, offset = _into_cells(told.k_proj(tokens + start), told.q_proj)
        shares = fused.shared_out(_compared(questions, placed), offset, tokens.shape[1])
        learnt = shares.transpose(1, 2) @ _said(told, tokens)
        norm = block.norm4
        return fused.settled(
            learnt, cells, told.out_proj.bias, norm.weight, norm.bias, self._position
        )

    def _masks(self, cells: Tensor, heads: Tensor) -> Tensor:
        first, norm, _, second, _ = self._decoder.output_upscaling
        near, far = (None, None) if self._fine is None else self._fine
        x = F.linear(cells, _kernel(first)).view(*cells.shape[:2], 4, -1)
        x = fused.lifted(x, first.bias, near, norm.weight, norm.bias, 1e-6)
        x = F.linear(x, _kernel(second)).reshape(len(cells), -1, heads.shape[1])
        return fused.enlarged_maps(x, second.bias, far, heads, math.isqrt(cells.shape[1]))


def _looked(attention: Any, tokens: Tensor, cells: Tensor, placed: Tensor) -> Tensor:
    """What tokens see in images of their own, `(B, T, C)`."""
    questions, _ = _into_cells(attention.q_proj(tokens), attention.k_proj)
    return _seen(attention, _compared(questions, placed).softmax(dim=2) @ cells)


def _compared(questions: Tensor, placed: Tensor) -> Tensor:
    """Scores `(B, HEADS * T, N)`; `placed` is one image `(N, C)` or one each."""
    if placed.ndim == 2:
        return (questions.flatten(0, 1) @ placed.T).view(*questions.shape[:2], -1)
    return questions @ placed.transpose(1, 2)


def _kernel(convolution: Any) -> Tensor:
    """A 2 x 2 transposed convolution's weight as a matrix, quarter by quarter."""
    weight: Tensor = convolution.weight
    return weight.permute(2, 3, 1, 0).flatten(0, 2)

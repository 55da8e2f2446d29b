"""Single clicks on a GPU with each run of small decoder steps in one Triton kernel.

Grids of automatic masks use them: 3.2 times as fast as captured graphs on an H200 (float32; 3.6
in float16, `perf/decoder_paths.py`). A compiled `SingleClicks` reaches 2.7 (3.8), but only after
torch has compiled it for each shape and precision, which one image's grid does not repay.

Between its matrix products the decoder adds a bias, adds a residual, normalises, and so on; each
of these reads and writes 4 MB per click. Here each run of such steps is one kernel. The twins in
`torch` are `SingleClicks` itself and `_point_grid`; sums are kept in single precision, so results
agree to rounding.

Triton comes with `torch` for CUDA; where it is missing the twins serve. The kernels can be
interpreted without a GPU (`TRITON_INTERPRET=1`), which the tests do.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,import-not-found"
# mypy: disable-error-code="import-untyped,misc,unused-ignore"
# Triton has no types, and what its compiler reads is not Python's.

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from segmeter.models.sam._single_clicks import SingleClicks, _into_cells, _said, _seen


class FusedClicks(SingleClicks):
    """`SingleClicks` with fused steps: equal up to rounding.

    Cells are kept with their positions added, which spares a product for each comparison, and half
    precision keeps its sums in single.
    """

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
        shares = shared_out(_compared(questions, placed), offset, tokens.shape[1])
        learnt = shares.transpose(1, 2) @ _said(told, tokens)
        norm = block.norm4
        return settled(learnt, cells, told.out_proj.bias, norm.weight, norm.bias, self._position)

    def _masks(self, cells: Tensor, heads: Tensor) -> Tensor:
        first, norm, _, second, _ = self._decoder.output_upscaling
        near, far = (None, None) if self._fine is None else self._fine
        x = F.linear(cells, _kernel(first)).view(*cells.shape[:2], 4, -1)
        x = lifted(x, first.bias, near, norm.weight, norm.bias, 1e-6)
        x = F.linear(x, _kernel(second)).reshape(len(cells), -1, heads.shape[1])
        return enlarged_maps(x, second.bias, far, heads, math.isqrt(cells.shape[1]))


def _looked(attention: Any, tokens: Tensor, cells: Tensor, placed: Tensor) -> Tensor:
    """Attention of tokens to their own images, `(B, T, C)`."""
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


def settled(
    told: Tensor, cells: Tensor, bias: Tensor, norm: Tensor, shift: Tensor, position: Tensor
) -> tuple[Tensor, Tensor]:
    """Normed `cells + told + bias`, `(B, N, C)`, and the same with the positions added.

    `cells` is `(N, C)`, one image for all, or `(B, N, C)`.
    """
    batch, count, width = told.shape
    out, placed = told.new_empty(told.shape), told.new_empty(told.shape)
    rows = batch * count
    own = rows if cells.ndim == 3 else count
    step = 8
    _settle[(triton.cdiv(rows, step),)](
        told, cells, bias, norm, shift, position, out, placed, rows, own, count,
        STEP=step, WIDTH=width,
    )  # fmt: skip
    return out, placed


def shared_out(scores: Tensor, offset: Tensor, tokens: int) -> Tensor:
    """Softmax over the tokens of `(B, heads * tokens, N)` plus `(B, heads * tokens, 1)`."""
    scores = scores.contiguous()
    groups, count = scores.shape[0] * scores.shape[1] // tokens, scores.shape[2]
    out = scores.new_empty(scores.shape)
    block = 1024
    _share[(groups, triton.cdiv(count, block))](
        scores, offset.contiguous(), out, tokens, count,
        TOKENS=triton.next_power_of_2(tokens), BLOCK=block,
    )  # fmt: skip
    return out


def lifted(
    x: Tensor, bias: Tensor, fine: Tensor | None, norm: Tensor, shift: Tensor, eps: float
) -> Tensor:
    """GELU of normed `x + bias + fine`, `(B, N, 4, C)`; `fine` is `(1, N, 4, C)`."""
    width = x.shape[-1]
    rows = x.numel() // width
    own = 1 if fine is None else fine.numel() // width
    out = x.new_empty(x.shape)
    step = 32
    _lift[(triton.cdiv(rows, step),)](
        x, bias, x if fine is None else fine, norm, shift, out, rows, own, eps,
        FINE=fine is not None, STEP=step, WIDTH=width,
    )  # fmt: skip
    return out


def enlarged_maps(x: Tensor, bias: Tensor, fine: Tensor | None, heads: Tensor, side: int) -> Tensor:
    """Logits `(B, k, 4 side, 4 side)` of cells `(B, N * 16, C)` and heads `(B, C, k)`.

    Adds the bias and `fine` `(1, N, 16, C)`, takes GELU and the product with each head, and
    puts pixels in their places.
    """
    batch, pixels, width = x.shape
    count = heads.shape[2]
    out = x.new_empty((batch, count, 4 * side, 4 * side), dtype=torch.float32)
    step = 64
    _enlarge[(batch, triton.cdiv(pixels, step))](
        x, bias, x if fine is None else fine, heads.contiguous(), out, pixels, side,
        COUNT=count, FINE=fine is not None, STEP=step, WIDTH=width,
    )  # fmt: skip
    return out


def counted(values: Tensor, low: float, middle: float, high: float) -> Tensor:
    """Three counts and the box of each map `(n, H, W)`: `(n, 7)`, whole numbers."""
    count, height, width = values.shape
    table = values.new_zeros((count, 7), dtype=torch.int32)
    table[:, 3], table[:, 4] = width, height
    table[:, 5:] = -1
    if count:
        rows, wide = 16, 256
        _count[(count, triton.cdiv(height, rows), triton.cdiv(width, wide))](
            values.contiguous(), table, low, middle, high, height, width, ROWS=rows, WIDE=wide
        )
    there = table[:, 1:2] > 0
    table[:, 3:] *= there
    return table.long()


@triton.jit
def _settle(
    told, cells, bias, norm, shift, position, out, placed, rows, own, count,
    STEP: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * STEP + tl.arange(0, STEP)
    column = tl.arange(0, WIDTH)
    here = (row < rows)[:, None]
    place = row[:, None].to(tl.int64) * WIDTH + column[None, :]
    mine = (row % own)[:, None].to(tl.int64) * WIDTH + column[None, :]
    spot = (row % count)[:, None].to(tl.int64) * WIDTH + column[None, :]
    x = tl.load(told + place, mask=here, other=0.0).to(tl.float32)
    x += tl.load(bias + column)[None, :].to(tl.float32)
    x += tl.load(cells + mine, mask=here, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=1)[:, None] / WIDTH
    away = x - mean
    spread = tl.sum(away * away, axis=1)[:, None] / WIDTH
    normed = away / tl.sqrt(spread + 1e-5)
    normed = normed * tl.load(norm + column)[None, :].to(tl.float32)
    normed += tl.load(shift + column)[None, :].to(tl.float32)
    tl.store(out + place, normed, mask=here)
    normed += tl.load(position + spot, mask=here, other=0.0).to(tl.float32)
    tl.store(placed + place, normed, mask=here)


@triton.jit
def _share(scores, offset, out, tokens, count, TOKENS: tl.constexpr, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    cell = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    token = tl.arange(0, TOKENS)
    here = (token < tokens)[:, None] & (cell < count)[None, :]
    row = group.to(tl.int64) * tokens + token
    place = row[:, None] * count + cell[None, :]
    x = tl.load(scores + place, mask=here, other=float("-inf")).to(tl.float32)
    more = tl.load(offset + row, mask=token < tokens, other=0.0).to(tl.float32)
    x += more[:, None]
    x = tl.exp(x - tl.max(x, axis=0)[None, :])
    tl.store(out + place, x / tl.sum(x, axis=0)[None, :], mask=here)


@triton.jit
def _lift(
    x, bias, fine, norm, shift, out, rows, own, eps,
    FINE: tl.constexpr, STEP: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * STEP + tl.arange(0, STEP)
    column = tl.arange(0, WIDTH)
    here = (row < rows)[:, None]
    place = row[:, None].to(tl.int64) * WIDTH + column[None, :]
    v = tl.load(x + place, mask=here, other=0.0).to(tl.float32)
    v += tl.load(bias + column)[None, :].to(tl.float32)
    if FINE:
        mine = (row % own)[:, None].to(tl.int64) * WIDTH + column[None, :]
        v += tl.load(fine + mine, mask=here, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=1)[:, None] / WIDTH
    away = v - mean
    spread = tl.sum(away * away, axis=1)[:, None] / WIDTH
    v = away / tl.sqrt(spread + eps)
    v = v * tl.load(norm + column)[None, :].to(tl.float32)
    v += tl.load(shift + column)[None, :].to(tl.float32)
    v = v * 0.5 * (1.0 + tl.erf(v * 0.7071067811865476))
    tl.store(out + place, v, mask=here)


@triton.jit
def _enlarge(
    x, bias, fine, heads, out, pixels, side,
    COUNT: tl.constexpr, FINE: tl.constexpr, STEP: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    one = tl.program_id(0)
    pixel = tl.program_id(1) * STEP + tl.arange(0, STEP)
    column = tl.arange(0, WIDTH)
    here = pixel < pixels
    inside = pixel[:, None] * WIDTH + column[None, :]
    first = one.to(tl.int64) * pixels * WIDTH
    v = tl.load(x + first + inside, mask=here[:, None], other=0.0).to(tl.float32)
    v += tl.load(bias + column)[None, :].to(tl.float32)
    if FINE:
        v += tl.load(fine + inside, mask=here[:, None], other=0.0).to(tl.float32)
    v = v * 0.5 * (1.0 + tl.erf(v * 0.7071067811865476))
    cell, inner = pixel // 16, pixel % 16
    quarter, sixteenth = inner // 4, inner % 4
    y = 4 * (cell // side) + 2 * (quarter // 2) + sixteenth // 2
    across = 4 * (cell % side) + 2 * (quarter % 2) + sixteenth % 2
    for k in tl.static_range(COUNT):
        head = tl.load(heads + (one * WIDTH + column) * COUNT + k).to(tl.float32)
        told = tl.sum(v * head[None, :], axis=1)
        whole = (one.to(tl.int64) * COUNT + k) * pixels
        tl.store(out + whole + y * 4 * side + across, told, mask=here)


@triton.jit
def _count(values, table, low, middle, high, height, width, ROWS: tl.constexpr, WIDE: tl.constexpr):
    one = tl.program_id(0)
    y = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    x = tl.program_id(2) * WIDE + tl.arange(0, WIDE)
    here = (y < height)[:, None] & (x < width)[None, :]
    place = one.to(tl.int64) * height * width + y[:, None] * width + x[None, :]
    v = tl.load(values + place, mask=here, other=float("-inf"))
    inside = v > middle
    mine = table + one * 7
    area = tl.sum(tl.sum(inside.to(tl.int32), axis=1), axis=0)
    tl.atomic_add(mine, tl.sum(tl.sum((v > low).to(tl.int32), axis=1), axis=0))
    tl.atomic_add(mine + 1, area)
    tl.atomic_add(mine + 2, tl.sum(tl.sum((v > high).to(tl.int32), axis=1), axis=0))
    tl.atomic_min(mine + 3, tl.min(tl.min(tl.where(inside, x[None, :], width), axis=1), axis=0))
    tl.atomic_min(mine + 4, tl.min(tl.min(tl.where(inside, y[:, None], height), axis=1), axis=0))
    tl.atomic_max(mine + 5, tl.max(tl.max(tl.where(inside, x[None, :], -1), axis=1), axis=0))
    tl.atomic_max(mine + 6, tl.max(tl.max(tl.where(inside, y[:, None], -1), axis=1), axis=0))

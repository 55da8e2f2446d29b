"""Thousands of single clicks on one embedding: SAM's decoder with all that is shared done once.

Every click meets the same image, so what the first block makes of the image is
computed once. From then on each click has an image of its own, but never more than eight
tokens to compare it with; instead of projecting 4096 cells to keys, values and queries the
few tokens are brought into the cells' space:

    q . (W c) = (W' q) . c        sum_i p_i (W c_i) = W (sum_i p_i c_i)

which halves the arithmetic and leaves no projected copy of the image behind. Only the
mask that will be shown is made.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Request
from segmeter.core.prompts import Click
from segmeter.models.sam._decoder import Embedding, from_cells
from segmeter.models.sam._encoded import SamEncodedScene
from segmeter.models.sam._prompt_batches import STABLE, stability
from segmeter.models.sam._resizing import Padded

HEADS = 8


class SingleClicks:
    """Predictions for many single positive clicks, without previous masks.

    `compiled` lets torch fuse the steps between matrix products: the batch size is free, so a
    network is compiled once for all scenes, and results agree to rounding.
    """

    def __init__(
        self, encoded: SamEncodedScene, dtype: torch.dtype = torch.float32, compiled: bool = False
    ) -> None:
        self.encoded, self.dtype = encoded, dtype
        if compiled:
            self._transform = torch.compile(self._transform, dynamic=True)  # type: ignore[method-assign]
            self._masks = torch.compile(self._masks, dynamic=True)  # type: ignore[method-assign]
        decoder: Any = _in_precision(encoded.network.decoder, dtype)
        self._decoder, self._blocks = decoder, list(decoder.transformer.layers)
        self._own = decoder._own_tokens()
        embedding = encoded.embedding
        self._fine = None if embedding.fine is None else [f.to(dtype) for f in embedding.fine]
        with torch.no_grad():
            self._cells = (embedding.cells + encoded.network.prompts.no_mask())[0].to(dtype)
            self._position = encoded.position[0].to(dtype)
            self._placed = self._cells + self._position
            first = self._blocks[0].cross_attn_token_to_image
            self._keys = _heads(first.k_proj(self._placed)[None])
            self._values = _heads(first.v_proj(self._cells)[None])

    def tokens(self, points: Tensor) -> Tensor:
        """Prompt tokens `(B, 2, width)` of scene points `(B, 2)`, `(y, x)`."""
        return self.encoded.encode_clicks(points).to(self.dtype)

    def logits(self, sparse: Tensor) -> Tensor:
        """Low-resolution logits `(B, low, low)` of the mask that is shown for each click."""
        tokens, cells, scores = self._scored(sparse)
        best = 1 + scores[:, 1:].argmax(dim=1)
        mlps = self._decoder.output_hypernetworks_mlps
        heads = torch.stack([mlp(tokens[:, i]) for i, mlp in enumerate(mlps)], dim=2)
        chosen = heads.take_along_dim(best[:, None, None], dim=2)
        if not (self.encoded.network.second and self.encoded.policy.masks == "published"):
            return self._masks(cells, chosen)[:, 0]
        single, other = self._masks(cells, torch.cat([heads[:, :, :1], chosen], dim=2)).unbind(1)
        return single.where((stability(single.float()) >= STABLE)[:, None, None], other)

    def candidates(
        self, sparse: Tensor, above: float, numbers: Sequence[int] = (1, 2, 3)
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Maps `(m, low, low)`, scores and clicks of the masks of each click that pass.

        `numbers` say which of the decoder's masks: the three of a lone click, or 0, the one of
        an unambiguous prompt.

        The score is known before any map is made: clicks without a mask above are left there.
        """
        tokens, cells, scores = self._scored(sparse)
        scores = scores[:, list(numbers)]
        scores = (scores.sigmoid() if self._decoder.fine else scores).float()
        passed = scores > above if above > 0 else torch.ones_like(scores, dtype=torch.bool)
        click, which = passed.nonzero().unbind(1)
        some, row = click.unique_consecutive(return_inverse=True)  # type: ignore[no-untyped-call]
        if not len(some):
            low = 4 * self.encoded.network.prompts.grid_side
            return cells.new_zeros(0, low, low).float(), scores[click, which], click
        mlps = self._decoder.output_hypernetworks_mlps
        heads = torch.stack([mlps[i](tokens[some, i]) for i in numbers], dim=2)
        maps = self._masks(cells if len(some) == len(cells) else cells[some], heads)
        return maps[row, which].float(), scores[click, which], click

    def _scored(self, sparse: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens of the masks, cells, and the scores as the head gives them."""
        own = self._own.expand(len(sparse), -1, -1)
        tokens, cells = self._transform(torch.cat([own, sparse], 1))
        tokens = tokens[:, 1:] if self._decoder.fine else tokens
        return tokens[:, 1:], cells, self._decoder.iou_prediction_head(tokens[:, 0])

    def _transform(self, start: Tensor) -> tuple[Tensor, Tensor]:
        """The two-way transformer: tokens `(B, T, C)` and cells `(B, N, C)`."""
        tokens, cells = self._first_block(start)
        tokens, cells = self._second_block(tokens, cells, start)
        transformer = self._decoder.transformer
        asked = transformer.final_attn_token_to_image
        seen = self._encode(asked, tokens + start, cells)
        return transformer.norm_final_attn(tokens + seen), cells

    def _first_block(self, start: Tensor) -> tuple[Tensor, Tensor]:
        block = self._blocks[0]
        tokens = self._first_tokens(start)
        told = block.cross_attn_image_to_token
        questions, offset = _into_cells(told.k_proj(tokens + start), told.q_proj)
        scores = (questions.flatten(0, 1) @ self._placed.T).view(*questions.shape[:2], -1)
        return tokens, block.norm4(self._cells + _told(told, tokens, scores + offset))

    def _first_tokens(self, start: Tensor) -> Tensor:
        """The tokens after the first block; all of them look at the same image."""
        block = self._blocks[0]
        tokens = block.norm1(block.self_attn(start, start, start))
        looked = block.cross_attn_token_to_image
        # All tokens of all clicks ask the same image: one long list of questions.
        asked = _heads(looked.q_proj(tokens + start).flatten(0, 1)[None])
        seen = F.scaled_dot_product_attention(asked, self._keys, self._values)
        seen = seen[0].transpose(0, 1).reshape(*tokens.shape[:2], -1)
        tokens = block.norm2(tokens + looked.out_proj(seen))
        settled: Tensor = block.norm3(tokens + block.mlp(tokens))
        return settled

    def _second_block(self, tokens: Tensor, cells: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        block = self._blocks[1]
        asking = tokens + start
        tokens = block.norm1(tokens + block.self_attn(asking, asking, tokens))
        looked = self._encode(block.cross_attn_token_to_image, tokens + start, cells)
        tokens = block.norm2(tokens + looked)
        tokens = block.norm3(tokens + block.mlp(tokens))
        told = block.cross_attn_image_to_token
        questions, offset = _into_cells(told.k_proj(tokens + start), told.q_proj)
        scores = self._compare(questions, cells) + offset
        return tokens, block.norm4(cells + _told(told, tokens, scores))

    def _encode(self, attention: Any, tokens: Tensor, cells: Tensor) -> Tensor:
        """Attention of tokens to their own images, `(B, T, C)`."""
        # The keys' bias adds the same to all cells and falls out of the softmax.
        questions, _ = _into_cells(attention.q_proj(tokens), attention.k_proj)
        shares = self._compare(questions, cells).softmax(dim=2)
        return _seen(attention, shares @ cells)

    def _compare(self, questions: Tensor, cells: Tensor) -> Tensor:
        """Scores `(B, HEADS * T, N)` of questions against cells with their positions."""
        there = (questions.flatten(0, 1) @ self._position.T).view(*questions.shape[:2], -1)
        return torch.baddbmm(there, questions, cells.transpose(1, 2))

    def _masks(self, cells: Tensor, heads: Tensor) -> Tensor:
        """Logits `(B, k, low, low)` for mask heads `(B, width / 8, k)`."""
        fine = None if self._fine is None else (self._fine[0], self._fine[1])
        pixels = self._decoder._enlarge(Embedding(cells, fine), cells)
        answers = pixels.flatten(1, 2) @ heads
        return from_cells(answers, self.encoded.network.prompts.grid_side, 2)


def _heads(x: Tensor) -> Tensor:
    """`(B, n, C)` to `(B, HEADS, n, C / HEADS)`."""
    return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)


def _by_head(weight: Tensor) -> Tensor:
    """A projection's weight `(inner, C)` as `(HEADS, inner / HEADS, C)`."""
    return weight.view(HEADS, -1, weight.shape[1])


def _into_cells(x: Tensor, projection: Any) -> tuple[Tensor, Tensor]:
    """Tokens' keys or queries `(B, T, inner)` in the space of the cells, scaled.

    Returns `(B, HEADS * T, C)`, and what the projection's bias adds, `(B, HEADS * T, 1)`.
    """
    split = x.view(*x.shape[:2], HEADS, -1)
    split = split * split.shape[3] ** -0.5
    inside = torch.einsum("bthd,hdc->bhtc", split, _by_head(projection.weight))
    offset = torch.einsum("bthd,hd->bht", split, projection.bias.view(HEADS, -1))
    return inside.flatten(1, 2), offset.flatten(1)[..., None]


def _seen(attention: Any, mixed: Tensor) -> Tensor:
    """Attention output of tokens, `(B, T, C)`, from mixtures of cells `(B, HEADS * T, C)`."""
    mixed = mixed.view(len(mixed), HEADS, -1, mixed.shape[2])
    weight = _by_head(attention.v_proj.weight)
    values = torch.einsum("bhtc,hdc->bthd", mixed, weight).flatten(2)
    out: Tensor = attention.out_proj(values + attention.v_proj.bias)
    return out


def _told(attention: Any, tokens: Tensor, scores: Tensor) -> Tensor:
    """Attention output of cells, `(B, N, C)`, from scores `(B, HEADS * T, N)`."""
    batch, count = tokens.shape[:2]
    shares = scores.view(batch, HEADS, count, -1).softmax(dim=2).flatten(1, 2)
    learnt: Tensor = shares.transpose(1, 2) @ _said(attention, tokens) + attention.out_proj.bias
    return learnt


def _said(attention: Any, tokens: Tensor) -> Tensor:
    """Values of each head of each token for a cell, `(B, HEADS * T, C)`."""
    values = attention.v_proj(tokens).view(*tokens.shape[:2], HEADS, -1)
    weight = attention.out_proj.weight.view(-1, HEADS, values.shape[3])
    return torch.einsum("bthd,chd->bhtc", values, weight).flatten(1, 2)


def _in_precision(decoder: Any, dtype: torch.dtype) -> Any:
    """The decoder itself where it has that precision already, else a copy."""
    if decoder.iou_token.weight.dtype == dtype and not decoder.training:
        return decoder
    return copy.deepcopy(decoder).to(dtype).eval()


class MovablePoints:
    """Sessions whose last click is a variable, in the frame of the network's square."""

    def __init__(self, encoded: SamEncodedScene, requests: Sequence[Request]) -> None:
        if not all(
            request.prompts and isinstance(request.prompts[-1], Click) for request in requests
        ):
            raise BadInput("only a session whose last prompt is a click has a gradient")
        self._encoded, self._requests = encoded, list(requests)
        frame = encoded.frame
        inside = frame.inside if isinstance(frame, Padded) else (frame.side, frame.side)
        self.sizes = [inside] * len(requests)
        self.step_sizes = [frame.shape] * len(requests)
        low = 4 * encoded.network.prompts.grid_side
        self._answered = tuple(-(-n * low // frame.side) for n in inside)
        self._low = low
        self._tokens = [encoded.tokens(request.prompts) for request in requests]
        self._last = [
            sum(isinstance(p, Click) for p in request.prompts) - 1 for request in requests
        ]  # clicks come first among the tokens, strokes and boxes do not occur here
        with torch.no_grad():
            self._dense = [
                encoded.encode_masks([encoded.mask_prompt(request)]) for request in requests
            ]

    def start(self) -> Tensor:
        scale = torch.tensor(self._encoded.frame.scale)
        points = [t[0][last] for t, last in zip(self._tokens, self._last, strict=True)]
        return (torch.tensor(points, dtype=torch.float32) * scale).to(self._encoded.network.device)

    def logits(self, points: Tensor) -> list[Tensor]:
        moved = points / torch.tensor(self._encoded.frame.scale, device=points.device)
        found: dict[int, Tensor] = {}
        for group in self._encoded.groups([len(labels) for _, labels in self._tokens]):
            sparse = self._sparse(group, moved)
            dense = self._stack([self._dense[i] for i in group])
            logits, scores = self._encoded.decode(sparse, dense)
            first = [len(self._requests[i].prompts) == 1 for i in group]
            shown = self._encoded.choose(logits.detach(), scores.detach(), first)
            for k, (i, index) in enumerate(zip(group, shown, strict=True)):
                found[i] = logits[k, int(index)]
        rows, columns = self._answered
        return [found[i][:rows, :columns] for i in range(len(self._requests))]

    def masks(self, logits: Sequence[Tensor]) -> list[Mask]:
        rows, columns = self._answered
        pad = (0, self._low - columns, 0, self._low - rows)
        # Only the first cell beyond the image matters; it is replaced by its neighbour.
        return self._encoded.masks_of(
            [F.pad(one.detach()[None], pad, mode="replicate")[0] for one in logits]
        )

    def into_prediction(self, index: int, mask: Mask) -> Tensor:
        bits = torch.from_numpy(mask.dense()).to(self._encoded.network.device)
        rows, columns = self._answered
        low = self._encoded.frame.shrink(bits[None, None].float(), self._low)[0, 0]
        return (low[:rows, :columns] > 0.5).float()

    def into_frame(self, index: int, plane: npt.NDArray[np.float32]) -> Tensor:
        whole = torch.from_numpy(plane).to(self._encoded.network.device)[None, None]
        size = self.sizes[index]
        return F.interpolate(whole, size=size, mode="bilinear", align_corners=True)[0, 0]

    def to_image(self, points: Tensor) -> list[tuple[float, float]]:
        high, wide = self._encoded.frame.scale
        return [(y / high, x / wide) for y, x in points.detach().tolist()]

    def _sparse(self, group: Sequence[int], moved: Tensor) -> Tensor:
        points = torch.tensor([self._tokens[i][0] for i in group], dtype=torch.float32)
        labels = torch.tensor([self._tokens[i][1] for i in group], dtype=torch.long)
        points = points.to(moved.device)
        place = torch.zeros(points.shape[:2], dtype=torch.bool, device=moved.device)
        for k, i in enumerate(group):
            place[k, self._last[i]] = True
        free = points.masked_scatter(place[..., None].expand_as(points), moved[list(group)])
        return self._encoded.encode_points(free, labels)

    def _stack(self, dense: list[Tensor]) -> Tensor:
        most = max(d.shape[1] for d in dense)
        if most == 1:
            return dense[0]
        return torch.cat([d.expand(-1, most, -1) for d in dense])

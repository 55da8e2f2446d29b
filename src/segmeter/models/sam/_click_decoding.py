"""Single clicks, thousands on one embedding, and clicks that a gradient moves.

The decoder's passes are large, in half precision where asked and compiled by torch on a GPU. Only
masks that are needed are made.
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
        self._decoder: Any = _in_precision(encoded.network.decoder, dtype)
        own = encoded.embedding
        fine = None if own.fine is None else (own.fine[0].to(dtype), own.fine[1].to(dtype))
        with torch.no_grad():
            cells = own.cells + encoded.network.prompts.no_mask()
            self._image = Embedding(cells.to(dtype), fine)
            self._position = encoded.position.to(dtype)

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
        own = self._decoder._own_tokens().expand(len(sparse), -1, -1)
        tokens, cells = self._transform(torch.cat([own, sparse], 1))
        tokens = tokens[:, 1:] if self._decoder.fine else tokens
        return tokens[:, 1:], cells, self._decoder.iou_prediction_head(tokens[:, 0])

    def _transform(self, start: Tensor) -> tuple[Tensor, Tensor]:
        """The two-way transformer: tokens `(B, T, C)` and cells `(B, N, C)`."""
        tokens, cells = self._decoder.transformer(start, self._image.cells, self._position)
        return tokens, cells

    def _masks(self, cells: Tensor, heads: Tensor) -> Tensor:
        """Logits `(B, k, low, low)` for mask heads `(B, width / 8, k)`."""
        pixels = self._decoder._enlarge(self._image, cells)
        answers = pixels.flatten(1, 2) @ heads
        return from_cells(answers, self.encoded.network.prompts.grid_side, 2)


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

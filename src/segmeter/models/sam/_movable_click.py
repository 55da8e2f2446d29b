"""SAM with the last click free to move: its coordinates go through the prompt encoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Request
from segmeter.core.prompts import Click
from segmeter.models.sam._encoded import SamEncodedScene
from segmeter.models.sam._frames import Padded

__all__ = ["MovablePoints"]


class MovablePoints:
    """Sessions whose last click is a variable, in the frame of the network's square."""

    def __init__(self, encoded: SamEncodedScene, requests: Sequence[Request]) -> None:
        if not all(
            request.prompts and isinstance(request.prompts[-1], Click) for request in requests
        ):
            raise BadInput("only a session whose last prompt is a click can be followed uphill")
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
        ]  # clicks come first among the tokens, strokes and boxes are not played here
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
        # Only the first cell beyond the image has a say; its neighbour stands in for it.
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

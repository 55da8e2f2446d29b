"""Click networks with the last click free to move: soft discs instead of hard ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask
from segmeter.models.clicknets.discs import points_tensor, soft_discs
from segmeter.models.clicknets.encoded import ClickNetEncodedScene, Session, batches

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MovableDiscs"]


class MovableDiscs:
    """Sessions whose last click is a variable, in the frame of the network's input.

    All clicks are drawn as soft discs, the earlier ones without a gradient. The frame is
    the one of the click they start with.
    """

    def __init__(self, encoded: ClickNetEncodedScene, sessions: Sequence[Session]) -> None:
        self._encoded = encoded
        self._sessions = list(sessions)
        self.sizes = [session.frame.input for session in sessions]
        self.step_sizes = self.sizes

    def start(self) -> Tensor:
        import torch

        last = [session.frame.into(session.spots[-1][:2]) for session in self._sessions]
        return torch.tensor(last, device=self._encoded.device)

    def logits(self, points: Tensor) -> list[Tensor]:
        found: dict[int, Tensor] = {}
        for part in batches(self._sessions):
            group = [self._sessions[i] for i in part]
            found |= dict(
                zip(part, self._encoded.logits(group, self._discs(part, points)), strict=True)
            )
        return [found[i] for i in range(len(self._sessions))]

    def masks(self, logits: Sequence[Tensor]) -> list[Mask]:
        threshold = self._encoded.settings.threshold
        return [
            Mask.of((session.frame.paste(one.detach().sigmoid()) > threshold).cpu().numpy())
            for session, one in zip(self._sessions, logits, strict=True)
        ]

    def into_prediction(self, index: int, mask: Mask) -> Tensor:
        return (self.into_frame(index, mask.dense().astype(np.float32)) > 0.5).float()

    def into_frame(self, index: int, plane: npt.NDArray[np.float32]) -> Tensor:
        import torch

        whole = torch.from_numpy(plane).to(self._encoded.device)
        return self._sessions[index].frame.cut(whole[None])[0]

    def to_image(self, points: Tensor) -> list[tuple[float, float]]:
        pairs = points.detach().tolist()
        return [s.frame.out_of((y, x)) for s, (y, x) in zip(self._sessions, pairs, strict=True)]

    def _discs(self, part: Sequence[int], points: Tensor) -> Tensor:
        """The discs of sessions of one input size, the last click of each where it is now."""
        import torch

        group = [self._sessions[i] for i in part]
        spots = [[(*s.frame.into(p[:2]), p[2]) for p in s.spots] for s in group]
        table = points_tensor(spots).to(self._encoded.device)
        place = torch.zeros(table.shape[:3], dtype=torch.bool, device=table.device)
        for b, session in enumerate(group):
            sign = session.spots[-1][2]
            count = sum(spot[2] is sign for spot in session.spots)
            place[b, 0 if sign else 1, count - 1] = True
        moved = table.masked_scatter(place[..., None].expand_as(table), points[list(part)])
        return soft_discs(moved, group[0].frame.input)

"""Click networks with the last click free to move: soft discs instead of hard ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask
from segmeter.models.clicknets.discs import points_tensor, soft_discs
from segmeter.models.clicknets.view import ClickNetView, Session, batches

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SoftSessions"]


class SoftSessions:
    """Sessions whose last click is a variable, in the frame of the network's input.

    All clicks are drawn as soft discs, the earlier ones without a gradient. The frame is
    the one of the click they start with.
    """

    def __init__(self, view: ClickNetView, sessions: Sequence[Session]) -> None:
        self._view = view
        self._sessions = list(sessions)
        self.sizes = [session.frame.input for session in sessions]
        self.step_sizes = self.sizes

    def start(self) -> Tensor:
        """Where the last clicks are, `(B, 2)` rows and columns of the frames."""
        import torch

        last = [session.frame.into(session.spots[-1][:2]) for session in self._sessions]
        return torch.tensor(last, device=self._view.device)

    def probabilities(self, points: Tensor) -> list[Tensor]:
        """Soft answers `(h, w)`, one a session; differentiable in the points `(B, 2)`."""
        found: dict[int, Tensor] = {}
        for part in batches(self._sessions):
            maps = self._view.logits([self._sessions[i] for i in part], self._discs(part, points))
            found |= dict(zip(part, maps.sigmoid(), strict=True))
        return [found[i] for i in range(len(self._sessions))]

    def into_answer(self, index: int, mask: Mask) -> Tensor:
        """A mask of the picture where a session's answer lies, `(h, w)` of 0 and 1."""
        return (self._cut(index, mask.dense().astype(np.float32)) > 0.5).float()

    def into_frame(self, index: int, plane: npt.NDArray[np.float32]) -> Tensor:
        """A map of the picture in a session's frame."""
        return self._cut(index, plane)

    def to_picture(self, points: Tensor) -> list[tuple[float, float]]:
        """Points of the frames in the picture."""
        pairs = points.detach().tolist()
        return [s.frame.out_of((y, x)) for s, (y, x) in zip(self._sessions, pairs, strict=True)]

    def masks(self, probabilities: Sequence[Tensor]) -> list[Mask]:
        """What a soft answer would show at the picture's size."""
        threshold = self._view.settings.threshold
        return [
            Mask.of((session.frame.paste(one.detach()) > threshold).cpu().numpy())
            for session, one in zip(self._sessions, probabilities, strict=True)
        ]

    def _discs(self, part: Sequence[int], points: Tensor) -> Tensor:
        import torch

        group = [self._sessions[i] for i in part]
        spots = [[(*s.frame.into(p[:2]), p[2]) for p in s.spots] for s in group]
        table = points_tensor(spots).to(self._view.device)
        place = torch.zeros(table.shape[:3], dtype=torch.bool, device=table.device)
        for b, session in enumerate(group):
            sign = session.spots[-1][2]
            count = sum(spot[2] is sign for spot in session.spots)
            place[b, 0 if sign else 1, count - 1] = True
        table = table.masked_scatter(place[..., None].expand_as(table), points[list(part)])
        return soft_discs(table, group[0].frame.input)

    def _cut(self, index: int, plane: npt.NDArray[np.float32]) -> Tensor:
        import torch

        whole = torch.from_numpy(plane).to(self._view.device)
        return self._sessions[index].frame.cut(whole[None])[0]

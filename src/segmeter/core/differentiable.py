"""Differentiable models: gradients with respect to the position of the last click."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask
from segmeter.core.models import Request

if TYPE_CHECKING:
    from torch import Tensor


class MovableClicks(Protocol):
    """Many sessions whose last click may move, each in the frame its network sees.

    From `step_sizes` the published attack takes its step; SAM's wrapper takes the image's although
    its clicks live in another frame.
    """

    sizes: list[tuple[int, int]]  # height and width of each session's frame
    step_sizes: list[tuple[int, int]]

    def start(self) -> Tensor:
        """Positions of the last clicks, `(B, 2)`: row and column in each frame."""

    def logits(self, points: Tensor) -> list[Tensor]:
        """Logits `(h, w)`, one per session, differentiable in the points `(B, 2)`."""

    def masks(self, logits: Sequence[Tensor]) -> list[Mask]:
        """Masks of these logits at the image's size."""

    def into_prediction(self, index: int, mask: Mask) -> Tensor:
        """A mask of the image on the grid of a session's logits, 0 and 1."""

    def into_frame(self, index: int, plane: npt.NDArray[np.float32]) -> Tensor:
        """A map of the image, `(H, W)`, in a session's frame."""

    def to_image(self, points: Tensor) -> list[tuple[float, float]]:
        """Points of the frames in the image."""


@runtime_checkable
class Differentiable(Protocol):
    """An encoded scene whose logits are differentiable in the position of the last click."""

    def movable_clicks(self, requests: Sequence[Request]) -> MovableClicks: ...

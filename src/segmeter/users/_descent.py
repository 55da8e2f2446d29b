"""Losses of the gradient attack (Dice and location), and Adam's steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from segmeter.core.differentiable import MovableClicks

__all__ = ["Adam", "dice_loss", "disc_sum", "rates", "scales"]

DISC = 5.0


class Adam:
    """Adam with a step size of its own for each row."""

    def __init__(self, points: Tensor, rates: Tensor) -> None:
        self.points, self._rates, self._count = points, rates, 0
        self._mean = self._square = points.new_zeros(points.shape)

    def step(self, slope: Tensor) -> None:
        self._count += 1
        self._mean = 0.9 * self._mean + 0.1 * slope
        self._square = 0.999 * self._square + 0.001 * slope.square()
        mean = self._mean / (1 - 0.9**self._count)
        square = self._square / (1 - 0.999**self._count)
        self.points = self.points.detach() - self._rates * mean / (square.sqrt() + 1e-8)


def rates(sizes: Sequence[tuple[int, int]], like: Tensor) -> Tensor:
    """Step sizes `(B, 1)`: 5 pixels for a frame of 400 x 400, in proportion for others."""
    steps = [5 * math.hypot(*size) / (400 * math.sqrt(2)) for size in sizes]
    return like.new_tensor(steps)[:, None]


def scales(soft: MovableClicks) -> list[float]:
    """Pixels of each frame for one pixel of the image, the mean of both axes."""
    start = soft.start()
    pairs = zip(soft.to_image(start), soft.to_image(start + 1), strict=True)
    return [1 / math.sqrt((b[0] - a[0]) * (b[1] - a[1])) for a, b in pairs]


def dice_loss(logits: Tensor, ground_truth: Tensor) -> Tensor:
    """Soft Dice loss; 0 when there is nothing to find."""
    if not bool(ground_truth.any()):
        return logits.sum() * 0
    p = logits.sigmoid()
    return 1 - 2 * (p * ground_truth).sum() / (p + ground_truth).sum().clamp_min(1e-7)


def disc_sum(point: Tensor, plane: Tensor, radius: float = DISC) -> Tensor:
    """Sum of a map under a soft disc; only the pixels near the disc are looked at.

    The disc covers a pixel at distance d by `clip(radius + 1/2 - d, 0, 1)`; its centre is
    kept inside the map.
    """
    height, width = plane.shape
    last = point.new_tensor([height - 1, width - 1])
    centre = point.clamp(min=torch.zeros_like(last), max=last)
    reach = math.ceil(radius) + 2
    row, column = (round(c) for c in centre.tolist())
    top, left = max(0, row - reach), max(0, column - reach)
    near = plane[top : row + reach + 1, left : column + reach + 1]
    rows = torch.arange(top, top + near.shape[0], device=plane.device)
    columns = torch.arange(left, left + near.shape[1], device=plane.device)
    squared = (rows[:, None] - centre[0]).square() + (columns - centre[1]).square()
    covered = (radius + 0.5 - squared.clamp_min(1e-12).sqrt()).clamp(0, 1)
    return (covered * near).sum()

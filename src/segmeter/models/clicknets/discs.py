"""Clicks as discs: what a click network sees of a click.

The hard disc is what the networks were trained on. The soft disc has an edge one pixel
wide, so that the click can be moved by a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["RADIUS", "hard_discs", "normalised", "points_tensor", "soft_disc", "soft_discs"]

RADIUS = 5.0
_FAR = 1e6  # squared distance of a row that holds no click
_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)

Spot = tuple[float, float, bool]


def normalised(image: Tensor) -> Tensor:
    """ImageNet's mean and deviation taken out of an image in 0..1."""
    mean = image.new_tensor(_MEAN).view(1, 3, 1, 1)
    return (image - mean) / image.new_tensor(_STD).view(1, 3, 1, 1)


def points_tensor(sessions: Sequence[Sequence[Spot]]) -> Tensor:
    """Clicks `(row, column, positive)` of many sessions as `(B, 2, N, 2)`.

    Positive clicks come first, then negative ones; rows without a click hold -1.
    """
    import torch

    most = max(
        (sum(spot[2] is sign for spot in spots) for spots in sessions for sign in (True, False)),
        default=0,
    )
    points = torch.full((len(sessions), 2, max(1, most), 2), -1.0)
    for b, spots in enumerate(sessions):
        for side, sign in enumerate((True, False)):
            mine = [spot[:2] for spot in spots if spot[2] is sign]
            if mine:
                points[b, side, : len(mine)] = torch.tensor(mine)
    return points


def hard_discs(points: Tensor, size: tuple[int, int], radius: float = RADIUS) -> Tensor:
    """1 where a click lies within the radius, `(B, 2, H, W)`."""
    import torch

    nearest = _squared(points[:, :, 0], size)
    for n in range(1, points.shape[2]):
        nearest = torch.minimum(nearest, _squared(points[:, :, n], size))
    return (nearest <= radius**2).to(points.dtype)


def soft_discs(points: Tensor, size: tuple[int, int], radius: float = RADIUS) -> Tensor:
    """Discs with an edge one pixel wide, `(B, 2, H, W)`; differentiable in the points.

    The coverage of a pixel at distance d is `clip(radius + 1/2 - d, 0, 1)`; where discs
    of one sign overlap they add up to no more than 1.
    """
    covered = soft_disc(points[:, :, 0], size, radius)
    for n in range(1, points.shape[2]):
        covered = covered + soft_disc(points[:, :, n], size, radius)
    return covered.clamp(max=1)


def soft_disc(points: Tensor, size: tuple[int, int], radius: float = RADIUS) -> Tensor:
    """One soft disc a point: `(..., 2)` to `(..., H, W)`."""
    # At the centre itself the root has no slope; the disc is flat there anyway.
    distance = _squared(points, size).clamp_min(1e-12).sqrt()
    return (radius + 0.5 - distance).clamp(0, 1)


def _squared(points: Tensor, size: tuple[int, int]) -> Tensor:
    """Squared distance of every pixel to a click: `(..., 2)` to `(..., H, W)`."""
    import torch

    rows = torch.arange(size[0], dtype=points.dtype, device=points.device)
    columns = torch.arange(size[1], dtype=points.dtype, device=points.device)
    down = (rows - points[..., 0, None]).square()
    across = (columns - points[..., 1, None]).square()
    squared = down[..., :, None] + across[..., None, :]
    empty = (points.amax(dim=-1) < 0)[..., None, None]
    return squared.masked_fill(empty, _FAR)

"""Object-contextual representations with one class: a global context beside every pixel."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

__all__ = ["Distribute", "gather"]


def gather(features: Tensor, logits: Tensor) -> Tensor:
    """The mean feature under the softmax of the auxiliary logits, `(B, C, 1, 1)`."""
    weights = torch.softmax(logits.flatten(2), dim=2)
    return torch.matmul(features.flatten(2), weights.transpose(1, 2)).unsqueeze(3)


class Distribute(nn.Module):
    """Puts the context beside the features and mixes the two."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.object_context_block = _Context(width)
        self.conv_bn_dropout = nn.Sequential(
            nn.Conv2d(4 * width, 2 * width, 1, bias=False),
            nn.Sequential(nn.BatchNorm2d(2 * width), nn.ReLU()),
        )

    def forward(self, features: Tensor, context: Tensor) -> Tensor:
        spread = self.object_context_block(context).expand_as(features)
        mixed: Tensor = self.conv_bn_dropout(torch.cat([spread, features], dim=1))
        return mixed


class _Context(nn.Module):
    """The context every pixel receives.

    With one class each pixel attends to one region, so attention is 1 everywhere:
    `f_pixel` and `f_object` are in the checkpoints and cannot change the result.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.f_pixel = _ones(2 * width, width, width)
        self.f_object = _ones(2 * width, width, width)
        self.f_down = _ones(2 * width, width)
        self.f_up = _ones(width, 2 * width)

    def forward(self, context: Tensor) -> Tensor:
        lifted: Tensor = self.f_up(self.f_down(context))
        return lifted


def _ones(*widths: int) -> nn.Sequential:
    """1x1 convolutions, each with batch normalisation and ReLU."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers.append(nn.Conv2d(inputs, outputs, 1, bias=False))
        layers.append(nn.Sequential(nn.BatchNorm2d(outputs), nn.ReLU()))
    return nn.Sequential(*layers)

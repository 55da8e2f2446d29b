"""RITM's network: HRNet with an OCR head, clicks and previous mask added in the stem."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from segmeter.models.clicknets._hrnet import HRNet, enlarge
from segmeter.models.clicknets._object_context import Distribute, gather
from segmeter.models.clicknets.architectures import Ritm
from segmeter.models.clicknets.discs import normalised

__all__ = ["RitmNetwork"]


class _Scale(nn.Module):
    """Multiplies by the size of one learnt number."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((1,), 0.05))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale.abs()


class _Extractor(HRNet):
    """Backbone and head under the one prefix that the checkpoints give them."""

    def __init__(self, width: int, small: bool, ocr_width: int) -> None:
        super().__init__(width, small)
        channels = 15 * width
        self.conv3x3_ocr = nn.Sequential(
            nn.Conv2d(channels, 2 * ocr_width, 3, padding=1),
            nn.BatchNorm2d(2 * ocr_width),
            nn.ReLU(),
        )
        self.ocr_distri_head = Distribute(ocr_width)
        self.cls_head = nn.Conv2d(2 * ocr_width, 1, 1)
        self.aux_head = nn.Sequential(
            nn.Conv2d(channels, channels, 1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, 1, 1),
        )

    def forward(self, image: Tensor, clicks: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and auxiliary logits at a quarter of the resolution."""
        everything = self.features(image, clicks)
        auxiliary = self.aux_head(everything)
        features = self.conv3x3_ocr(everything)
        mixed = self.ocr_distri_head(features, gather(features, auxiliary))
        return self.cls_head(mixed), auxiliary


class RitmNetwork(nn.Module):
    """Image `(B, 3, H, W)` in 0..1 and maps `(B, C, H, W)` to logits `(B, 1, H, W)`.

    Maps are the previous probabilities (where the network takes them), the positive and
    the negative discs.
    """

    def __init__(self, shape: Ritm) -> None:
        super().__init__()
        self.with_previous = shape.with_previous
        channels = 3 if shape.with_previous else 2
        self.maps_transform = nn.Sequential(
            nn.Conv2d(channels, 16, 1),
            nn.LeakyReLU(0.2) if shape.leaky else nn.ReLU(),
            nn.Conv2d(16, 64, 3, stride=2, padding=1),
            _Scale(),
        )
        self.feature_extractor = _Extractor(shape.width, shape.small, shape.ocr_width)

    def forward(self, image: Tensor, maps: Tensor) -> Tensor:
        return enlarge(self.both(image, maps)[0], image.shape[-2:])

    def both(self, image: Tensor, maps: Tensor) -> tuple[Tensor, Tensor]:
        """The logits and the auxiliary logits as the head gives them."""
        small: tuple[Tensor, Tensor] = self.feature_extractor(
            normalised(image), self.maps_transform(maps)
        )
        return small

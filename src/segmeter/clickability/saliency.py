"""Saliency as a click source: people click what stands out in the crop of an error region.

U2-Net-P finds it: nested U-shaped blocks (Qin et al. 2020).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from segmeter.clickability.maps import ClickabilityMap, ClickRegion, ClickSource, uniform
from segmeter.clickability.network import COUNTERS, normalised
from segmeter.core.masks import Mask
from segmeter.models.sam._decoder import named
from segmeter.models.weights import load_into, named_tensors

_SIDE = 320
_GREY = 128
_GROWTH = 1.4


Saliency = Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]]
"""Saliency map: an image `(H, W, 3)` of uint8 in, `(H, W)` in 0..1 out."""
_INNER, _OUTER = 16, 64


def saliency_source(network: Path | Saliency, cut_out: bool = True) -> ClickSource:
    """SM and SI: saliency of the error region's crop, with the rest greyed (`cut_out`) or not.

    The published maps used another network (TranSalNet), whose weights are not available.
    """
    saliency = u2net(network) if isinstance(network, Path) else network

    def source(region: ClickRegion) -> ClickabilityMap:
        wrong = region.mask
        if not wrong:
            return uniform(wrong)
        low, high = crop_box(wrong)
        crop = region.scene.pixels[low[0] : high[0], low[1] : high[1]]
        inside = wrong.crop(low, high)
        if cut_out:
            crop = np.where(inside[..., None], crop, np.uint8(_GREY))
        weights = saliency(np.ascontiguousarray(crop)) * inside
        if not weights.any():
            weights = inside.astype(np.float32)
        weights = (weights / weights.sum(dtype=np.float64)).astype(np.float32)
        return ClickabilityMap((wrong.shape[0], wrong.shape[1]), low, weights)

    return source


def u2net(weights: Path) -> Saliency:
    """U2-Net-P from its folder or file; its output stretched to 0..1."""
    network = _load(weights)

    def saliency(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        small = cv2.resize(image, (_SIDE, _SIDE), interpolation=cv2.INTER_LINEAR)
        largest = max(1, int(small.max()))
        framed = normalised(np.asarray(small * (255.0 / largest)).astype(np.float32))
        with torch.inference_mode():
            pixels = torch.from_numpy(framed.transpose(2, 0, 1)[None].copy())
            made: npt.NDArray[np.float32] = network(pixels)[0, 0].numpy()
        low, high = float(made.min()), float(made.max())
        stretched = (made - low) / max(high - low, 1e-8)
        wide = cv2.resize(stretched, image.shape[1::-1], interpolation=cv2.INTER_LINEAR)
        return np.asarray(wide, dtype=np.float32)

    return saliency


def crop_box(error_region: Mask) -> tuple[tuple[int, int], tuple[int, int]]:
    """The error region's box, each side grown by a fifth, cut at the image's border."""
    low, high = [], []
    for axis in (0, 1):
        side = error_region.high[axis] - error_region.low[axis]
        grow = int((int(_GROWTH * side) - side) / 2)
        low.append(max(0, error_region.low[axis] - grow))
        high.append(min(error_region.shape[axis], error_region.high[axis] + grow))
    return (low[0], low[1]), (high[0], high[1])


def _load(path: Path) -> U2NetP:
    network = U2NetP()
    load_into(network, named_tensors(path), f"the weights of U2-Net-P in '{path}'", COUNTERS)
    return network.eval()


class U2NetP(nn.Module):
    """The small U2-Net; keys as in the original checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        heights = (7, 6, 5, 4)
        for i, height in enumerate(heights):
            self.add_module(f"stage{i + 1}", _Block(3 if i == 0 else _OUTER, height))
            self.add_module(f"stage{i + 1}d", _Block(2 * _OUTER, height))
        for name, before in (("stage5", _OUTER), ("stage6", _OUTER), ("stage5d", 2 * _OUTER)):
            self.add_module(name, _Block(before, 4, flat=True))
        for i in range(6):
            self.add_module(f"side{i + 1}", nn.Conv2d(_OUTER, 1, 3, padding=1))
        self.outconv = nn.Conv2d(6, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The fused saliency `(B, 1, H, W)`, 0..1, of a normalised image `(B, 3, H, W)`."""
        size = x.shape[-2:]
        stages: list[Tensor] = []
        for i in range(1, 7):
            if i > 1:
                x = F.max_pool2d(x, 2, stride=2, ceil_mode=True)
            x = getattr(self, f"stage{i}")(x)
            stages.append(x)
        ways = [stages[5]]
        for i in range(5, 0, -1):
            up = _like(ways[0], stages[i - 1])
            ways.insert(0, getattr(self, f"stage{i}d")(torch.cat([up, stages[i - 1]], dim=1)))
        sides = []
        for i, way in enumerate(ways):
            side = getattr(self, f"side{i + 1}")(way)
            sides.append(F.interpolate(side, size=size, mode="bilinear", align_corners=False))
        return torch.sigmoid(self.outconv(torch.cat(sides, dim=1)))


def _conv(before: int, width: int, dilation: int = 1) -> nn.Sequential:
    return named(
        conv_s1=nn.Conv2d(before, width, 3, padding=dilation, dilation=dilation),
        bn_s1=nn.BatchNorm2d(width),
        relu=nn.ReLU(),
    )


class _Block(nn.Module):
    """A U of a given height inside a residual path; a flat one dilates instead of shrinking."""

    def __init__(self, before: int, height: int, flat: bool = False) -> None:
        super().__init__()
        self.height, self.flat = height, flat
        self.rebnconvin = _conv(before, _OUTER)
        for i in range(1, height):
            ends, wide = _OUTER if i == 1 else _INNER, 2 ** (i - 1) if flat else 1
            self.add_module(f"rebnconv{i}", _conv(ends, _INNER, wide))
            self.add_module(f"rebnconv{i}d", _conv(2 * _INNER, ends, wide))
        self.add_module(f"rebnconv{height}", _conv(_INNER, _INNER, 8 if flat else 2))

    def forward(self, x: Tensor) -> Tensor:
        start: Tensor = self.rebnconvin(x)
        down, kept = start, []
        for i in range(1, self.height):
            if i > 1 and not self.flat:
                down = F.max_pool2d(down, 2, stride=2, ceil_mode=True)
            down = getattr(self, f"rebnconv{i}")(down)
            kept.append(down)
        up: Tensor = getattr(self, f"rebnconv{self.height}")(down)
        for i in range(self.height - 1, 0, -1):
            up = _like(up, kept[i - 1])
            up = getattr(self, f"rebnconv{i}d")(torch.cat([up, kept[i - 1]], dim=1))
        return up + start


def _like(x: Tensor, other: Tensor) -> Tensor:
    if x.shape[-2:] == other.shape[-2:]:
        return x
    return F.interpolate(x, size=other.shape[-2:], mode="bilinear", align_corners=False)

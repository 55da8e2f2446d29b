"""Saliency as a click source: people click what stands out in the crop of an error region."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.clickability.maps import ClickabilityMap, ClickRegion, ClickSource, uniform
from segmeter.clickability.network import normalised
from segmeter.core.errors import BadWeights, NotFound
from segmeter.core.masks import Mask

_SIDE = 320
_GREY = 128
_GROWTH = 1.4


Saliency = Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]]
"""Saliency map: an image `(H, W, 3)` of uint8 in, `(H, W)` in 0..1 out."""


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
    import torch

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


def _load(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from segmeter.clickability._u2net import U2NetP

    file = path / "model.safetensors" if path.is_dir() else path
    if not file.is_file():
        raise NotFound(f"no saliency weights at '{path}'")
    network = U2NetP()
    try:
        result = network.load_state_dict(load_file(file), strict=False)
    except (SafetensorError, RuntimeError, OSError, ValueError) as error:
        reason = str(error).split("\n")[0][:120]
        raise BadWeights(f"'{file.name}' is not U2-Net-P: {reason}") from None
    missing = [k for k in result.missing_keys if not k.endswith("num_batches_tracked")]
    if missing or result.unexpected_keys:
        raise BadWeights(f"'{file.name}' is not U2-Net-P: it lacks or adds tensors")
    return network.eval()

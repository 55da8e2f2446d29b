"""Heat maps: a click map laid over its image."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask

__all__ = ["colours", "enlarged", "heat_image"]

Image = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]


def colours(values: Floats) -> Image:
    """Values 0 to 1 as cividis, dark for low: told apart in grey print and by all eyes."""
    levels = np.clip(np.nan_to_num(values) * 255, 0, 255).astype(np.uint8)
    mapped: Any = cv2.applyColorMap(levels, cv2.COLORMAP_CIVIDIS)
    return np.asarray(mapped[..., ::-1], dtype=np.uint8)


def enlarged(
    values: Floats, low: tuple[int, int], stride: int, shape: tuple[int, ...]
) -> npt.NDArray[np.float64]:
    """A map at the image's size: each value fills the square of its stride; NaN elsewhere."""
    whole = np.full(shape[:2], np.nan)
    blocks = np.repeat(np.repeat(values, stride, axis=0), stride, axis=1)
    top, left = (a - stride // 2 for a in low)
    blocks = blocks[max(0, -top) :, max(0, -left) :]
    top, left = max(0, top), max(0, left)
    blocks = blocks[: shape[0] - top, : shape[1] - left]
    whole[top : top + blocks.shape[0], left : left + blocks.shape[1]] = blocks
    return whole


def heat_image(
    pixels: npt.NDArray[Any],
    values: Floats,
    low: tuple[int, int],
    stride: int,
    inside: Mask | None = None,
) -> Image:
    """The image in grey with the map in colour on the object."""
    whole = enlarged(values, low, stride, pixels.shape)
    if inside is not None and stride > 1:
        whole[~inside.dense()] = np.nan
    grey = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)
    base = np.repeat((grey.astype(np.float64) * 0.6 + 90)[..., None], 3, axis=2)
    known = ~np.isnan(whole)
    base[known] = 0.15 * base[known] + 0.85 * colours(whole)[known]
    return base.astype(np.uint8)

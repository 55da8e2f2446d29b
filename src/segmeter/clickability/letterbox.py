"""The letter-box: an image scaled into a square frame, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

__all__ = ["FRAME", "Letterbox"]

FRAME = 416


@dataclass(frozen=True, slots=True)
class Letterbox:
    """Position of an image in the frame.

    The longer side fills the frame, the other is cut to a whole number of pixels; the image
    is centred by halving, and the rest is zero. Resizing is bilinear without smoothing, as
    the original does, or by area (`smooth`), which loses no peak when shrinking.
    """

    shape: tuple[int, int]
    frame: int = FRAME

    @property
    def size(self) -> tuple[int, int]:
        height, width = self.shape
        if height > width:
            return self.frame, max(1, width * self.frame // height)
        return max(1, height * self.frame // width), self.frame

    @property
    def low(self) -> tuple[int, int]:
        height, width = self.size
        return (self.frame - height) // 2, (self.frame - width) // 2

    def put(self, values: npt.NDArray[Any], smooth: bool = False) -> npt.NDArray[np.float32]:
        """An image or map, `(H, W)` or `(H, W, C)`, in the frame."""
        height, width = self.size
        shrinks = height < self.shape[0] or width < self.shape[1]
        way = cv2.INTER_AREA if smooth and shrinks else cv2.INTER_LINEAR
        small = cv2.resize(values.astype(np.float32), (width, height), interpolation=way)
        framed = np.zeros((self.frame, self.frame, *values.shape[2:]), dtype=np.float32)
        y, x = self.low
        framed[y : y + height, x : x + width] = small
        return framed

    def take(self, framed: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The image's part of a framed map, at the image's size."""
        height, width = self.size
        y, x = self.low
        part = np.ascontiguousarray(framed[y : y + height, x : x + width])
        wide = cv2.resize(part, self.shape[::-1], interpolation=cv2.INTER_LINEAR)
        return np.asarray(wide, dtype=np.float32)

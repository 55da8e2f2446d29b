"""Video files, decoded by OpenCV block by block, so that going backward stays affordable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.scenes import Pixels
from segmeter.core.videos import MOST_FRAMES
from segmeter.datasets.image_files import MOST_PIXELS

VIDEO_SUFFIXES = frozenset({".avi", ".mkv", ".mov", ".mp4", ".webm"})
_BLOCK = 16


class VideoFile:
    """The frames of a video file.

    The number of frames is that of the header; a file that has fewer is refused when a missing
    frame is read.
    """

    def __init__(self, path: Path) -> None:
        import cv2

        if not path.is_file():
            raise NotFound(f"no file '{path}'")
        self.path = path
        self._capture: Any = cv2.VideoCapture(str(path))
        self._next = 0
        self._block: tuple[int, list[Pixels]] = (-1, [])
        if not self._capture.isOpened():
            raise BadInput(f"'{path}' cannot be decoded as a video; save it as MP4 or as frames")
        asked = (cv2.CAP_PROP_FRAME_COUNT, cv2.CAP_PROP_FRAME_HEIGHT, cv2.CAP_PROP_FRAME_WIDTH)
        frames, height, width = (round(self._capture.get(what)) for what in asked)
        if not 1 <= frames <= MOST_FRAMES or not 1 <= height * width <= MOST_PIXELS:
            raise BadInput(
                f"'{path}' claims {frames} frames of {width} x {height}; a video has 1 to "
                f"{MOST_FRAMES} frames of at most {MOST_PIXELS // 10**6} megapixels"
            )
        self.shape = (frames, height, width)
        rate = float(self._capture.get(cv2.CAP_PROP_FPS))
        self.frame_rate = rate if np.isfinite(rate) and rate > 0 else None

    def frame(self, t: int) -> Pixels:
        """One frame, uint8 `(H, W, 3)` in RGB."""
        start = t - t % _BLOCK
        if self._block[0] != start:
            self._block = (start, self._decoded(start))
        if t - start >= len(self._block[1]):
            raise BadInput(f"'{self.path}' breaks off before frame {t}; get it again")
        return self._block[1][t - start]

    def _decoded(self, start: int) -> list[Pixels]:
        import cv2

        if start < self._next:
            self._capture.release()
            self._capture = cv2.VideoCapture(str(self.path))
            self._next = 0
        while self._next < start and self._capture.grab():
            self._next += 1
        found: list[Pixels] = []
        while len(found) < _BLOCK:
            whole, pixels = self._capture.read()
            if not whole:
                break
            self._next += 1
            found.append(np.ascontiguousarray(pixels[..., ::-1]))
        return found

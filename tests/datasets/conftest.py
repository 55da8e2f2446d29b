"""Small made-up files in the layouts of the datasets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest

Pixels = npt.NDArray[np.uint8]
Write = Callable[[Path, Pixels], Path]


@pytest.fixture
def write() -> Write:
    """Writes an image in the format of its suffix; colours are RGB."""

    def _write(path: Path, pixels: Pixels) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        stored = pixels[:, :, ::-1] if pixels.ndim == 3 else pixels
        worked, raw = cv2.imencode(path.suffix, stored)
        assert worked
        path.write_bytes(raw.tobytes())
        return path

    return _write


@pytest.fixture
def photo() -> Pixels:
    """An image of 12 x 16 pixels in which no two pixels are alike."""
    y, x = np.mgrid[:12, :16]
    return np.stack([y * 20, x * 15, (y + x) * 9], axis=2).astype(np.uint8)

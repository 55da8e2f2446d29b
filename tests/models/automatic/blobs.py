"""Blobs: a model with a known answer at every point, so that whole pipelines can be worked out.

Images carry their own position: red is x, green is y, both modulo 256, blue holds what is above,
so a crop knows where it lies. Ellipses answer clicks inside them with three maps of different
steepness, some with a hole and an island; all numbers are exact in single precision.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import capable
from segmeter.core.masks import Mask
from segmeter.core.models import ModelCard, Request
from segmeter.core.prompts import Click
from segmeter.core.scenes import Scene
from segmeter.models._enlarging import Enlargement
from segmeter.models.automatic.candidates import Logits, PredictsGrids

Single = npt.NDArray[np.float32]
_BLOBS = "ellipses of known logits on an image that carries its own position, for tests"


@dataclass(frozen=True, slots=True)
class Blob:
    """An ellipse: centre, half axes, and for each of its maps how steep and how sure."""

    cx: int
    cy: int
    a: int
    b: int
    slope: tuple[int, int, int]
    base: tuple[int, int, int]
    hole: int = 0
    island: int = 0

    @property
    def whole(self) -> int:
        return (self.a * self.b) ** 2

    def distance(self, x: Any, y: Any) -> Any:
        """Squared distance from the centre in units where the outline is at `whole`."""
        return (self.b * (x - self.cx)) ** 2 + (self.a * (y - self.cy)) ** 2

    def maps(self, x: npt.NDArray[np.int64], y: npt.NDArray[np.int64]) -> Single:
        """Logits `(3, H, W)` at columns `x` `(W,)` and rows `y` `(H, 1)`."""
        far = self.distance(x, y)
        return np.stack([self._map(m, far, x, y) for m in range(3)])

    def _map(
        self, m: int, far: npt.NDArray[np.int64], x: npt.NDArray[np.int64], y: npt.NDArray[np.int64]
    ) -> Single:
        rise = (4 * (m + 2) ** 2 * self.whole - 64 * far) // self.whole
        logits = (self.slope[m] * np.clip(rise, -512, 512) / 64).astype(np.float32)
        if m >= 1 and self.hole:
            inside = np.abs(x - (self.cx + self.a // 4)) <= self.hole
            logits[inside & (np.abs(y - self.cy) <= self.hole)] = -6
        if m >= 1 and self.island:
            inside = np.abs(x - (self.cx + self.a + 9)) <= self.island
            logits[inside & (np.abs(y - (self.cy - self.b - 9)) <= self.island)] = 6
        return logits


_TWO_BLOBS = (
    Blob(40, 40, 22, 14, (40, 34, 8), (983, 899, 907), 3, 2),
    Blob(90, 60, 18, 20, (12, 20, 50), (924, 987, 886)),
)


@catalogue.models.add("synthetic-blobs", summary=_BLOBS)
class Blobs:
    """The model; `file` is JSON with a list `blobs` of cx, cy, a, b, slope, base, hole, island."""

    card = ModelCard("synthetic-blobs", _BLOBS, frozenset({"click"}))
    synthetic = True

    def __init__(self, file: str | Path | None = None) -> None:
        self.blobs = _TWO_BLOBS if file is None else _read_blobs(Path(file))

    def encode(self, scene: Scene) -> BlobEncodedScene:
        return BlobEncodedScene(scene.pixels, self.blobs)


@dataclass(frozen=True, slots=True)
class BlobPrediction:
    scores: Single
    maps: Single
    state: None = None

    @property
    def shown(self) -> int:
        return int(np.argmax(self.scores))

    def mask(self, candidate: int | None = None) -> Mask:
        return Mask.of(self.maps[self.shown if candidate is None else candidate] > 0)


@capable(PredictsGrids)
class BlobEncodedScene:
    """Answers by the last positive click, and by the first pixel where there is none."""

    def __init__(self, pixels: npt.NDArray[np.uint8], blobs: Sequence[Blob]) -> None:
        height, width = pixels.shape[:2]
        red, green, blue = (int(value) for value in pixels[0, 0])
        self.left, self.top = red + 256 * (blue % 16), green + 256 * (blue // 16)
        self.x = np.arange(width) + self.left
        self.y = np.arange(height)[:, None] + self.top
        self.blobs = tuple(blobs)
        self.shape = (height, width)
        self.maps: dict[Blob, Single] = {}  # drawn once, asked for at many points

    def predict(self, requests: Sequence[Request]) -> list[BlobPrediction]:
        return [BlobPrediction(*self._at(*_last_click(request))) for request in requests]

    def candidates(self, points: npt.NDArray[np.float64], above: float) -> Logits:
        return self._candidates(points, above, 3)

    def single_candidates(self, points: npt.NDArray[np.float64], above: float) -> Logits:
        """The first of the three maps alone."""
        return self._candidates(points, above, 1)

    def _candidates(self, points: npt.NDArray[np.float64], above: float, count: int) -> Logits:
        found = [self._at(float(y), float(x)) for y, x in points]
        scores = np.concatenate([scores[:count] for scores, _ in found])
        places = np.repeat(np.arange(len(points)), count)
        every = np.ones(len(scores), bool)
        kept = np.flatnonzero(scores > np.float32(above) if above > 0 else every)
        maps = np.empty((len(kept), *self.shape), dtype=np.float32)
        for place, number in enumerate(kept.tolist()):
            maps[place] = found[number // count][1][number % count]
        to = Enlargement(self.shape, self.shape)
        return Logits(scores[kept], places[kept], maps, to)

    def _at(self, v: float, u: float) -> tuple[Single, Single]:
        x = self.left + int(np.floor(u + 1e-6))
        y = self.top + int(np.floor(v + 1e-6))
        for blob in self.blobs:
            if blob.distance(x, y) <= blob.whole:
                scores = [(blob.base[m] - (3 * x + 5 * y + 7 * m) % 13) / 1000 for m in range(3)]
                if blob not in self.maps:
                    self.maps[blob] = blob.maps(self.x, self.y)
                return np.array(scores, dtype=np.float32), self.maps[blob]
        return self._nothing_at(x, y)

    def _nothing_at(self, x: int, y: int) -> tuple[Single, Single]:
        maps = np.empty((3, *self.shape), dtype=np.float32)
        maps[0], maps[1] = -8, 8
        maps[2] = np.where(np.abs(self.x - x) <= 3, 4, -4)
        scores = [0.30, 0.95, 0.50 + ((7 * x + 13 * y) % 41) / 100]
        return np.array(scores, dtype=np.float32), maps


def position_image(height: int, width: int) -> npt.NDArray[np.uint8]:
    """An image whose colours tell where each pixel lies."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x % 256, y % 256, x // 256 + 16 * (y // 256)], axis=-1).astype(np.uint8)


def _last_click(request: Request) -> tuple[float, float]:
    points = [p.point for p in request.prompts if isinstance(p, Click) and p.positive]
    return (float(points[-1][0]), float(points[-1][1])) if points else (0.0, 0.0)


def _read_blobs(file: Path) -> tuple[Blob, ...]:
    return tuple(_blob(fields) for fields in json.loads(file.read_text())["blobs"])


def _blob(fields: dict[str, Any]) -> Blob:
    whole: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    return Blob(**whole)

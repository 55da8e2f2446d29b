"""Detectors: images in, boxes with classes and scores out, to prompt a segmenter with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from segmeter.core.models import ModelCard
from segmeter.core.prompts import Box
from segmeter.core.scenes import Pixels

__all__ = ["COCO_CATEGORIES", "Detection", "Detector"]

_NEVER_USED = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}
COCO_CATEGORIES: tuple[int, ...] = tuple(n for n in range(1, 91) if n not in _NEVER_USED)
"""COCO's category ids in the order in which its detectors number their 80 classes from 0."""


@dataclass(frozen=True, slots=True)
class Detection:
    """A box in the image's pixels, its class as the data set numbers it, and a score.

    The box's corners are as the detector gives them; they may lie a little outside.
    """

    box: Box
    category: int
    score: float

    @property
    def xywh(self) -> tuple[float, float, float, float]:
        """COCO's form: left, top, width, height.

        >>> Detection(Box((2.0, 1.0), (5.0, 9.0)), 1, 0.5).xywh
        (1.0, 2.0, 8.0, 3.0)
        """
        (top, left), (bottom, right) = self.box.low, self.box.high
        return left, top, right - left, bottom - top


@runtime_checkable
class Detector(Protocol):
    """Finds objects of known classes."""

    @property
    def card(self) -> ModelCard: ...

    def detect(self, pixels: Pixels) -> list[Detection]:
        """All detections at or above the detector's own least score, the best first."""
        ...

"""PicoDet: a small detector of COCO's classes."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from segmeter.core import catalogue
from segmeter.core.models import ModelCard
from segmeter.core.prompts import Box
from segmeter.core.scenes import Pixels
from segmeter.models.detectors import COCO_CATEGORIES, Detection
from segmeter.models.detectors._onnx import OnnxFile, least_score
from segmeter.models.fetching.offers import offer
from segmeter.models.fetching.sources import ByHand

__all__ = ["PicoDet"]

_SIDE = 416
_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)


@catalogue.detectors.add("picodet", summary="PicoDet 416, COCO's 80 classes")
class PicoDet:
    """PicoDet with its own NMS inside.

    Parameters
    ----------
    weights
        A folder of many models, or the file itself.
    least
        Detections with a lower score are left out.
    """

    def __init__(self, weights: str | None = None, least: float = 0.3) -> None:
        self.least = least_score("picodet", least)
        self._network = OnnxFile("picodet", weights, frozenset({"image", "scale_factor"}))

    @cached_property
    def card(self) -> ModelCard:
        return ModelCard(
            name="picodet",
            summary="PicoDet 416, COCO's 80 classes",
            abilities=frozenset({"detect"}),
            licence="Apache-2.0",
            citation="Yu et al. PP-PicoDet: a better real-time object detector on mobile devices. "
            "arXiv:2111.00902, 2021",
            family="picodet",
            fingerprint=self._network.fingerprint,
        )

    def detect(self, pixels: Pixels) -> list[Detection]:
        """Boxes in the image's pixels, the best first."""
        from PIL import Image

        height, width = pixels.shape[:2]
        small = Image.fromarray(pixels).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)
        normal = (np.asarray(small, dtype=np.float32) / 255 - _MEAN) / _DEVIATION
        scale = np.array([[_SIDE / height, _SIDE / width]], dtype=np.float32)
        rows = self._network.run(
            {"image": normal.transpose(2, 0, 1)[None].astype(np.float32), "scale_factor": scale}
        ).astype(float)
        return [
            Detection(Box((top, left), (bottom, right)), COCO_CATEGORIES[int(label)], score)
            for label, score, left, top, right, bottom in rows.tolist()
            if score >= self.least
        ]


offer("picodet", ByHand("https://github.com/PaddlePaddle/PaddleDetection", "picodet.onnx"))

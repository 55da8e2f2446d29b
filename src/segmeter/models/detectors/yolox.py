"""YOLOX-nano: a smaller detector of COCO's classes."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.models import ModelCard
from segmeter.core.prompts import Box
from segmeter.core.scenes import Pixels
from segmeter.models.detectors import COCO_CATEGORIES, Detection
from segmeter.models.detectors._onnx import Array, OnnxFile, least_score
from segmeter.models.fetching.offers import offer
from segmeter.models.fetching.sources import Page

__all__ = ["YoloxNano", "suppressed"]

_SIDE = 416
_STRIDES = (8, 16, 32)
_GREY = 114


@catalogue.detectors.add("yolox-nano", summary="YOLOX-nano 416, COCO's 80 classes")
class YoloxNano:
    """YOLOX-nano, decoded here; boxes of one class that overlap are suppressed.

    Parameters
    ----------
    weights
        A folder of many models, or the file itself.
    least
        Detections with a lower score are left out.
    overlap
        A box goes when a better one of its class has a greater IoU with it.
    """

    def __init__(
        self, weights: str | None = None, least: float = 0.3, overlap: float = 0.65
    ) -> None:
        self.least = least_score("yolox-nano", least)
        if not 0 < overlap <= 1:
            raise BadInput(f"detector 'yolox-nano': 'overlap' is an IoU up to 1, not {overlap!r}")
        self.overlap = overlap
        self._network = OnnxFile("yolox-nano", weights, frozenset({"images"}))

    @cached_property
    def card(self) -> ModelCard:
        return ModelCard(
            name="yolox-nano",
            summary="YOLOX-nano 416, COCO's 80 classes",
            abilities=frozenset({"detect"}),
            licence="Apache-2.0",
            citation="Ge et al. YOLOX: exceeding YOLO series in 2021. arXiv:2107.08430, 2021",
            family="yolox",
            fingerprint=self._network.fingerprint,
        )

    def detect(self, pixels: Pixels) -> list[Detection]:
        """Boxes in the image's pixels, the best first."""
        frame, scale = _letter_box(pixels)
        rows = _decoded(self._network.run({"images": frame})[0]).astype(float)
        scores = rows[:, 4:5] * rows[:, 5:]
        places, classes = np.nonzero(scores >= self.least)
        values = scores[places, classes]
        order = np.argsort(-values, kind="stable")
        places, classes, values = places[order], classes[order], values[order]
        boxes = rows[places, :4] / scale
        kept = suppressed(boxes, classes, self.overlap)
        return [
            Detection(Box((y1, x1), (y2, x2)), COCO_CATEGORIES[int(classes[k])], float(values[k]))
            for k in kept
            for x1, y1, x2, y2 in [boxes[k].tolist()]
        ]


def _letter_box(pixels: Pixels) -> tuple[Array, float]:
    """The image in the square's top left corner, blue first, on grey; and its scale."""
    import cv2

    height, width = pixels.shape[:2]
    scale = min(_SIDE / height, _SIDE / width)
    size = int(width * scale), int(height * scale)
    square = np.full((_SIDE, _SIDE, 3), _GREY, dtype=np.uint8)
    square[: size[1], : size[0]] = cv2.resize(pixels, size, interpolation=cv2.INTER_LINEAR)
    return square[:, :, ::-1].transpose(2, 0, 1)[None].astype(np.float32), scale


def _decoded(rows: Array) -> Array:
    """Corners from what the network says of each cell of its three grids."""
    cells = [np.mgrid[: _SIDE // s, : _SIDE // s].reshape(2, -1).T[:, ::-1] for s in _STRIDES]
    strides = np.repeat(_STRIDES, [len(c) for c in cells])[:, None]
    centres = (rows[:, :2] + np.concatenate(cells)) * strides
    halves = np.exp(rows[:, 2:4]) * strides / 2
    return np.concatenate([centres - halves, centres + halves, rows[:, 4:]], axis=1)


def suppressed(
    boxes: npt.NDArray[np.float64], classes: npt.NDArray[np.intp], overlap: float
) -> list[int]:
    """Which of the boxes `(n, 4)`, best first, stay: none overlaps a better one of its class.

    >>> boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [0, 0, 10, 10.0]])
    >>> suppressed(boxes, np.array([0, 0, 1]), 0.5)
    [0, 2]
    """
    areas = np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0), axis=1)
    gone = np.zeros(len(boxes), dtype=bool)
    for k in range(len(boxes)):
        if gone[k]:
            continue
        low = np.maximum(boxes[k, :2], boxes[k + 1 :, :2])
        high = np.minimum(boxes[k, 2:], boxes[k + 1 :, 2:])
        both = np.prod(np.maximum(high - low, 0), axis=1)
        near = both > overlap * (areas[k] + areas[k + 1 :] - both)
        gone[k + 1 :] |= near & (classes[k + 1 :] == classes[k])
    return np.flatnonzero(~gone).tolist()


_COMMIT = "3d4f1119d0694200671c08069ecb847aa0d8495a"
_DIGEST = "695e750a5d5754bb5a8d5325643b59282191a7e7a564e435a415fd3c578eab14"
offer(
    "yolox-nano",
    Page(
        "https://github.com/Kazuhito00/YOLOX-ONNX-TFLite-Sample/raw/"
        f"{_COMMIT}/model/yolox_nano.onnx",
        sha256=_DIGEST,
    ),
    sha256={"yolox_nano.onnx": _DIGEST},
)

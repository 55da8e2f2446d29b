"""Detectors: images in, boxes with classes and scores out, to prompt a segmenter with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, BadWeights
from segmeter.core.models import ModelCard
from segmeter.core.prompts import Box
from segmeter.core.scenes import Pixels
from segmeter.models import weights as weight_files
from segmeter.models.automatic.regions import plain_suppress_boxes
from segmeter.models.fetching import ByHand, Page, offer
from segmeter.models.onnx_models import DEVIATION, MEAN, open_graph, run_graph

_NEVER_USED = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}
COCO_CATEGORIES: tuple[int, ...] = tuple(n for n in range(1, 91) if n not in _NEVER_USED)
"""COCO's category ids in the order in which its detectors number their 80 classes from 0."""


@dataclass(frozen=True, slots=True)
class Detection:
    """A box in the image's pixels, its class as the dataset numbers it, and a score.

    The box's corners are as the detector gives them; they may be slightly outside.
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
    @property
    def card(self) -> ModelCard: ...

    def detect(self, pixels: Pixels) -> list[Detection]:
        """All detections at or above the detector's own least score, the best first."""
        ...


Array = npt.NDArray[np.float32]


class OnnxDetector:
    """A detector in an ONNX file: found when made, opened at the first image.

    Parameters
    ----------
    weights
        A folder of many models, or the file itself.
    least
        Detections with a lower score are left out.
    """

    about: ModelCard
    inputs: frozenset[str]

    def __init__(self, weights: str | None = None, least: float = 0.3) -> None:
        name = self.about.name
        if isinstance(least, bool) or not isinstance(least, int | float) or not 0 <= least <= 1:
            raise BadInput(f"detector '{name}': 'least' is a score from 0 to 1, not {least!r}")
        self.least = float(least)
        self.path = weight_files.find(name, weights, package="")
        self._file = next((f for f in weight_files.files(self.path) if f.suffix == ".onnx"), None)
        if self._file is None and self.path != weight_files.ABSENT:
            raise BadWeights(f"'{self.path}' holds no .onnx file; '{name}' is read from one")

    @cached_property
    def card(self) -> ModelCard:
        return replace(self.about, fingerprint=weight_files.fingerprint(self.path))

    def run(self, feeds: Mapping[str, Array]) -> Array:
        return run_graph(self._session, None, feeds, str(self._file))[0]

    @cached_property
    def _session(self) -> Any:
        # One thread: sums then do not depend on the machine, and jobs run side by side.
        session = open_graph(Path(str(self._file)))
        found = {entry.name for entry in session.get_inputs()}
        if found != self.inputs:
            raise BadWeights(
                f"'{self._file}' holds another network: it takes {', '.join(sorted(found))},"
                f" not {', '.join(sorted(self.inputs))}"
            )
        return session


_SIDE = 416


def _card(name: str, what: str, citation: str, family: str) -> ModelCard:
    about, takes = f"{what}, COCO's 80 classes", frozenset({"detect"})
    return ModelCard(name, about, takes, "Apache-2.0", citation, family=family)


@catalogue.detectors.add("picodet", summary="PicoDet 416, COCO's 80 classes")
class PicoDet(OnnxDetector):
    """PicoDet with its own NMS inside."""

    about = _card("picodet", "PicoDet 416", "yu2021", "picodet")
    inputs = frozenset({"image", "scale_factor"})

    def detect(self, pixels: Pixels) -> list[Detection]:
        from PIL import Image

        height, width = pixels.shape[:2]
        small = Image.fromarray(pixels).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)
        normal = (np.asarray(small, dtype=np.float32) / 255 - MEAN) / DEVIATION
        scale = np.array([[_SIDE / height, _SIDE / width]], dtype=np.float32)
        image = normal.transpose(2, 0, 1)[None].astype(np.float32)
        rows = self.run({"image": image, "scale_factor": scale}).astype(float)
        return [
            Detection(Box((top, left), (bottom, right)), COCO_CATEGORIES[int(label)], score)
            for label, score, left, top, right, bottom in rows.tolist()
            if score >= self.least
        ]


offer("picodet", ByHand("https://github.com/PaddlePaddle/PaddleDetection", "picodet.onnx"))


_STRIDES = (8, 16, 32)
_GREY = 114
_FAR = 1e5  # pixels


@catalogue.detectors.add("yolox-nano", summary="YOLOX-nano 416, COCO's 80 classes")
class YoloxNano(OnnxDetector):
    """YOLOX-nano, decoded here; boxes of one class that overlap are suppressed.

    Parameters
    ----------
    overlap
        A box is removed if a better one of its class has a greater IoU with it.
    """

    about = _card("yolox-nano", "YOLOX-nano 416", "ge2021", "yolox")
    inputs = frozenset({"images"})

    def __init__(
        self, weights: str | None = None, least: float = 0.3, overlap: float = 0.65
    ) -> None:
        super().__init__(weights, least)
        if not 0 < overlap <= 1:
            raise BadInput(f"detector 'yolox-nano': 'overlap' is an IoU up to 1, not {overlap!r}")
        self.overlap = overlap

    def detect(self, pixels: Pixels) -> list[Detection]:
        frame, scale = _letter_box(pixels)
        rows = _decoded(self.run({"images": frame})[0]).astype(float)
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
    size = max(1, int(width * scale)), max(1, int(height * scale))
    square = np.full((_SIDE, _SIDE, 3), _GREY, dtype=np.uint8)
    square[: size[1], : size[0]] = cv2.resize(pixels, size, interpolation=cv2.INTER_LINEAR)
    return square[:, :, ::-1].transpose(2, 0, 1)[None].astype(np.float32), scale


def _decoded(rows: Array) -> Array:
    """Corners from the network's output for each cell of its three grids."""
    cells = [np.mgrid[: _SIDE // s, : _SIDE // s].reshape(2, -1).T[:, ::-1] for s in _STRIDES]
    strides = np.repeat(_STRIDES, [len(c) for c in cells])[:, None]
    centres = (rows[:, :2] + np.concatenate(cells)) * strides
    halves = np.exp(rows[:, 2:4]) * strides / 2
    return np.concatenate([centres - halves, centres + halves, rows[:, 4:]], axis=1)


def suppressed(
    boxes: npt.NDArray[np.float64], classes: npt.NDArray[np.intp], overlap: float
) -> list[int]:
    """Which of the boxes `(n, 4)`, best first, are kept: none overlaps a better one of its class.

    >>> boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [0, 0, 10, 10.0]])
    >>> suppressed(boxes, np.array([0, 0, 1]), 0.5)
    [0, 2]
    """
    apart = boxes + _FAR * classes[:, None]  # boxes of different classes never overlap
    return [int(k) for k in plain_suppress_boxes(apart, np.arange(len(boxes)), overlap)]


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

"""Boxes and their masks: from the ground truth, a registered detector, or a JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from segmeter.benchmarks.starts import folder_of, made_near
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.detection_ground_truth import DetectionGroundTruth
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Prediction, Request, render
from segmeter.core.prompts import Box
from segmeter.core.scenes import Scene
from segmeter.core.seeds import fingerprint
from segmeter.measures.detections import check_detections
from segmeter.models.detectors import COCO_CATEGORIES, Detector

GROUND_TRUTH = "ground_truth"
_SCORE_OF_GROUND_TRUTH = 1.0


@dataclass(frozen=True, slots=True)
class Boxed:
    """A box with its class and the score of its source; `xywh` is left, top, sides."""

    xywh: tuple[float, float, float, float]
    category: int
    score: float

    @property
    def prompt(self) -> Box:
        """From (x, y) to (x + width, y + height), as Segment Anything hands boxes over."""
        x, y, width, height = self.xywh
        return Box((y, x), (y + height, x + width))


def is_file(source: str) -> bool:
    """Whether a source is a detector's JSON file rather than a name."""
    return source.partition("?")[0].endswith(".json")


def source_name(source: str) -> str:
    """Name of a source in tables: its name, or the file's without its folder."""
    return Path(source).stem if is_file(source) else Spec.parse(source).name


def digest_of(source: str) -> str:
    """A digest of a file's content; empty for what is not a file."""
    return fingerprint(_read(source), size=8) if is_file(source) else ""


def boxes_for(
    source: str, scene: Scene, ground_truth: DetectionGroundTruth, near: object
) -> list[Boxed]:
    """The boxes of a scene; `near` is the model; a detector's weights may be in the same folder."""
    if source == GROUND_TRUTH:
        return [
            Boxed(thing.box, thing.category, _SCORE_OF_GROUND_TRUTH)
            for thing in ground_truth.objects
            if not thing.crowd
        ]
    if is_file(source):
        mine = _by_image(source, os.stat(source).st_mtime_ns).get(ground_truth.image, ())
        check_detections(_skeleton(ground_truth), mine, "bbox", classes=False)
        return [Boxed(_sides(r), int(r["category_id"]), float(r["score"])) for r in mine]
    _refuse_other_classes(source, scene, ground_truth)
    found = _detector(source, folder_of(near)).detect(scene.pixels)
    return [Boxed(d.xywh, d.category, d.score) for d in found]


def check_file(source: str, header: Mapping[str, Any]) -> None:
    """Refuse a file of other images or classes, or of what are no boxes, before a run."""
    try:
        check_detections(header, _records(source), "bbox")
    except BadInput as error:
        raise BadInput(f"'{source}': {error}") from error


def _skeleton(ground_truth: DetectionGroundTruth) -> dict[str, Any]:
    image = {
        "id": ground_truth.image,
        "height": ground_truth.shape[0],
        "width": ground_truth.shape[1],
    }
    return {"images": [image], "categories": []}


def _refuse_other_classes(source: str, scene: Scene, ground_truth: DetectionGroundTruth) -> None:
    """The catalogue's detectors number classes as COCO does; LVIS, for one, does not."""
    names = {category.id: category.name for category in ground_truth.categories}
    if not names.keys() <= set(COCO_CATEGORIES) or names.get(1, "person") != "person":
        raise BadInput(
            f"{scene.name}: detector '{source_name(source)}' knows COCO's classes, and this data"
            " numbers others; use boxes=ground truth or a file of boxes with its category ids"
        )


def _sides(record: Mapping[str, Any]) -> tuple[float, float, float, float]:
    x, y, width, height = (float(n) for n in record["bbox"])
    return x, y, width, height


@lru_cache(maxsize=4)
def _by_image(source: str, changed: int) -> dict[Any, list[Mapping[str, Any]]]:
    found: dict[Any, list[Mapping[str, Any]]] = {}
    for record in _records(source):
        found.setdefault(record["image_id"], []).append(record)
    return found


def _records(source: str) -> Sequence[Mapping[str, Any]]:
    try:
        data = json.loads(_read(source))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"'{source}' is not JSON") from error
    if not isinstance(data, list) or not all(isinstance(record, Mapping) for record in data):
        raise BadInput(
            f"'{source}' is not a list of detections; give COCO's results: a list of image_id,"
            " category_id, bbox, score"
        )
    return data


def _read(source: str) -> bytes:
    try:
        return Path(source).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"no file '{source}' with a detector's boxes") from None
    except OSError as error:
        raise BadInput(f"'{source}' cannot be read: {error.strerror}") from error


@lru_cache(maxsize=2)
def _detector(source: str, near: str | None) -> Detector:
    made: Detector = made_near(catalogue.detectors, source, near)
    return made


@dataclass(frozen=True, slots=True)
class BoxMask:
    """The mask for a box, the model's own score of it, and whether logits were fed back."""

    mask: Mask
    score: float
    refined: bool


def masks_of_boxes(encoded: EncodedScene, boxes: Sequence[Box]) -> list[BoxMask]:
    """A mask for each box, all boxes of an image together."""
    if not boxes:
        return []
    first = encoded.predict([Request((box,)) for box in boxes])
    memories = [prediction.state for prediction in first]
    again = [k for k, state in enumerate(memories) if state is not None]
    last = list(first)
    if again:
        refined = encoded.predict([Request((boxes[k],), memories[k]) for k in again])
        for k, prediction in zip(again, refined, strict=True):
            last[k] = prediction
    masks = render(encoded, last)
    return [
        BoxMask(mask, _score(prediction), memories[k] is not None)
        for k, (mask, prediction) in enumerate(zip(masks, last, strict=True))
    ]


def _score(prediction: Prediction) -> float:
    return float(prediction.scores[prediction.shown])

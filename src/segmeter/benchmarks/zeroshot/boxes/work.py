"""One job of the benchmark: the boxes of an image and a mask for each.

Boxes are those of the ground truth, of a registered detector, or of a JSON file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from segmeter.benchmarks.zeroshot import annotations_of
from segmeter.core import catalogue
from segmeter.core.benchmarks import Row
from segmeter.core.catalogue import Spec
from segmeter.core.detection_ground_truth import DetectionGroundTruth
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Model, Request, render
from segmeter.core.plans import Plan
from segmeter.core.prompts import Box
from segmeter.core.scenes import Scene
from segmeter.datasets.coco_files import read_json
from segmeter.measures.detections import check_detections
from segmeter.models.detectors import COCO_CATEGORIES, Detector
from segmeter.users.simulation import timed_encode
from segmeter.users.starts import folder_of, made_near

GROUND_TRUTH = "ground_truth"


class Boxed(NamedTuple):
    """A box (left, top, width, height) with its class and the score of its source."""

    xywh: Sequence[float]
    category: int
    score: float

    @property
    def prompt(self) -> Box:
        """From (x, y) to (x + width, y + height), as Segment Anything hands boxes over."""
        x, y, width, height = self.xywh
        return Box((y, x), (y + height, x + width))


def work(model: Model, scene: Scene, plan: Plan) -> list[Row]:
    """The ground truth of the image, then a row for each box, best first."""
    source, ground_truth = plan.options["boxes"], annotations_of(scene)
    found = sorted(boxes_for(source, scene, ground_truth, model), key=lambda box: -box.score)
    encoded, seconds_encode = timed_encode(model, scene)
    start = perf_counter()
    masks = masks_of_boxes(encoded, [box.prompt for box in found])
    seconds = (perf_counter() - start) / max(1, len(found))
    names = {category.id: category.name for category in ground_truth.categories}
    head: Row = {
        "box_source": source_name(source),
        "protocol": "both",
        "cluster": scene.id,
        "shape": list(scene.shape),
        "seconds_encode": seconds_encode,
    }
    truth = {"holds": "ground truth", "rank": 0, "ground_truth": ground_truth.to_json()}
    return [
        head | truth,
        *(
            head
            | {
                "holds": "mask",
                "rank": rank,
                "category": box.category,
                "label": names.get(box.category, ""),
                "score": box.score,
                "box": str(list(box.xywh)),
                "mask": made.mask.to_coco()["counts"],
                "model_score": made.score,
                "refined": made.refined,
                "seconds": seconds,
            }
            for rank, (box, made) in enumerate(zip(found, masks, strict=True), start=1)
        ),
    ]


def is_file(source: str) -> bool:
    """Whether a source is a detector's JSON file rather than a name."""
    return source.partition("?")[0].endswith(".json")


def source_name(source: str) -> str:
    """Name of a source in tables: its name, or the file's without its folder."""
    return Path(source).stem if is_file(source) else Spec.parse(source).name


def boxes_for(
    source: str, scene: Scene, ground_truth: DetectionGroundTruth, near: object
) -> list[Boxed]:
    """The boxes of a scene; `near` is the model; a detector's weights may be in the same folder."""
    if source == GROUND_TRUTH:
        objects = (thing for thing in ground_truth.objects if not thing.crowd)
        return [Boxed(thing.box, thing.category, score=1.0) for thing in objects]
    if is_file(source):
        mine = _by_image(source, os.stat(source).st_mtime_ns).get(ground_truth.image, ())
        height, width = ground_truth.shape
        image = {"id": ground_truth.image, "height": height, "width": width}
        check_detections({"images": [image], "categories": []}, mine, "bbox", classes=False)
        return [
            Boxed([float(n) for n in r["bbox"]], int(r["category_id"]), float(r["score"]))
            for r in mine
        ]
    detector: Detector = made_near(catalogue.detectors, source, folder_of(near))
    return [Boxed(d.xywh, d.category, d.score) for d in detector.detect(scene.pixels)]


def check_source(source: str, scene: Scene) -> None:
    """Refuse data without classes; and a detector if they are not COCO's, as those of LVIS."""
    names = {category.id: category.name for category in annotations_of(scene).categories}
    if source == GROUND_TRUTH or is_file(source):
        return
    if not names.keys() <= set(COCO_CATEGORIES) or names.get(1, "person") != "person":
        raise BadInput(
            f"detector '{source_name(source)}' knows COCO's classes, and '{scene.dataset}' numbers "
            "others; use --boxes ground_truth, or a file of boxes with its category ids"
        )


def check_file(source: str, header: Mapping[str, Any]) -> None:
    """Refuse a file of other images or classes, or of what are no boxes, before a run."""
    try:
        check_detections(header, _records(source), "bbox")
    except BadInput as error:
        raise BadInput(f"'{source}': {error}") from error


@lru_cache(maxsize=4)
def _by_image(source: str, changed: int) -> dict[Any, list[Mapping[str, Any]]]:
    return grouped(_records(source), itemgetter("image_id"))


def _records(source: str) -> Sequence[Mapping[str, Any]]:
    data = read_json(Path(source))
    if not isinstance(data, list) or not all(isinstance(record, Mapping) for record in data):
        raise BadInput(
            f"'{source}' is not a list of detections; give COCO's results: a list of image_id,"
            " category_id, bbox, score"
        )
    return data


class BoxMask(NamedTuple):
    """The mask for a box, the model's own score of it, and whether logits were fed back."""

    mask: Mask
    score: float
    refined: bool


def masks_of_boxes(encoded: EncodedScene, boxes: Sequence[Box]) -> list[BoxMask]:
    """A mask for each box, all boxes of an image together."""
    if not boxes:
        return []
    last = list(encoded.predict([Request((box,)) for box in boxes]))
    memories = [prediction.state for prediction in last]
    again = [k for k, state in enumerate(memories) if state is not None]
    if again:
        refined = encoded.predict([Request((boxes[k],), memories[k]) for k in again])
        for k, prediction in zip(again, refined, strict=True):
            last[k] = prediction
    masks = render(encoded, last)
    return [
        BoxMask(mask, float(prediction.scores[prediction.shown]), state is not None)
        for mask, prediction, state in zip(masks, last, memories, strict=True)
    ]

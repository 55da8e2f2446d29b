"""Instance segmentation from boxes: a detector's boxes in, masks out, scored by AP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, ClassVar

from segmeter.benchmarks.declared import Declared
from segmeter.benchmarks.zeroshot import with_own_rules
from segmeter.benchmarks.zeroshot.boxes.sources import (
    GROUND_TRUTH,
    boxes_for,
    check_file,
    digest_of,
    is_file,
    masks_of_boxes,
    source_name,
)
from segmeter.core import catalogue
from segmeter.core.benchmarks import Results, Row, RunOption
from segmeter.core.capabilities import ChecksData, capable
from segmeter.core.detection_ground_truth import DetectionGroundTruth, WithDetectionGroundTruth
from segmeter.core.errors import BadInput
from segmeter.core.models import Model
from segmeter.core.plans import Plan
from segmeter.core.rows import DETECTION_ROWS, Column, Schema
from segmeter.core.scenes import Dataset, Scene
from segmeter.stats.statistics import Statistic

BOX_ROWS = replace(
    DETECTION_ROWS.plus(
        [
            Column("holds", "text", "'ground truth' of the image, or the 'mask' of a box"),
            Column("box_source", "text", "where the boxes come from"),
            Column("category", "integer", "the class as the dataset numbers it"),
            Column("box", "text", "left, top, width, height as JSON"),
            Column("model_score", "number", "the model's own score of the mask"),
            Column("refined", "flag", "whether logits were fed back in a second step"),
            Column("ground_truth", "text", "objects of the image as JSON; null for a mask"),
            Column("seconds_encode", "number"),
        ]
    ),
    key=(*DETECTION_ROWS.key[:-1], "holds", "rank"),
)
"""One row for the ground truth of an image (rank 0) and one for each box."""


@catalogue.benchmarks.add("boxes", summary="masks from boxes, scored by COCO's and LVIS's AP")
@dataclass(frozen=True, slots=True)
@capable(ChecksData)
class Boxes(Declared):
    """A box alone, then the box with its mask's logits; AP of masks and of boxes."""

    name: str = "boxes"
    example: ClassVar[str] = "--model mobile-sam --dataset coco --data DATA"
    headline: ClassVar[tuple[str, ...]] = ("ap", "boundary-ap", "box-ap", "mask-iou")
    options: ClassVar[tuple[RunOption, ...]] = (
        RunOption(
            "boxes", str, GROUND_TRUTH, "Source of the boxes: ground_truth, a detector such "
            "as picodet, or a detector's COCO results in a .json file.",
        ),
        RunOption("digest", str, ""),
    )  # fmt: skip
    schema: ClassVar[Schema] = BOX_ROWS
    pages: ClassVar[str] = "statistics"
    split_by: ClassVar[tuple[str, ...]] = ("object-iou",)
    citations: ClassVar[Mapping[str, str]] = {"benchmark boxes": "kirillov2023"}

    def plan(self, plan: Plan) -> Plan:
        if plan.users:
            raise BadInput("benchmark 'boxes' has no users; --boxes chooses whose boxes")
        filled = self.filled(plan)
        boxes = filled.options["boxes"]
        if boxes != GROUND_TRUTH and not is_file(boxes):
            catalogue.detectors.check(boxes)
        return replace(
            filled,
            segmenters=tuple(with_own_rules(spec) for spec in plan.segmenters),
            rounds=1,
            options={**filled.options, "digest": digest_of(boxes)},
        )

    def check(self, plan: Plan, datasets: Mapping[str, Dataset]) -> None:
        source = plan.options["boxes"]
        if not is_file(source):
            return
        for name, dataset in datasets.items():
            header = getattr(dataset, "coco_header", None)  # readers of COCO's layout have it
            if header is None:
                raise BadInput(f"'{name}' has no image ids; boxes of a file need coco or lvis")
            check_file(source, header())

    def work(self, segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
        if "box" not in segmenter.card.abilities:
            raise BadInput(f"model '{segmenter.card.name}' takes no boxes")
        if not isinstance(scene, WithDetectionGroundTruth):
            raise BadInput(f"{scene.name}: boxes are scored on data of COCO's layout: coco or lvis")
        return _rows(segmenter, scene, scene.detection_ground_truth, plan.options["boxes"])

    def statistics(self, run: Results) -> Sequence[Statistic]:
        from segmeter.benchmarks.zeroshot.boxes.statistics import Scored, statistics

        return statistics([g for g in self.groups(run) if isinstance(g, Scored)])


def _rows(model: Model, scene: Scene, ground_truth: DetectionGroundTruth, source: str) -> list[Row]:
    """The ground truth of the image, then a row for each box, best first."""
    found = sorted(boxes_for(source, scene, ground_truth, model), key=lambda box: -box.score)
    start = perf_counter()
    encoded = model.encode(scene)
    looked = perf_counter()
    masks = masks_of_boxes(encoded, [box.prompt for box in found])
    seconds = (perf_counter() - looked) / max(1, len(found))
    names = {category.id: category.name for category in ground_truth.categories}
    head: dict[str, Any] = {
        "box_source": source_name(source),
        "protocol": "both",
        "cluster": scene.id,
        "shape": list(scene.shape),
        "seconds_encode": looked - start,
    }
    rows: list[Row] = [
        head | {"holds": "ground truth", "rank": 0, "ground_truth": ground_truth.to_json()}
    ]
    for rank, (box, made) in enumerate(zip(found, masks, strict=True), start=1):
        rows.append(
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
        )
    return rows

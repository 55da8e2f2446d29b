"""Instance segmentation from boxes: a detector's boxes in, masks out, scored by AP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from segmeter.benchmarks.declared import Declared
from segmeter.benchmarks.zeroshot import RULES
from segmeter.benchmarks.zeroshot.boxes.work import GROUND_TRUTH, check_file, check_source, is_file
from segmeter.core import catalogue
from segmeter.core.benchmarks import RunOption
from segmeter.core.capabilities import ChecksData, capable
from segmeter.core.errors import BadInput
from segmeter.core.plans import Plan
from segmeter.core.rows import DETECTION_ROWS, Column
from segmeter.core.scenes import Dataset

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
@capable(ChecksData)
class Boxes(Declared):
    """A box alone, then the box with its mask's logits; AP of masks and of boxes."""

    name = "boxes"
    example = "--model mobile-sam --dataset coco --data DATA"
    headline = ("ap", "boundary-ap", "box-ap", "mask-iou")
    options = (
        RunOption(
            "boxes", str, GROUND_TRUTH, "Source of the boxes: ground_truth, a detector such "
            "as picodet, or a detector's COCO results in a .json file.",
        ),
    )  # fmt: skip
    file_option = "boxes"
    schema = BOX_ROWS
    pages = "statistics"
    split_by = ("object-iou",)
    model_options = RULES
    cited = "kirillov2023"

    def plan(self, plan: Plan) -> Plan:
        if plan.users:
            raise BadInput("benchmark 'boxes' has no users; --boxes chooses whose boxes")
        filled = super().plan(plan)
        boxes = filled.options["boxes"]
        if boxes != GROUND_TRUTH and not is_file(boxes):
            catalogue.detectors.check(boxes)
        return filled

    def needs(self, plan: Plan) -> frozenset[str]:
        return frozenset({"box"})

    def check(self, plan: Plan, datasets: Mapping[str, Dataset]) -> None:
        source = plan.options["boxes"]
        for dataset in datasets.values():
            for scene in dataset.scenes()[:1]:
                check_source(source, dataset.load(scene))
            header = getattr(dataset, "coco_header", None)  # readers of COCO's layout have it
            if is_file(source) and header is not None:  # else each job checks its own boxes
                check_file(source, header())

"""Object proposals: how many objects are among automatic masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, get_args

from segmeter.benchmarks.declared import Declared
from segmeter.benchmarks.zeroshot import annotations_of
from segmeter.core import catalogue
from segmeter.core.benchmarks import RunOption
from segmeter.core.capabilities import ChecksData, capable
from segmeter.core.plans import Plan
from segmeter.core.rows import JOB_COLUMNS, JOB_KEY, Column, Schema
from segmeter.core.scenes import Dataset
from segmeter.models.automatic.options import Output

PROPOSAL_ROWS = Schema(
    "proposals",
    (
        *JOB_COLUMNS,
        Column("objects_of", "text", "all, a size, or how frequent their class is"),
        Column("protocol", "text"),
        Column("number", "integer", "how many proposals count, best first"),
        Column("objects", "integer"),
        Column("matched", "integers", "objects matched at IoU 0.50, 0.55 .. 0.95"),
        Column("recall", "number", "their mean share; null without objects"),
        Column("proposals", "integer", "masks that were proposed"),
        Column("cluster", "text"),
        Column("seconds_encode", "number"),
    ),
    (*JOB_KEY, "protocol", "objects_of", "number"),
)
"""One row for each group of objects and number of proposals."""


@catalogue.benchmarks.add("proposals", summary="objects found by automatic masks (AR@1000)")
@capable(ChecksData)
class Proposals(Declared):
    """Segment Anything's object proposals (supplement E.3) on data of COCO's layout."""

    name = "proposals"
    example = "--model mobile-sam --dataset coco --data DATA"
    headline = ("ar@1000", "ar@1000-small", "ar@1000-medium", "ar@1000-large")
    options = (
        RunOption("points", int, 64, "Points on a side of the grid.", least=1),
        RunOption("nms", float, 0.9, "IoU above which one of two boxes is suppressed.",
                  least=0, most=1),
        RunOption("most", int, 1000, "Maximum number of proposals.", least=1),
        RunOption("output", str, "three", "Masks per point; 'single' is the paper's ablation, in "
                  "an order drawn at random (with points 128 and nms 0.95).",
                  choices=get_args(Output)),
    )  # fmt: skip
    schema = PROPOSAL_ROWS
    pages = "statistics"
    cases = "image"
    cited = "kirillov2023"
    model_options: ClassVar[Mapping[str, str]] = {"resize": "pillow"}

    def check(self, plan: Plan, datasets: Mapping[str, Dataset]) -> None:
        for dataset in datasets.values():
            for scene in dataset.scenes()[:1]:
                annotations_of(dataset.load(scene))

    def needs(self, plan: Plan) -> frozenset[str]:
        return frozenset({"click"})

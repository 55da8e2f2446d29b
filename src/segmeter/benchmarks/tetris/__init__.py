"""TETRIS: how sensitive a model is to the exact position of clicks, and of boxes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from segmeter.benchmarks.declared import Declared, elsewhere
from segmeter.core import catalogue
from segmeter.core.benchmarks import PaperLayout, RunOption
from segmeter.core.capabilities import ChecksData, capable
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.plans import Plan
from segmeter.core.rows import SESSION_ROWS, Column
from segmeter.users.simulation import CONSISTENCY
from segmeter.users.starts import NO_START

TETRIS_ROWS = SESSION_ROWS.plus(
    (
        Column("inherited", "flag", "whether the centre click's session was taken over"),
        Column("start_y", "number", "where the attack started"),
        Column("start_x", "number"),
        Column("start_iou", "number"),
        Column("trials", "text", "clicks tried, as JSON: y, x, IoU, BIoU, fair, accepted"),
        Column("diagonal_px", "number", "of the object's box"),
        Column("map", "bytes", "IoU of every click on a grid"),
        Column("tries", "integer", "clicks that a search tried"),
        Column("people", "text", "recorded first clicks as JSON: y, x, IoU, BIoU"),
        Column("shifts", "bytes", "IoU of the box at a lattice of shifts"),
    )
)
"""Rows of sessions with what the attacks did."""


class Attacked(Declared):
    """Shared parts of attacks by clicks and by boxes."""

    schema = TETRIS_ROWS
    measures = ("iou", "boundary-iou")
    citations: ClassVar[Mapping[str, str]] = {"benchmark TETRIS": "moskalenko2024"}
    layout = PaperLayout(
        {"iou-min": "Min", "iou-max": "Max", "iou-d": "D"},
        "Area under IoU (%) of the worst and the best prompts, and their difference",
    )


@catalogue.benchmarks.add(
    "tetris", summary="sensitivity to click position (IoU and BIoU Min, Max, D)"
)
@capable(ChecksData)
class Tetris(Attacked):
    """The best and the worst click of ten rounds, compared with the centre click."""

    name = "tetris"
    pages = "sections"
    headline = ("iou-min", "iou-base", "iou-max", "iou-d", "first-spread")
    users = ("centre-click", "worst-click", "best-click")
    rounds = 10
    options = (
        RunOption(
            "exhaustive", float, 0.2, "Share of scenes on which clicks are tried at every "
            "stride-th pixel, to find the true extremes.", least=0, most=1,
        ),
        RunOption("stride", int, 4, "Pixels between such clicks.", least=1),
        RunOption("clicks", Path, "", "Recorded human clicks, to compare with the attack."),
        CONSISTENCY,
        NO_START,
    )  # fmt: skip
    file_option = "clicks"

    def plan(self, plan: Plan) -> Plan:
        filled = super().plan(plan)
        clicks = filled.options["clicks"]
        if clicks and not Path(clicks).is_file():
            raise BadInput(f"there is no clicks file '{clicks}'")
        if "centre-click" in [spec.name for spec in filled.users]:
            return filled
        return replace(filled, users=(Spec("centre-click"), *filled.users))


@catalogue.benchmarks.add(
    "tetris-boxes", summary="sensitivity to the box (IoU and BIoU Min, Max, D)"
)
class TetrisBoxes(Attacked):
    """The tight box, the worst and the best one within human-like jitter, in one round."""

    name = "tetris-boxes"
    work = elsewhere("work:box_work")
    pages = "sections:box_sections"
    users = ("box", "worst-box", "best-box")
    headline = ("iou-min", "iou-base", "iou-max", "iou-d", "biou-d")

    def plan(self, plan: Plan) -> Plan:
        if plan.users and tuple(map(str, plan.users)) != self.users:
            raise BadInput("benchmark 'tetris-boxes' has its own users; leave out --user")
        filled = super().plan(plan)
        if filled.measures != self.measures:
            raise BadInput(
                "benchmark 'tetris-boxes' measures IoU and Boundary IoU; leave out --measure"
            )
        return filled

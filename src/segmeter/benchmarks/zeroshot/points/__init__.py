"""Segment Anything's point evaluation: how good is a mask after one to nine points?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from segmeter.benchmarks.declared import Declared
from segmeter.benchmarks.sessions import CONSISTENCY, rows_of, simulate_all
from segmeter.benchmarks.starts import NO_START
from segmeter.benchmarks.zeroshot import named, short_name, with_own_rules
from segmeter.core import catalogue
from segmeter.core.benchmarks import Row, RunOption
from segmeter.core.capabilities import RunsUsersIndependently, capable
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import Trajectory
from segmeter.core.models import Model
from segmeter.core.plans import Plan
from segmeter.core.rows import SESSION_ROWS, Column, Schema
from segmeter.core.scenes import Scene
from segmeter.core.users import User

POINT_ROWS = SESSION_ROWS.plus(
    [Column("oracle_iou", "number", "IoU of the best candidate, in the first round")]
)


@catalogue.benchmarks.add("points", summary="masks after 1 to 9 points (mIoU@1 to 9, oracle@1)")
@dataclass(frozen=True, slots=True)
@capable(RunsUsersIndependently)
class Points(Declared):
    """One to nine points, the first at the object's centre or anywhere on it."""

    name: str = "points"
    schema: ClassVar[Schema] = POINT_ROWS
    pages: ClassVar[str] = "statistics"
    headline: ClassVar[tuple[str, ...]] = ("iou@1", "oracle@1", "iou@3", "iou@9")
    users: ClassVar[tuple[str, ...]] = ("centre-point",)
    rounds: ClassVar[int] = 9
    measures: ClassVar[tuple[str, ...]] = ("iou", "boundary-iou")
    options: ClassVar[tuple[RunOption, ...]] = (
        RunOption("baseline", str, "", "The model others are compared with; empty for the first."),
        CONSISTENCY,
        NO_START,
    )
    split_by: ClassVar[tuple[str, ...]] = ("iou@1", "iou@3")
    citations: ClassVar[Mapping[str, str]] = {"benchmark points": "kirillov2023"}

    def plan(self, plan: Plan) -> Plan:
        filled = self.filled(plan)
        segmenters = tuple(with_own_rules(spec) for spec in plan.segmenters)
        baseline = filled.options["baseline"]
        if baseline and named(baseline, segmenters) is None:
            known = ", ".join(short_name(str(spec)) for spec in segmenters)
            raise BadInput(f"the baseline '{baseline}' is not among the models: {known}")
        return replace(filled, segmenters=segmenters)

    def work(self, segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
        users = [catalogue.users.make(spec) for spec in plan.users]
        return simulate_points(segmenter, scene, plan, users)


def simulate_points(model: Model, scene: Scene, plan: Plan, users: Sequence[User]) -> list[Row]:
    """Encode once, run every target with every user in every protocol, together.

    Rows have one more column, `oracle_iou`: in the first round the IoU of the best mask that
    the model offers, whichever it shows. It has no influence on later rounds.
    """
    records, seconds_encode = simulate_all(model, scene, plan, users, oracle_rounds=1)
    return [row for record in records for row in _rows(scene, record, seconds_encode, plan)]


def oracle_iou(record: Trajectory) -> float:
    """IoU of the best candidate of the first round."""
    first = record.rounds[0]
    return max([first.scores["iou"], *(scores["iou"] for scores in first.candidate_scores)])


def _rows(scene: Scene, record: Trajectory, seconds_encode: float, plan: Plan) -> Iterator[Row]:
    for row in rows_of(scene, record, seconds_encode, plan.keep_masks):
        yield row | {"oracle_iou": oracle_iou(record) if row["round"] == 1 else None}

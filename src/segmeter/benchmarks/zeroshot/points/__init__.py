"""Segment Anything's point evaluation: how good is a mask after one to nine points?"""

from __future__ import annotations

from segmeter.benchmarks.declared import Declared
from segmeter.benchmarks.zeroshot import RULES, named, short_name
from segmeter.core import catalogue
from segmeter.core.benchmarks import Row, RunOption
from segmeter.core.capabilities import RunsUsersIndependently, capable
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import Trajectory
from segmeter.core.models import Model
from segmeter.core.plans import Plan
from segmeter.core.rows import SESSION_ROWS, Column
from segmeter.core.scenes import Scene
from segmeter.users.simulation import CONSISTENCY, simulate_scene
from segmeter.users.starts import NO_START


@catalogue.benchmarks.add("points", summary="masks after 1 to 9 points (mIoU@1 to 9, oracle@1)")
@capable(RunsUsersIndependently)
class Points(Declared):
    """One to nine points, the first at the object's centre or anywhere on it."""

    name = "points"
    schema = SESSION_ROWS.plus(
        [Column("oracle_iou", "number", "IoU of the best candidate, in the first round")]
    )
    pages = "statistics"
    headline = ("iou@1", "oracle@1", "iou@3", "iou@9")
    users = ("centre-point",)
    rounds = 9
    measures = ("iou", "boundary-iou")
    options = (
        RunOption("baseline", str, "", "Model that others are compared with; the first if empty."),
        CONSISTENCY,
        NO_START,
    )
    split_by = ("iou@1", "iou@3")
    cited = "kirillov2023"
    model_options = RULES

    def plan(self, plan: Plan) -> Plan:
        filled = super().plan(plan)
        baseline = filled.options["baseline"]
        if baseline and named(baseline, filled.segmenters) is None:
            known = ", ".join(short_name(str(spec)) for spec in filled.segmenters)
            raise BadInput(f"the baseline '{baseline}' is not among the models: {known}")
        return filled

    def work(self, segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
        """Rows of sessions, with the best of the masks that the model offers in the first round;
        it has no influence on later rounds."""
        users = [catalogue.users.make(spec) for spec in plan.users]
        return [
            row | {"oracle_iou": oracle_iou(record) if row["round"] == 1 else None}
            for record, row in simulate_scene(segmenter, scene, plan, users, oracle_rounds=1)
        ]


def oracle_iou(record: Trajectory) -> float:
    first = record.rounds[0]
    return max([first.scores["iou"], *(scores["iou"] for scores in first.candidate_scores)])

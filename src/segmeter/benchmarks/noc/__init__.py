"""NoC: number of clicks until a mask is good enough, and how good it gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from segmeter.benchmarks.declared import Declared, elsewhere
from segmeter.core import catalogue
from segmeter.core.benchmarks import Row, RunOption
from segmeter.core.capabilities import RunsUsersIndependently, capable
from segmeter.core.errors import BadInput
from segmeter.core.models import Model
from segmeter.core.plans import Plan
from segmeter.core.rows import SESSION_ROWS
from segmeter.core.scenes import Scene
from segmeter.stats.goals import Goal
from segmeter.users.simulation import CONSISTENCY, simulate_scene
from segmeter.users.starts import OPTIONS as STARTS


@catalogue.benchmarks.add(
    "noc", summary="number of clicks to reach a target IoU (NoC, NoF, AuC, IoU@k, seconds)"
)
@capable(RunsUsersIndependently)
class Noc(Declared):
    """The click benchmark: a user corrects a mask for up to twenty rounds."""

    name = "noc"
    schema = SESSION_ROWS
    pages = "sections"
    cost_section = elsewhere("sections:project_section")
    users = ("centre-click",)
    rounds = 20
    measures = ("iou", "boundary-iou", "redrawn-path")
    headline = ("noc@90", "nof@90", "auc", "iou@1", "seconds-to-90")
    split_by = ("iou@1", "iou@3", "obeyed", "score-error")
    options = (
        RunOption("until", str, None, "End a session at a goal, such as 90 or 'iou>=0.9'."),
        CONSISTENCY,
        *STARTS,
    )
    paper_table = elsewhere("statistics:paper_layout")
    citations: ClassVar[Mapping[str, str]] = {
        "benchmark noc": "sofiiuk2022",
        "cost model (79 s per object by hand)": "lin2014",
    }

    def plan(self, plan: Plan) -> Plan:
        goal = until(plan)
        measured = () if goal is None else (goal.measure,)
        return super().plan(replace(plan, measures=(*plan.measures, *measured)))

    def work(self, segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
        users = [catalogue.users.make(spec) for spec in plan.users]
        goal = until(plan)
        met = None if goal is None else goal.met
        return [row for _, row in simulate_scene(segmenter, scene, plan, users, until=met)]


def until(plan: Plan) -> Goal | None:
    """The goal at which sessions end early, where the plan has one."""
    text = plan.options.get("until")
    return None if text is None else within_range(Goal.parse(str(text)))


def within_range(goal: Goal) -> Goal:
    """The goal, unless its installed measure cannot have the value, such as percent of Dice."""
    if goal.measure in catalogue.measures.names():
        low, high = catalogue.measures.make(goal.measure).range
        if not low <= goal.value <= high:
            raise BadInput(
                f"{goal.measure} is between {low:g} and {high:g}, and no goal is {goal.value:g}"
            )
    return goal

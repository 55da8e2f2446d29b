"""Clicks to quality: how many clicks until a mask is good enough, and how good it gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from segmeter.benchmarks.benchmark_base import OwnModules
from segmeter.benchmarks.sessions import Defaults, fill, simulate_scene
from segmeter.core import catalogue
from segmeter.core.benchmarks import Difference, Results, Row
from segmeter.core.errors import BadInput
from segmeter.core.models import Model
from segmeter.core.plans import Plan
from segmeter.core.rows import SESSION_ROWS, Schema
from segmeter.core.scenes import Scene
from segmeter.stats.goals import Goal

__all__ = ["Noc"]

_DEFAULTS = Defaults(users=("centre-click",), rounds=20)


@catalogue.benchmarks.add("noc", summary="clicks to quality (NoC, NoF, AuC, IoU@k, seconds)")
@dataclass(frozen=True, slots=True)
class Noc(OwnModules):
    """The click benchmark: a user corrects a mask for up to twenty rounds."""

    name: str = "noc"
    schema: ClassVar[Schema] = SESSION_ROWS
    independent_users: ClassVar[bool] = True
    headline: ClassVar[tuple[str, ...]] = ("noc@90", "nof@90", "auc", "iou@1", "seconds-to-90")

    def plan(self, plan: Plan) -> Plan:
        other = [name for name in plan.options if name != "until"]
        if other:
            raise BadInput(f"benchmark 'noc' has no setting '{other[0]}'; it has until")
        filled = fill(plan, _DEFAULTS)
        goal = _until(filled)
        if goal is None or goal.measure in filled.measures:
            return filled
        return fill(replace(filled, measures=(*filled.measures, goal.measure)), _DEFAULTS)

    def work(self, segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
        users = [catalogue.users.make(spec) for spec in plan.users]
        goal = _until(plan)
        return simulate_scene(segmenter, scene, plan, users, None if goal is None else goal.met)

    def differences_in(self, run: Results, measures: Sequence[str]) -> list[Difference]:
        from segmeter.benchmarks.noc.statistics import differences

        return differences(run, measures)


def _until(plan: Plan) -> Goal | None:
    """The goal at which sessions end early, where the plan has one."""
    text = plan.options.get("until")
    return None if text is None else Goal.parse(str(text))

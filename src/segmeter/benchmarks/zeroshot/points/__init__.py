"""Segment Anything's point evaluation: how good is a mask after one to nine points?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

from segmeter.benchmarks.declared import Declared
from segmeter.benchmarks.sessions import Defaults, fill
from segmeter.benchmarks.settings import offered, settings_of
from segmeter.benchmarks.zeroshot.model_options import CITATION, named, told, with_own_rules
from segmeter.benchmarks.zeroshot.points.simulation import simulate_points
from segmeter.core import catalogue
from segmeter.core.benchmarks import Group, Results, Row
from segmeter.core.capabilities import RunsUsersIndependently, capable
from segmeter.core.errors import BadInput
from segmeter.core.models import Model
from segmeter.core.plans import Plan
from segmeter.core.rows import SESSION_ROWS, Column, Schema
from segmeter.core.scenes import Scene
from segmeter.core.sections import Section
from segmeter.stats.statistics import Statistic

__all__ = ["POINT_ROWS", "Points", "Settings"]

_DEFAULTS = Defaults(users=("centre-point",), rounds=9)

POINT_ROWS = SESSION_ROWS.plus(
    [Column("oracle_iou", "number", "IoU of the best candidate, in the first round")]
)


@dataclass(frozen=True, slots=True)
class Settings:
    """`baseline` is the model that others are set against in the figure; the first, if empty."""

    baseline: str = ""


@catalogue.benchmarks.add("points", summary="Segment Anything's points (mIoU@1 to 9, oracle@1)")
@dataclass(frozen=True, slots=True)
@capable(RunsUsersIndependently)
class Points(Declared):
    """One to nine points, the first at the object's centre or anywhere on it."""

    name: str = "points"
    schema: ClassVar[Schema] = POINT_ROWS
    independent_users: ClassVar[bool] = True
    headline: ClassVar[tuple[str, ...]] = ("iou@1", "oracle@1", "iou@3", "iou@9")
    settings: ClassVar[dict[str, object]] = offered(Settings)
    split_by: ClassVar[tuple[str, ...]] = ("iou@1", "iou@3")
    citations: ClassVar[Mapping[str, str]] = {"benchmark points": CITATION}

    def plan(self, plan: Plan) -> Plan:
        chosen = settings_of(Settings, plan.options, self.name)
        segmenters = tuple(with_own_rules(spec) for spec in plan.segmenters)
        if chosen.baseline and named(chosen.baseline, segmenters) is None:
            known = ", ".join(told(str(spec)) for spec in segmenters)
            raise BadInput(
                f"the baseline '{chosen.baseline}' is none of the models that play: {known}"
            )
        return replace(fill(plan, _DEFAULTS), segmenters=segmenters, options=asdict(chosen))

    def work(self, segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
        users = [catalogue.users.make(spec) for spec in plan.users]
        return simulate_points(segmenter, scene, plan, users)

    def load(self, run: Results) -> Sequence[Group]:
        from segmeter.benchmarks.responses import response_groups
        from segmeter.benchmarks.zeroshot.points.statistics import played, with_means

        return [*with_means(played(run)), *response_groups(run)]

    def statistics(self, run: Results) -> Sequence[Statistic]:
        from segmeter.benchmarks.responses import STATISTICS as RESPONSES
        from segmeter.benchmarks.zeroshot.points.statistics import STATISTICS

        return [*STATISTICS, *RESPONSES]

    def sections(self, run: Results) -> Sequence[Section]:
        from segmeter.benchmarks.zeroshot.points.sections import sections

        return sections(run)

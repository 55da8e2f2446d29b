"""Object proposals: how many objects are among automatic masks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, get_args

from segmeter.benchmarks.declared import Declared
from segmeter.benchmarks.settings import offered, settings_of
from segmeter.benchmarks.zeroshot.model_options import CITATION
from segmeter.core import catalogue
from segmeter.core.benchmarks import Group, Results, Row
from segmeter.core.catalogue import Spec
from segmeter.core.detection_ground_truth import WithDetectionGroundTruth
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.models import Model
from segmeter.core.plans import Plan
from segmeter.core.rows import JOB_KEY, Column, Schema
from segmeter.core.scenes import Scene
from segmeter.core.sections import Section
from segmeter.models.automatic.options import Output
from segmeter.stats.statistics import Statistic

__all__ = ["PROPOSAL_ROWS", "Proposals", "Settings"]

PROPOSAL_ROWS = Schema(
    "proposals",
    (
        Column("model", "text"),
        Column("dataset", "text"),
        Column("scene", "text"),
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


@dataclass(frozen=True, slots=True)
class Settings:
    """The grid's points on a side, how much boxes may overlap, how many masks are proposed.

    `output=single` is the paper's ablation: one mask for each point, suppressed in an order
    drawn at random; it goes with `points=128` and `nms=0.95`.
    """

    points: int = 64
    nms: float = 0.9
    most: int = 1000
    output: Output = "three"


@catalogue.benchmarks.add(
    "proposals", summary="objects among automatic masks (AR@1000, class-agnostic)"
)
@dataclass(frozen=True, slots=True)
class Proposals(Declared):
    """Segment Anything's object proposals (supplement E.3) on data of COCO's layout."""

    name: str = "proposals"
    headline: ClassVar[tuple[str, ...]] = (
        "ar@1000",
        "ar@1000-small",
        "ar@1000-medium",
        "ar@1000-large",
    )
    settings: ClassVar[dict[str, object]] = offered(Settings)
    schema: ClassVar[Schema] = PROPOSAL_ROWS
    citations: ClassVar[Mapping[str, str]] = {"benchmark proposals": CITATION}

    def plan(self, plan: Plan) -> Plan:
        if plan.kind != "model":
            raise BadInput("benchmark 'proposals' tests models that take clicks; use --model")
        chosen = settings_of(Settings, plan.options, self.name)
        if chosen.points < 1 or chosen.most < 1 or not 0 <= chosen.nms <= 1:
            raise BadInput("proposals need a grid of at least 1 point, 1 mask, and nms in 0..1")
        if chosen.output not in get_args(Output):
            raise BadInput(f"proposals: output is three or single, not {chosen.output!r}")
        return replace(
            plan,
            segmenters=tuple(_resized(spec) for spec in plan.segmenters),
            users=(),
            rounds=1,
            protocols=plan.protocols or ("published", "corrected"),
            options=_written(chosen),
        )

    def work(self, segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
        from segmeter.benchmarks.zeroshot.proposals.work import rows_of

        if "click" not in segmenter.card.abilities:
            raise BadInput(f"model '{segmenter.card.name}' takes no clicks")
        if not isinstance(scene, WithDetectionGroundTruth):
            raise BadInput(f"{scene.name}: proposals are scored on data of COCO's layout")
        settings = Settings(**plan.options)
        return rows_of(
            segmenter, scene, scene.detection_ground_truth, settings, plan.protocols, plan.seed
        )

    def load(self, run: Results) -> Sequence[Group]:
        from segmeter.benchmarks.zeroshot.proposals.statistics import groups

        return groups(run)

    def statistics(self, run: Results) -> Sequence[Statistic]:
        from segmeter.benchmarks.zeroshot.proposals.statistics import Proposed, statistics

        return statistics([g for g in self.groups(run) if isinstance(g, Proposed)])

    def sections(self, run: Results) -> Sequence[Section]:
        from segmeter.benchmarks.zeroshot.proposals.sections import sections

        return sections(run)


def _written(chosen: Settings) -> dict[str, object]:
    """Settings as a plan keeps them: those of plans from before the ablation stay theirs."""
    return {
        name: value
        for name, value in asdict(chosen).items()
        if name != "output" or value == "single"
    }


def _resized(spec: Spec) -> Spec:
    """The first SAM with the image resized as Meta's own predictor does, unless told."""
    try:
        taken = inspect.signature(catalogue.models.entry(spec.name).make).parameters
    except NotFound:
        return spec  # an object of the caller's own
    if "resize" not in taken or "resize" in spec.options:
        return spec
    return Spec(spec.name, {**spec.options, "resize": "pillow"})

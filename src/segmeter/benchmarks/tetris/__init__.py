"""TETRIS: how much a model's answer hangs on where exactly a person clicks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from segmeter.benchmarks.declared import Declared
from segmeter.benchmarks.sessions import Defaults, fill
from segmeter.benchmarks.settings import offered, settings_of
from segmeter.core import catalogue
from segmeter.core.benchmarks import Group, PaperLayout, Results, Row, RunOption
from segmeter.core.capabilities import ChecksData, capable
from segmeter.core.catalogue import Spec
from segmeter.core.errors import BadInput
from segmeter.core.models import Model
from segmeter.core.plans import Plan
from segmeter.core.rows import SESSION_ROWS, Column, Schema
from segmeter.core.scenes import Dataset, Scene
from segmeter.core.sections import Section
from segmeter.stats.statistics import Statistic

__all__ = ["TETRIS_ROWS", "Attacked", "Settings", "Tetris"]

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

_DEFAULTS = Defaults(users=("centre-click", "worst-click", "best-click"), rounds=10)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings by `--option`.

    Attributes
    ----------
    exhaustive
        Share of scenes whose objects are also clicked at every `stride`-th pixel, to know
        how far the attack stays from the true extremes of the first click.
    stride
        Pixels between such clicks.
    clicks
        A file of real people's clicks, whose range the attack should cover.
    """

    exhaustive: float = 0.2
    stride: int = 4
    clicks: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.exhaustive <= 1:
            raise BadInput(f"exhaustive is a share of scenes, 0 to 1, not {self.exhaustive}")
        if self.stride < 1:
            raise BadInput(f"stride is at least 1 pixel, not {self.stride}")
        if self.clicks and not Path(self.clicks).is_file():
            raise BadInput(f"there is no clicks file '{self.clicks}'")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Settings:
        return settings_of(cls, options, "tetris")


_CITATION = (
    "Moskalenko, Shakhuro, Vorontsova, Konushin, Antonov, Krapukhin, Shepelev, Soshin. TETRIS: "
    "towards exploring the robustness of interactive segmentation. AAAI, 2024"
)


class Attacked(Declared):
    """Shared parts of attacks by clicks and by boxes: groups, statistics, the table."""

    __slots__ = ()
    schema: ClassVar[Schema] = TETRIS_ROWS
    citations: ClassVar[Mapping[str, str]] = {"benchmark TETRIS": _CITATION}

    def load(self, run: Results) -> Sequence[Group]:
        from segmeter.benchmarks.responses import response_groups
        from segmeter.benchmarks.tetris.groups import groups

        return [*groups(run), *response_groups(run, lambda user: "")]

    def statistics(self, run: Results) -> Sequence[Statistic]:
        from segmeter.benchmarks.responses import STATISTICS as RESPONSES
        from segmeter.benchmarks.tetris.statistics import STATISTICS

        return [*STATISTICS, *RESPONSES]

    def paper_table(self, run: Results) -> PaperLayout:
        return PaperLayout(
            {"iou-min": "Min", "iou-max": "Max", "iou-d": "D"},
            "Area under IoU (%) of the worst and the best prompts, and their difference",
        )


@catalogue.benchmarks.add("tetris", summary="robustness to the click (IoU and BIoU Min, Max, D)")
@dataclass(frozen=True, slots=True)
@capable(ChecksData)
class Tetris(Attacked):
    """The best and the worst click of ten rounds, compared with the centre click."""

    name: str = "tetris"
    headline: ClassVar[tuple[str, ...]] = (
        "iou-min",
        "iou-base",
        "iou-max",
        "iou-d",
        "first-spread",
    )
    settings: ClassVar[Mapping[str, Any]] = offered(Settings)
    options: ClassVar[tuple[RunOption, ...]] = (
        RunOption("--clicks", "clicks", "People's clicks, whose range the attack should cover.",
                  "<path>"),
    )  # fmt: skip

    def plan(self, plan: Plan) -> Plan:
        filled = fill(plan, _DEFAULTS)
        users = filled.users
        if "centre-click" not in [spec.name for spec in users]:
            users = (Spec("centre-click"), *users)
        for needed in ("iou", "boundary-iou"):
            if needed not in filled.measures:
                filled = replace(filled, measures=(*filled.measures, needed))
        return replace(filled, users=users, options=asdict(Settings.of(plan.options)))

    def check(self, plan: Plan, datasets: Mapping[str, Dataset]) -> None:
        """Read the recorded clicks before anything is written; a wrong row stops the run."""
        settings = Settings.of(plan.options)
        if settings.clicks:
            from segmeter.users.replay import check_clicks

            scenes = {dataset.card.name: dataset.scenes() for dataset in datasets.values()}
            check_clicks(Path(settings.clicks), scenes, absent="skip")

    def work(self, segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
        from segmeter.benchmarks.tetris.simulation import simulate_scene

        return simulate_scene(segmenter, scene, plan, Settings.of(plan.options))

    def sections(self, run: Results) -> Sequence[Section]:
        from segmeter.benchmarks.tetris.sections import sections

        return sections(run)

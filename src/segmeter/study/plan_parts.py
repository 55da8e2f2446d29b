"""Parts of a plan: when an answer counts, whose masks are shown, how masks are rated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from segmeter.core.errors import BadInput
from segmeter.study.plan_tables import PlanTable

__all__ = ["Masks", "Rating", "Reference", "Validity"]


@dataclass(frozen=True, slots=True)
class Validity:
    """When an answer counts.

    `radius` is the share of the image's diagonal by which a click may miss the target;
    a batch counts when `batch_minimum` of its clicks (without margin) are on their targets;
    a screen may miss its time by `late_ms`; a batch of ratings counts when at least the share
    `gold` of its masks with known answers was rated within their range.
    """

    radius: float = 0.01
    batch_minimum: int = 7
    late_ms: float = 50.0
    focus: bool = True
    gold: float = 0.5

    @classmethod
    def read(cls, part: PlanTable, kind: str, batch: int) -> Validity:
        """`[validity]`; RClicks' seven of ten where clicks are counted."""
        least = -(-7 * batch // 10) if kind in ("clicks", "clicks-round2") else 0
        found = cls(
            radius=part.number("radius", 0.01, 0.0, 1.0),
            batch_minimum=part.whole("batch_minimum", least, 0, batch),
            late_ms=part.number("late_ms", 50.0, 1.0, 10_000.0),
            focus=part.flag("focus", True),
            gold=part.number("gold", 0.5, 0.0, 1.0),
        )
        part.done()
        return found


@dataclass(frozen=True, slots=True)
class Masks:
    """Where masks come from: ground truth, a run's model and round, or a folder of PNG files."""

    name: str
    source: str = "ground_truth"
    run: str = ""
    model: str = ""
    round: int = 1
    folder: str = ""

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Masks:
        """One table of `[[masks]]`."""
        part = PlanTable(table, "[[masks]]")
        found = cls(
            name=part.words("name", "", 100),
            source=part.choice("source", ("ground_truth", "run", "folder"), "ground_truth"),
            run=part.words("run", "", 1000),
            model=part.words("model", "", 300),
            round=part.whole("round", 1, 1, 1000),
            folder=part.words("folder", "", 1000),
        )
        part.done()
        if not found.name:
            raise BadInput("[[masks]]: 'name' is missing; people never see it, the export has it")
        if found.source == "run" and not (found.run and found.model):
            raise BadInput(f"[[masks]] {found.name}: a run's masks need 'run' and 'model'")
        if found.source == "folder" and not found.folder:
            raise BadInput(f"[[masks]] {found.name}: say which 'folder' the PNG files lie in")
        return found


@dataclass(frozen=True, slots=True)
class Reference:
    """A job with a known answer: the scores that pass for it."""

    scene: str
    target: str
    masks: str
    low: int
    high: int

    @classmethod
    def read(cls, table: Mapping[str, Any], where: str) -> Reference:
        """One table of `[[rating.training]]` or `[[rating.gold]]`."""
        part = PlanTable(table, where)
        found = cls(
            part.words("scene", "", 300),
            part.words("target", "", 300),
            part.words("masks", "", 100),
            part.whole("low", 1, 1, 10),
            part.whole("high", 10, 1, 10),
        )
        part.done()
        if found.low > found.high:
            raise BadInput(f"{where} {found.scene}: 'low' is above 'high'")
        return found

    def passes(self, score: int) -> bool:
        return self.low <= score <= self.high


@dataclass(frozen=True, slots=True)
class Rating:
    """How masks are rated; `training` comes first, one of `gold` hides in every batch."""

    prompt: str = "point"
    overlap: float = 0.1
    pilot: int = 1
    spot_checks: float = 0.05
    least_area: int = 576
    pass_mark: float = 0.8
    training: tuple[Reference, ...] = ()
    gold: tuple[Reference, ...] = ()

    @property
    def known(self) -> dict[str, tuple[Reference, ...]]:
        """The masks with a known answer, by what they are for."""
        return {"training": self.training, "gold": self.gold}

    @classmethod
    def read(cls, part: PlanTable) -> Rating:
        """`[rating]` with its lists of masks whose score is known."""
        training, gold = (
            tuple(Reference.read(table, f"[[rating.{name}]]") for table in part.tables(name))
            for name in ("training", "gold")
        )
        found = cls(
            prompt=part.choice("prompt", ("point", "box"), "point"),
            overlap=part.number("overlap", 0.1, 0.0, 1.0),
            pilot=part.whole("pilot", 1, 1, 50),
            spot_checks=part.number("spot_checks", 0.05, 0.0, 1.0),
            least_area=part.whole("least_area", 576, 0, 10**8),
            pass_mark=part.number("pass_mark", 0.8, 0.0, 1.0),
            training=training,
            gold=gold,
        )
        part.done()
        return found

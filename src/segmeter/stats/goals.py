"""Goals: what counts as good enough, such as 90 % IoU or a Dice of 0.9."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from segmeter.core.errors import BadInput
from segmeter.core.rows import measure_column
from segmeter.stats.intervals import Floats

__all__ = ["Goal", "Goals"]

_WRITTEN = re.compile(r"\s*([A-Za-z][\w.:/-]*)\s*(>=|<=)\s*([-+.\deE]+)\s*")


@dataclass(frozen=True, slots=True)
class Goal:
    """A measure and the value from which an object is done; `below` where less is better."""

    value: float
    measure: str = "iou"
    below: bool = False

    @classmethod
    def parse(cls, text: str) -> Goal:
        """A goal as it is typed: percent of IoU, or a measure with its limit.

        >>> Goal.parse("85")
        Goal(value=0.85, measure='iou', below=False)
        >>> Goal.parse("hd95<=3").tag
        'hd95<=3'
        """
        written = _WRITTEN.fullmatch(text)
        try:
            value = float(written[3] if written else text)
        except ValueError:
            raise BadInput(_wanted(text)) from None
        if written:
            return cls(_finite(value, text), written[1], written[2] == "<=")
        if not 1 < value <= 100:
            raise BadInput(_wanted(text))
        return cls(value / 100)

    @property
    def tag(self) -> str:
        """How statistics name it: `90` in `noc@90`, `dice>=0.9` in `noc@dice>=0.9`."""
        if self._percent:
            return f"{100 * self.value:.6g}"
        return f"{self.measure}{'<=' if self.below else '>='}{self.value:g}"

    @property
    def text(self) -> str:
        """How people say it.

        >>> Goal(0.9).text, Goal(0.9, "dice").text
        ('90 % IoU', 'dice of 0.9')
        """
        if self._percent:
            return f"{100 * self.value:.6g} % IoU"
        return f"{self.measure} of {self.value:g}" + (" or less" if self.below else "")

    @property
    def _percent(self) -> bool:
        return self.measure == "iou" and not self.below and 0.01 < self.value <= 1

    @property
    def short(self) -> str:
        """How narrow headings say it."""
        return self.text.removesuffix(" IoU")

    def signed(self, curves: Floats) -> tuple[Floats, float]:
        """Curves and goal with the sign that makes more better."""
        return (-curves, -self.value) if self.below else (curves, self.value)

    def covers(self, other: Goal) -> bool:
        """Whether a session that went on until this goal shows when the other was reached.

        >>> Goal(0.9).covers(Goal(0.85)), Goal(0.9).covers(Goal(0.95))
        (True, False)
        """
        same = (self.measure, self.below) == (other.measure, other.below)
        return same and (other.value >= self.value if self.below else other.value <= self.value)

    def met(self, scores: Mapping[str, float]) -> bool:
        """Whether a round's scores, by column, reach it."""
        value = scores.get(measure_column(self.measure))
        if value is None:
            raise BadInput(f"goal '{self.tag}': the run does not take the measure '{self.measure}'")
        sign = -1 if self.below else 1
        return bool(sign * value >= sign * self.value)


@dataclass(frozen=True, slots=True)
class Goals:
    """The goals of a page: the first asked for leads, all are counted."""

    lead: Goal
    all: tuple[Goal, ...]

    @classmethod
    def of(cls, wanted: object) -> Goals:
        """From what was typed, such as `85,90,95`; by default 80, 85, 90 and 95, led by 90.

        >>> [g.tag for g in Goals.of("dice>=0.9,85").all]
        ['dice>=0.9', '85']
        """
        if wanted is None:
            usual = tuple(Goal(q / 100) for q in (80, 85, 90, 95))
            return cls(usual[2], usual)
        texts: Sequence[str] = str(wanted).split(",")
        made = tuple(dict.fromkeys(Goal.parse(text) for text in texts))
        return cls(made[0], made)


def _finite(value: float, text: str) -> float:
    if not math.isfinite(value):
        raise BadInput(_wanted(text))
    return float(np.float64(value))


def _wanted(text: str) -> str:
    return (
        f"a goal is percent of IoU above 1 or a measure with a limit, not '{text}': 85, dice>=0.9"
    )

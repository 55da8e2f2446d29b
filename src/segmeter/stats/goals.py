"""Goals: a target quality, such as 90 % IoU or a Dice of 0.9."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, check_choice
from segmeter.core.models import PROTOCOLS, ProtocolName
from segmeter.core.rows import measure_column
from segmeter.stats.intervals import Floats

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
            value = math.nan
        if written and math.isfinite(value):
            return cls(value, written[1], written[2] == "<=")
        if written or not 1 < value <= 100:
            raise BadInput(
                f"a goal is percent of IoU above 1 or a measure with a limit, not '{text}': 85, "
                "dice>=0.9"
            )
        return cls(value / 100)

    @property
    def tag(self) -> str:
        """Its name in statistics: `90` in `noc@90`, `dice>=0.9` in `noc@dice>=0.9`."""
        if self._percent:
            return f"{100 * self.value:.6g}"
        return f"{self.measure}{'<=' if self.below else '>='}{self.value:g}"

    @property
    def text(self) -> str:
        """Its name in texts.

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
        """Its name in narrow headings."""
        return self.text.removesuffix(" IoU")

    def signed(self, curves: Floats) -> tuple[Floats, float]:
        """Curves and goal with the sign that makes more better."""
        return (-curves, -self.value) if self.below else (curves, self.value)

    def covers(self, other: Goal) -> bool:
        """Whether a session that ran until this goal shows when the other was reached.

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
    """The goals of a page: the first one given is the main one."""

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


def first_round(curves: npt.ArrayLike, goal: float) -> npt.NDArray[np.int64]:
    """The first round at or above the goal, 0 where it never comes; later drops do not count.

    >>> first_round([[0.5, 0.9, 0.6], [0.1, 0.2, 0.3]], 0.9).tolist()
    [2, 0]
    """
    hit = np.asarray(curves, dtype=float) >= goal
    return np.where(hit.any(axis=1), hit.argmax(axis=1) + 1, 0).astype(np.int64)


def reached(curves: npt.ArrayLike, goal: float) -> npt.NDArray[np.bool_]:
    """Which targets ever reach the goal.

    >>> reached([[0.5, 0.7], [0.8, 0.95]], goal=0.9).tolist()
    [False, True]
    """
    return first_round(curves, goal) > 0


def rounds_to(curves: npt.ArrayLike, goal: float) -> Floats:
    """Rounds to the goal, K where it never comes: NoC when rounds are clicks.

    >>> rounds_to([[0.5, 0.9, 0.6], [0.1, 0.2, 0.3]], 0.9).tolist()
    [2.0, 3.0]
    """
    first = first_round(curves, goal)
    return np.where(first == 0, np.shape(curves)[1], first).astype(float)


def failed(curves: npt.ArrayLike, goal: float, protocol: ProtocolName) -> npt.NDArray[np.bool_]:
    """Which targets count as failures.

    >>> curve = [[0.1, 0.95]]  # success at the last round
    >>> bool(failed(curve, 0.9, "published")[0]), bool(failed(curve, 0.9, "corrected")[0])
    (True, False)
    """
    check_choice("protocol", protocol, PROTOCOLS)
    if protocol == "published":
        return np.equal(rounds_to(curves, goal), np.shape(curves)[1])
    return ~reached(curves, goal)


def area_under(curves: npt.ArrayLike) -> Floats:
    """Area under each curve by trapezoids over rounds 1 to K, divided by K - 1.

    >>> area_under([[0.5, 1.0, 1.0]]).tolist()
    [0.875]
    """
    table = np.asarray(curves, dtype=float)
    if table.shape[1] == 1:
        return table[:, 0]
    inner = table.sum(axis=1) - (table[:, 0] + table[:, -1]) / 2
    return np.asarray(inner / (table.shape[1] - 1))


def at_round(curves: npt.ArrayLike, k: int) -> Floats:
    """The measure after round k.

    >>> at_round([[0.5, 0.7], [0.8, 0.95]], 2).tolist()
    [0.7, 0.95]
    """
    table = np.asarray(curves, dtype=float)
    if not 1 <= k <= table.shape[1]:
        raise BadInput(f"round {k} was not run; rounds go from 1 to {table.shape[1]}")
    return table[:, k - 1]


def success(curves: npt.ArrayLike, goal: float) -> Floats:
    """Whether each target has reached the goal by each round, as 0 or 1; its mean is the
    success curve (one minus Kaplan and Meier's, since all are censored at K).

    >>> success([[0.5, 0.95, 0.8]], goal=0.9).tolist()
    [[0.0, 1.0, 1.0]]
    """
    hit = np.asarray(curves, dtype=float) >= goal
    return np.maximum.accumulate(hit, axis=1).astype(float)

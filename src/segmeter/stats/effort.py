"""Effort: what a session costs a person, in seconds.

Clicks are counted easily and compared unfairly: a model that needs one click fewer but
lets its user wait five seconds saves nobody time. The cost model is yours to edit.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from segmeter.core.effort import Effort
from segmeter.core.errors import BadInput, NotFound, suggestion
from segmeter.stats.intervals import Floats
from segmeter.stats.rounds import first_round

__all__ = ["CostModel", "seconds_after", "seconds_to"]


@dataclass(frozen=True, slots=True)
class CostModel:
    """Seconds that people and machines take; a TOML file may set any of them.

    Attributes
    ----------
    locate
        To find the object before anything is drawn: 1 s (the literature reviewed in
        Antonov et al. 2024, RClicks, appendix on display times).
    click
        To place one click: 1.5 s (same review; with `locate` a first click takes 2.5 s,
        the upper end of the 1.87 to 2.5 s reported there).
    box
        To draw one box: 7 s (Papadopoulos et al. 2017, extreme clicking).
    scribble
        To draw one stroke: 3 s. No source: twice a click, our assumption.
    stroke
        To draw one stroke in a volume, for each voxel of its length on top of `scribble`:
        0.02 s. No source: our assumption.
    scroll
        To pass one slice on the way to the next: 0.1 s. No source: ten slices a second, our
        assumption.
    other
        Any other prompt, such as words: 3 s. No source, our assumption.
    by_hand
        Added when the goal is not reached within the rounds and the rest is drawn by hand:
        0 s, that is, failures cost only the rounds played. Polygons in COCO took 79 s an
        object (Lin et al. 2014).
    wait
        Whether the person waits for the machine: measured seconds to look (shared by the
        targets of a scene) and to answer are added.
    """

    locate: float = 1.0
    click: float = 1.5
    box: float = 7.0
    scribble: float = 3.0
    stroke: float = 0.02
    scroll: float = 0.1
    other: float = 3.0
    by_hand: float = 0.0
    wait: bool = True

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) is not (field.name == "wait"):
                raise BadInput(f"cost model: '{field.name}' cannot be {value!r}")
            if not isinstance(value, bool) and not (
                isinstance(value, int | float) and 0 <= value < float("inf")
            ):
                raise BadInput(f"cost model: '{field.name}' is seconds, not {value!r}")

    @classmethod
    def read(cls, path: Path) -> CostModel:
        """From a TOML file of `name = seconds` lines; what it leaves out keeps its default."""
        try:
            given = tomllib.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise NotFound(f"no cost model at '{path}'") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            raise BadInput(f"cost model '{path}' cannot be read: {error}") from error
        known = [field.name for field in dataclasses.fields(cls)]
        for name in given:
            if name not in known:
                raise BadInput(
                    f"cost model '{path}' sets '{name}';{suggestion(name, known)}"
                    f" it may set {', '.join(known)}"
                )
        return cls(**given)

    def of(self, kind: str) -> float:
        """Seconds for one prompt of a kind: `click`, `box`, `scribble` or another."""
        known = {"click": self.click, "box": self.box, "scribble": self.scribble}
        return known.get(kind, self.other)

    def of_effort(self, effort: Effort) -> float:
        """Seconds of work in a volume; a 3D box is drawn as two boxes, in two planes.

        >>> CostModel().of_effort(Effort(points=2, scrolled=10))
        4.0
        """
        named = effort.slices * self.click
        boxes = (effort.boxes + 2 * effort.boxes_3d) * self.box
        strokes = effort.scribbles * self.scribble + effort.stroke_px * self.stroke
        return effort.points * self.click + named + boxes + strokes + effort.scrolled * self.scroll


def seconds_after(
    cost: CostModel,
    kinds: Sequence[Sequence[str]],
    answer: npt.ArrayLike,
    look: npt.ArrayLike,
) -> Floats:
    """Seconds spent by the end of each round, `(targets, rounds)`.

    Parameters
    ----------
    kinds
        Kind of prompt in each round of each target; `""` where nothing was said any more.
    answer
        Measured seconds to answer, `(targets, rounds)`.
    look
        Measured seconds to look, each target's share, `(targets,)`.
    """
    price = {kind: cost.of(kind) for row in kinds for kind in row if kind}
    spoken = np.array([[price.get(kind, 0.0) for kind in row] for row in kinds])
    waited = np.asarray(answer, dtype=float) if cost.wait else np.zeros_like(spoken)
    start = cost.locate + (np.asarray(look, dtype=float) if cost.wait else 0.0)
    return np.asarray(np.cumsum(spoken + waited, axis=1) + np.reshape(start, (-1, 1)))


def seconds_to(cost: CostModel, curves: npt.ArrayLike, after: npt.ArrayLike, goal: float) -> Floats:
    """Seconds to the goal; where it never comes, all rounds and the rest by hand."""
    first = first_round(curves, goal)
    spent = np.asarray(after, dtype=float)
    last = np.where(first == 0, spent.shape[1], first) - 1
    seconds = spent[np.arange(len(spent)), last]
    return np.asarray(seconds + np.where(first == 0, cost.by_hand, 0.0))

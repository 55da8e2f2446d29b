"""Annotation time: seconds of a session under the cost model, and seconds of waiting.

The two are never added: an annotator's seconds follow from the actions, under a cost model that
you can edit; waiting was measured on one machine.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from segmeter.core.action_counts import Effort
from segmeter.core.errors import BadInput, NotFound, suggestion
from segmeter.stats.goals import first_round
from segmeter.stats.intervals import Floats


@dataclass(frozen=True, slots=True)
class CostModel:
    """Seconds that people take; a TOML file may set any of them.

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
        To pass one slice on the way to the next: 0.1 s. No source: ten slices per second, our
        assumption.
    other
        Any other prompt, such as words: 3 s. No source, our assumption.
    review
        To look at the result: 0 s. Not in the sources above; `segmeter clicks costs`
        fits it to a log.
    by_hand
        To draw an object by hand, added when the goal is not reached within the rounds: 79 s,
        what a polygon took in COCO (Lin et al. 2014, section 4.3: 22 worker hours for 1000
        segmentations).
    by_hand_px
        To draw by hand, for each contour pixel of the object on top of `by_hand`: 0 s.
        Set `by_hand = 0` as well for a price by length alone.
    touch_up
        To correct a contour by hand, relative to drawing it: 1, so that a contour pixel to be
        drawn again costs (`by_hand` - `locate`) / mean contour of the dataset. No published
        seconds per corrected pixel or vertex are known: our assumption. `inf` for never.
    """

    locate: float = 1.0
    click: float = 1.5
    box: float = 7.0
    scribble: float = 3.0
    stroke: float = 0.02
    scroll: float = 0.1
    other: float = 3.0
    review: float = 0.0
    by_hand: float = 79.0
    by_hand_px: float = 0.0
    touch_up: float = 1.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool):
                raise BadInput(f"cost model: '{field.name}' cannot be {value!r}")
            free = field.name == "touch_up" and value == float("inf")
            if not (isinstance(value, int | float) and (0 <= value < float("inf") or free)):
                raise BadInput(f"cost model: '{field.name}' is seconds, not {value!r}")

    @classmethod
    def read(cls, path: Path) -> CostModel:
        """From a TOML file of `name = seconds` lines; what it leaves out keeps its default."""
        try:
            given = tomllib.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise NotFound(f"no cost model at '{path}'") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError, RecursionError) as error:
            raise BadInput(f"cost model '{path}' cannot be read: {error}") from error
        known = [field.name for field in dataclasses.fields(cls)]
        if "wait" in given:
            raise BadInput(
                f"cost model '{path}' sets 'wait'; waiting is reported separately and not added to "
                "a person's seconds: remove the line"
            )
        for name in given:
            if name not in known:
                raise BadInput(
                    f"cost model '{path}' sets '{name}';{suggestion(name, known)}"
                    f" it may set {', '.join(known)}"
                )
        return cls(**given)

    @property
    def per_object(self) -> float:
        """Seconds that an object takes however many prompts it gets: finding and reviewing it."""
        return self.locate + self.review

    def of(self, kind: str) -> float:
        """Seconds for one prompt of a kind: `click`, `box`, `scribble` or another."""
        known = {"click": self.click, "box": self.box, "scribble": self.scribble}
        return known.get(kind, self.other)

    def of_round(self, kinds: str) -> float:
        """Seconds for the prompts of a round, several as `box+click`, none as an empty text.

        >>> CostModel().of_round('box+click'), CostModel().of_round('')
        (8.5, 0.0)
        """
        return sum((self.of(kind) for kind in kinds.split("+")), 0.0) if kinds else 0.0

    def of_effort(self, effort: Effort) -> float:
        """Seconds of work in a volume; a 3D box is drawn as two boxes, in two planes.

        >>> CostModel().of_effort(Effort(points=2, scrolled=10))
        4.0
        """
        named = effort.slices * self.click
        boxes = (effort.boxes + 2 * effort.boxes_3d) * self.box
        strokes = effort.scribbles * self.scribble + effort.stroke_px * self.stroke
        return effort.points * self.click + named + boxes + strokes + effort.scrolled * self.scroll

    def drawing(self, contour_px: npt.ArrayLike | None = None) -> Floats:
        """Seconds to draw objects by hand, from the length of their contours in pixels.

        >>> CostModel(by_hand=10, by_hand_px=0.5).drawing([100.0, 20.0]).tolist()
        [60.0, 20.0]
        """
        if contour_px is None:
            if self.by_hand_px:
                raise BadInput(
                    "by_hand_px needs contours, and this run kept no length of them: run it again"
                )
            return np.array(self.by_hand)
        return self.by_hand + self.by_hand_px * np.asarray(contour_px, dtype=float)


def seconds_after(cost: CostModel, kinds: Sequence[Sequence[str]]) -> Floats:
    """A person's seconds by the end of each round, `(targets, rounds)`.

    `kinds` are the kinds of prompt in each round of each target, several as `box+click`, `""`
    without a prompt.

    >>> seconds_after(CostModel(), [["box", "click", ""]]).tolist()
    [[8.0, 9.5, 9.5]]
    """
    price = {kind: cost.of_round(kind) for kind in set(chain.from_iterable(kinds))}
    prompt_cost = np.array([[price[kind] for kind in row] for row in kinds])
    return np.asarray(np.cumsum(prompt_cost, axis=1) + cost.per_object)


def seconds_to(
    cost: CostModel,
    curves: npt.ArrayLike,
    after: npt.ArrayLike,
    goal: float,
    contour_px: npt.ArrayLike | None = None,
) -> Floats:
    """A person's seconds to the goal; where it is never reached, all rounds and the drawing.

    >>> seconds_to(CostModel(), [[0.5, 0.95], [0.1, 0.2]], [[2.5, 4.0]] * 2, 0.9).tolist()
    [4.0, 83.0]
    """
    first, seconds = _until(curves, after, goal)
    return np.asarray(seconds + np.where(first == 0, cost.drawing(contour_px), 0.0))


def seconds_with_touch_up(
    cost: CostModel,
    curves: npt.ArrayLike,
    after: npt.ArrayLike,
    goal: float,
    redrawn_path: npt.ArrayLike,
    contour: npt.ArrayLike,
    by_hand: npt.ArrayLike | None = None,
    typical: tuple[float, float] | None = None,
) -> tuple[Floats, Floats]:
    """A person's least seconds to the goal, by clicks or by correcting a mask by hand earlier.

    After each round the person may stop and correct the contour, for no more than drawing the
    whole object (`by_hand` seconds, by default those of the cost model). `redrawn_path` is in the
    unit of `contour`: the path of an empty mask is the whole contour, and costs what drawing an
    object of mean length does after it is found. `typical` is that mean length and the mean
    seconds by hand; by default those of these objects. Also returns after how many rounds that
    is best: the round of the goal where clicking on is.

    >>> seconds, clicks = seconds_with_touch_up(
    ...     CostModel(), [[0.5, 0.8, 0.95]], [[2.5, 4.0, 5.5]], 0.9, [[40.0, 1.0, 0.0]], [100.0])
    >>> seconds.round(2).tolist(), clicks.tolist()
    ([4.78], [2.0])
    """
    first, reached_after = _until(curves, after, goal)
    spent, length = np.asarray(after, float), np.asarray(contour, float)
    hand = cost.drawing(length) if by_hand is None else by_hand
    whole = np.broadcast_to(np.atleast_1d(np.asarray(hand, float)), (len(spent),))
    clicked = reached_after + np.where(first == 0, whole, 0.0)
    rounds = spent.shape[1]
    last = np.where(first == 0, rounds, first)
    if np.isinf(cost.touch_up):
        return clicked, last.astype(float)
    mean, drawing = (float(length.mean()), float(whole.mean())) if typical is None else typical
    price = cost.touch_up * max(0.0, drawing - cost.locate)
    price /= max(mean, 1e-9)  # a mean of 0: all fill their images
    path = np.asarray(redrawn_path, dtype=float)
    total = spent + np.minimum(price * path, whole[:, None])
    before = (np.arange(1, rounds + 1) < last[:, None]) | (first == 0)[:, None]
    total = np.where(before & ~np.isnan(total), total, np.inf)
    best = total.argmin(axis=1)
    least = total[np.arange(len(total)), best]
    cheaper = least < clicked
    return np.where(cheaper, least, clicked), np.where(cheaper, best + 1.0, last)


def waiting_to(
    curves: npt.ArrayLike, predict: npt.ArrayLike, encode: npt.ArrayLike, goal: float
) -> Floats:
    """Measured seconds that a person waits until the goal, or until the rounds are over.

    `predict` is `(targets, rounds)`; of `encode` each target has its share, `(targets,)`.

    >>> waiting_to([[0.5, 0.95]], [[0.2, 0.3]], [1.0], 0.9).tolist()
    [1.5]
    """
    waited = np.cumsum(np.asarray(predict, dtype=float), axis=1)
    return np.asarray(_until(curves, waited, goal)[1] + np.asarray(encode, dtype=float))


def _until(
    curves: npt.ArrayLike, after: npt.ArrayLike, goal: float
) -> tuple[npt.NDArray[np.int64], Floats]:
    """The round of the goal, 0 where it never comes, and what was spent by then."""
    first = first_round(curves, goal)
    spent = np.asarray(after, dtype=float)
    last = np.where(first == 0, spent.shape[1], first) - 1
    return first, spent[np.arange(len(spent)), last]


def quality_at(quality: npt.ArrayLike, effort: npt.ArrayLike, budget: float) -> Floats:
    """Quality of the last round that the budget pays for, 0 where it pays for none.

    >>> quality_at([[0.5, 0.7]], [[3, 6]], budget=5).tolist()
    [0.5]
    """
    values, spent = np.asarray(quality, dtype=float), np.asarray(effort, dtype=float)
    rounds = (spent <= budget).sum(axis=1)
    last = values[np.arange(len(values)), np.maximum(rounds, 1) - 1]
    return np.where(rounds > 0, last, 0.0)


def effort_to(quality: npt.ArrayLike, effort: npt.ArrayLike, goal: float) -> Floats:
    """Effort by the first round at or above the goal; all that was spent where it never comes.

    Where it never comes the value is a lower bound: report how many never reach it as well.

    >>> effort_to([[0.5, 0.9], [0.1, 0.2]], [[3, 6], [3, 6]], goal=0.8).tolist()
    [6.0, 6.0]
    """
    return _until(quality, effort, goal)[1]


def area_to(quality: npt.ArrayLike, effort: npt.ArrayLike, budget: float) -> Floats:
    """Mean quality over a budget: the area under the staircase, divided by the budget.

    >>> area_to([[0.5, 1.0]], [[2, 6]], budget=10).tolist()
    [0.6]
    """
    values, spent = np.asarray(quality, dtype=float), np.asarray(effort, dtype=float)
    edges = np.minimum(np.hstack([spent, np.full((len(spent), 1), np.inf)]), budget)
    return np.asarray((values * np.diff(edges, axis=1)).sum(axis=1) / budget)

"""Statistics of videos: J&F after the last round, over rounds, and against a person's seconds.

Every object counts once; intervals resample videos. Published seconds are SAM 2's (1 s to find
the object in a frame, 1.5 s per click, 0.1 s per frame watched), or in mode `davis` the seconds
that the tracker took, as the DAVIS package counts them. Corrected seconds are a person's, under
the cost model in use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from segmeter.benchmarks.costs import cost_of
from segmeter.benchmarks.video import COUNTS, NUMBERS
from segmeter.core.benchmarks import Results
from segmeter.core.scores_by_step import Tables, load_tables
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.intervals import Floats
from segmeter.stats.statistics import Statistic, mean_of_known

DAVIS_SECONDS = 60.0
_TIMEOUT = 30.0
"""Seconds per object and interaction of the DAVIS challenge."""
_PUBLISHED = CostModel()
Values = Callable[[Tables], Floats]


def groups(run: Results) -> list[Tables]:
    """The run's sessions, a line per object and a column per round."""
    return load_tables(run, (*NUMBERS, *COUNTS, "seconds_predict", "seconds_encode"))


def seconds_of(group: Tables, cost: CostModel) -> Floats:
    """Seconds by the end of each round, `(objects, rounds)`."""
    if group.protocol == "published":
        if "scribble" in group.user:
            spent = np.cumsum(np.nan_to_num(group.table("seconds_predict")), axis=1)
            return np.asarray(spent + group.table("seconds_encode"))
        cost = _PUBLISHED
    return np.asarray(
        cost.locate * group.table("frames_prompted")
        + cost.click * group.table("clicks")
        + cost.box * group.table("boxes")
        + cost.scribble * group.table("strokes")
        + cost.by_hand * group.table("masks_drawn")
        + cost.scroll * group.table("frames_watched")
    )


def at_seconds(quality: Floats, seconds: Floats, when: float = DAVIS_SECONDS) -> Floats:
    """Quality at a time, linear between rounds from 0 at the start, the last value held.

    >>> at_seconds(np.array([[0.5, 1.0]]), np.array([[30.0, 90.0]])).tolist()
    [0.75]
    """
    return np.array(
        [np.interp(when, [0.0, *s], [0.0, *q]) for q, s in zip(quality, seconds, strict=True)]
    )


def davis_area(quality: Floats, seconds: Floats, timeout: Floats) -> Floats:
    """Area under quality against seconds up to each object's timeout, divided by it.

    >>> davis_area(np.array([[0.5, 1.0]]), np.array([[2.0, 4.0]]), np.array([8.0])).tolist()
    [0.75]
    """
    found = []
    for q, s, end in zip(quality, seconds, timeout, strict=True):
        x = np.unique(np.clip([0.0, *s, end], 0, end))
        found.append(np.trapezoid(np.interp(x, [0.0, *s], [0.0, *q]), x) / end)
    return np.array(found)


def statistics(run: Results) -> list[Statistic]:
    cost = cost_of(run)

    def seconds(group: Tables) -> Floats:
        return seconds_of(group, cost)

    def area(group: Tables) -> Floats:
        quality = group.table("jf")
        if group.protocol == "published" and "scribble" in group.user:
            timeout = _TIMEOUT * quality.shape[1] * group.table("objects")[:, 0]
            return davis_area(quality, seconds(group), timeout)
        return np.asarray(quality.mean(axis=1))

    def share(name: str, title: str, values: Values | None = None, **more: Any) -> Statistic:
        values = values or _last(name.replace("-", "_"))
        more = {"better": "higher", **more}
        return Statistic(name, title, "%", 1, percent=True, values=values, of=Tables, **more)

    def spent(name: str, title: str, unit: str, digits: int, of: Values, **more: Any) -> Statistic:
        return Statistic(name, title, unit, digits, "lower", values=of, of=Tables, **more)

    return [
        share("jf", "J&F", tested="yes"),
        share("j", "J"),
        share("f", "F"),
        share("j-recall", "J recall"),
        share("j-decay", "J decay", better="lower"),
        share("f-recall", "F recall"),
        share("f-decay", "F decay", better="lower"),
        share("jf-mean", "mean J&F", lambda g: g.table("jf").mean(axis=1), tested="yes"),
        share("area", "area", area),
        share("jf@60s", "J&F at 60 s", lambda g: at_seconds(g.table("jf"), seconds(g))),
        *(share(f"jf@{n}", f"J&F, {n} prompted", _last("jf", n)) for n in (1, 2, 4, 8)),
        share("flicker", "flicker", better="lower"),
        share("obeyed", "clicks obeyed", interval=mean_of_known),
        spent("frames", "prompted", "frames", 2, _last("frames_prompted")),
        spent("clicks", "clicks", "", 1, _last("clicks"), effort="clicks"),
        spent("strokes", "strokes", "", 1, _last("strokes")),
        spent("seconds", "seconds", "s", 0, lambda g: seconds(g)[:, -1], effort="seconds"),
        spent("ms-frame", "tracker, per frame", "ms", 0, _per_frame, tested="no"),
    ]


def _last(column: str, rounds: int = 1 << 30) -> Values:
    """The value after so many rounds, or after the last one."""
    return lambda group: group.table(column)[:, :rounds][:, -1]


def _per_frame(group: Tables) -> Floats:
    spent: Floats = np.nan_to_num(group.table("seconds_predict")).sum(axis=1)
    passes = np.maximum(group.table("frames_prompted")[:, -1], 1)
    return np.asarray(1000 * spent / (passes * group.table("frames")[:, 0]))

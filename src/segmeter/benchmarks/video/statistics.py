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
from segmeter.core.benchmarks import Results
from segmeter.core.scores_by_step import Tables
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.intervals import Floats
from segmeter.stats.statistics import Statistic, mean_of_known

DAVIS_SECONDS = 60.0
_TIMEOUT = 30.0
"""Seconds per object and interaction of the DAVIS challenge."""
_ROUNDS_SHOWN = (1, 2, 4, 8)
_LOWER, _TESTED = ("j-decay", "f-decay", "flicker"), ("jf", "jf-mean")
_PUBLISHED = CostModel()


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

    shares: dict[str, tuple[str, Callable[[Tables], Floats]]] = {
        "jf": ("J&F", _last("jf")),
        "j": ("J", _last("j")),
        "f": ("F", _last("f")),
        "j-recall": ("J recall", _last("j_recall")),
        "j-decay": ("J decay", _last("j_decay")),
        "f-recall": ("F recall", _last("f_recall")),
        "f-decay": ("F decay", _last("f_decay")),
        "jf-mean": ("mean J&F", lambda g: g.table("jf").mean(axis=1)),
        "area": ("area", area),
        "jf@60s": ("J&F at 60 s", lambda g: at_seconds(g.table("jf"), seconds(g))),
        **{f"jf@{n}": (f"J&F, {n} prompted", _last("jf", n)) for n in _ROUNDS_SHOWN},
        "flicker": ("flicker", _last("flicker")),
    }
    made = [
        Statistic(name, title, "%", 1, "lower" if name in _LOWER else "higher", True,
                  values=values, of=Tables, tested="yes" if name in _TESTED else "on request")
        for name, (title, values) in shares.items()
    ]  # fmt: skip
    made.append(
        Statistic("obeyed", "clicks obeyed", "%", 1, "higher", True, values=_last("obeyed"),
                  interval=mean_of_known, of=Tables)
    )  # fmt: skip
    spent: dict[str, tuple[str, str, int, Callable[[Tables], Floats], dict[str, Any]]] = {
        "frames": ("prompted", "frames", 2, _last("frames_prompted"), {}),
        "clicks": ("clicks", "", 1, _last("clicks"), {"effort": "clicks"}),
        "strokes": ("strokes", "", 1, _last("strokes"), {}),
        "seconds": ("seconds", "s", 0, lambda g: seconds(g)[:, -1], {"effort": "seconds"}),
        "ms-frame": ("tracker, per frame", "ms", 0, _per_frame, {"tested": "no"}),
    }
    return made + [
        Statistic(name, title, unit, digits, "lower", values=values, of=Tables, **more)
        for name, (title, unit, digits, values, more) in spent.items()
    ]


def _last(column: str, rounds: int = 1 << 30) -> Callable[[Tables], Floats]:
    """The value after so many rounds, or after the last one."""
    return lambda group: group.table(column)[:, :rounds][:, -1]


def _per_frame(group: Tables) -> Floats:
    spent: Floats = np.nan_to_num(group.table("seconds_predict")).sum(axis=1)
    passes = np.maximum(group.table("frames_prompted")[:, -1], 1)
    return np.asarray(1000 * spent / (passes * group.table("frames")[:, 0]))

"""Effort curves: quality against effort, what a person gets for what they spend.

A session is a staircase: its quality holds from the moment a round is answered until the
next one is. Before the first answer there is nothing, and quality is 0. Tables are
`(targets, rounds)`: quality after each round, and effort spent by its end, which never falls.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.stats.intervals import Floats
from segmeter.stats.rounds import reached, rounds_to

__all__ = ["area_to", "best_so_far", "effort_to", "never_reached", "quality_at"]


def quality_at(quality: npt.ArrayLike, effort: npt.ArrayLike, budget: float) -> Floats:
    """Quality of the last round that the budget pays for, 0 where it pays for none.

    >>> quality_at([[0.5, 0.7]], [[3, 6]], budget=5).tolist()
    [0.5]
    """
    values, spent = _checked(quality, effort)
    rounds = (spent <= budget).sum(axis=1)
    last = values[np.arange(len(values)), np.maximum(rounds, 1) - 1]
    return np.where(rounds > 0, last, 0.0)


def effort_to(quality: npt.ArrayLike, effort: npt.ArrayLike, goal: float) -> Floats:
    """Effort by the first round at or above the goal; all that was spent where it never comes.

    Where it never comes the value is a lower bound: report the share of `never_reached` with it.

    >>> effort_to([[0.5, 0.9], [0.1, 0.2]], [[3, 6], [3, 6]], goal=0.8).tolist()
    [6.0, 6.0]
    """
    values, spent = _checked(quality, effort)
    last = rounds_to(values, goal).astype(int) - 1
    return np.asarray(spent[np.arange(len(values)), last])


def never_reached(quality: npt.ArrayLike, goal: float) -> npt.NDArray[np.bool_]:
    """Which targets never reach the goal.

    >>> never_reached([[0.5, 0.7], [0.8, 0.95]], goal=0.9).tolist()
    [True, False]
    """
    return ~reached(quality, goal)


def area_to(quality: npt.ArrayLike, effort: npt.ArrayLike, budget: float) -> Floats:
    """Mean quality over a budget: the area under the staircase, divided by the budget.

    >>> area_to([[0.5, 1.0]], [[2, 6]], budget=10).tolist()
    [0.6]
    """
    if not budget > 0:
        raise BadInput(f"an area needs a budget above 0, not {budget}")
    values, spent = _checked(quality, effort)
    edges = np.minimum(np.hstack([spent, np.full((len(spent), 1), np.inf)]), budget)
    return np.asarray((values * np.diff(edges, axis=1)).sum(axis=1) / budget)


def best_so_far(quality: npt.ArrayLike) -> Floats:
    """The best quality of any round so far: what a person keeps who may go back.

    >>> best_so_far([[0.5, 0.9, 0.7]]).tolist()
    [[0.5, 0.9, 0.9]]
    """
    return np.maximum.accumulate(np.asarray(quality, dtype=float), axis=1)


def _checked(quality: npt.ArrayLike, effort: npt.ArrayLike) -> tuple[Floats, Floats]:
    values, spent = np.asarray(quality, dtype=float), np.asarray(effort, dtype=float)
    if values.ndim != 2 or values.shape != spent.shape:
        raise BadInput("quality and effort are tables of the same targets and rounds")
    if (np.diff(spent, axis=1) < 0).any():
        raise BadInput("effort adds up over rounds and cannot fall")
    return values, spent

"""Rounds to a quality, the statistics of click curves: how many, and how often it never comes.

A curve table is `(targets, rounds)`: the measure after each round. Its numbers come in two
protocols (Sofiiuk et al. 2022, Antonov et al. 2024):

- `published`: a target that never reaches the goal costs K rounds, and one that reaches it
  at round K exactly counts as a failure;
- `corrected`: failures are those that never reach it. The cost of K rounds is then what
  survival analysis calls the mean restricted to K rounds: every session is censored at the
  same round, so no weights are needed, and it is reported with the share that failed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, check_choice
from segmeter.core.models import PROTOCOLS, ProtocolName
from segmeter.stats.intervals import Floats

__all__ = ["area_under", "at_round", "failed", "first_round", "reached", "rounds_to", "success"]


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
        raise BadInput(f"round {k} was not played; rounds go from 1 to {table.shape[1]}")
    return table[:, k - 1]


def success(curves: npt.ArrayLike, goal: float) -> Floats:
    """Whether each target has reached the goal by each round, as 0 or 1; its mean is the
    success curve (one minus Kaplan and Meier's, since all are censored at K).

    >>> success([[0.5, 0.95, 0.8]], goal=0.9).tolist()
    [[0.0, 1.0, 1.0]]
    """
    hit = np.asarray(curves, dtype=float) >= goal
    return np.maximum.accumulate(hit, axis=1).astype(float)

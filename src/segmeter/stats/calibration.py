"""Calibration of a model's own score: how well does it predict the quality of a mask?

Rows are pairs of a score and the IoU it predicts. `goal` is the IoU at which a mask is good
enough. Models are never pooled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from segmeter.stats.intervals import Floats


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of a reliability diagram: how many rows, their mean score and mean value."""

    n: int
    mean_score: float
    mean_value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Stopping:
    """The outcome if annotators stop at the first round whose score reaches a threshold.

    One number per session; their means are the statistics.
    """

    right: Floats  # whether the goal is reached where the session stops
    early: Floats  # whether it is reached in a later round only
    never: Floats  # whether it is reached in no round
    passed: Floats  # whether any round has the score; else the session goes to its last round
    shortfall: Floats  # IoU missing to the goal
    wasted_clicks: Floats  # after the goal was reached
    clicks: Floats
    iou: Floats  # at the end
    regret: Floats  # loss of IoU against the best round


def reliability(scores: Floats, values: Floats, bins: int = 10) -> list[Bin]:
    """Bins of equal mass over the scores, best read as a diagram of mean value over mean score.

    Ranks are cut into runs as even as possible, the first ones one larger. Equal scores stay
    together, in the run that holds their middle rank; empty runs are left out.

    >>> reliability(np.array([0.1, 0.9]), np.array([0.2, 0.8]), bins=2)[1].mean_value
    0.8
    """
    scores, values = np.asarray(scores, float), np.asarray(values, float)
    order = np.argsort(scores, kind="stable")
    ranked, theirs = scores[order], values[order]
    run_of_rank = np.repeat(np.arange(bins), [len(r) for r in np.array_split(ranked, bins)])
    first = _first_of_equals(ranked)
    many = np.diff(first, append=len(ranked))
    runs = np.repeat(run_of_rank[first + (many - 1) // 2], many)
    starts = np.flatnonzero(np.diff(runs, prepend=-1))  # runs are in the order of ranks
    return [
        Bin(b - a, float(ranked[a:b].mean()), float(theirs[a:b].mean()), ranked[a], ranked[b - 1])
        for a, b in pairwise([*starts.tolist(), len(runs)])
    ]


def calibration_error(bins: Sequence[Bin]) -> tuple[float, float]:
    """Expected and maximum calibration error of a reliability diagram.

    >>> calibration_error(reliability(np.array([0.1, 0.9]), np.array([0.2, 0.8]), bins=2))
    (0.1, 0.1)
    """
    gaps = np.array([abs(b.mean_score - b.mean_value) for b in bins])
    weights = np.array([b.n for b in bins], float)
    return float(np.round(gaps @ weights / weights.sum(), 15)), float(np.round(gaps.max(), 15))


class ScoredRows:
    """Calibration of the same rows in many resamples at once.

    Each method takes how often each row counts, `(resamples, rows)`, and returns one number per
    resample. Rows are sorted once; equal scores share their ranks, as in the functions above.
    """

    def __init__(self, scores: Floats, values: Floats) -> None:
        self.order = np.argsort(scores, kind="stable")
        self.scores, self.values = (np.asarray(v, float)[self.order] for v in (scores, values))
        self._first = _first_of_equals(self.scores)

    def calibration_error(self, weights: Floats, bins: int = 10) -> Floats:
        """Expected calibration error over bins of equal mass (`reliability`)."""
        drawn = weights[:, self.order]
        many, gaps = self._summed(drawn), self._summed(drawn * (self.scores - self.values))
        total = many.sum(axis=1)
        middle = many.cumsum(axis=1) - many + (many - 1) // 2  # rank in the middle of equal scores
        size, longer = (part[:, None] for part in np.divmod(total, bins))
        before = middle - longer * (size + 1)  # the first runs are one longer
        place = np.where(before < 0, middle // (size + 1), longer + before // np.maximum(size, 1))
        cell = place + bins * np.arange(len(weights))[:, None]
        known = many > 0
        runs = np.bincount(cell[known].astype(int), gaps[known], bins * len(weights))
        with np.errstate(invalid="ignore"):
            return np.asarray(np.round(np.abs(runs).reshape(-1, bins).sum(axis=1) / total, 15))

    def rank_correlation(self, weights: Floats) -> Floats:
        drawn = weights[:, self.order]
        by_value = np.argsort(self.values, kind="stable")
        middle = (drawn.sum(axis=1, keepdims=True) + 1) / 2
        ranks = _ranks(drawn, self._first) - middle
        theirs = np.empty_like(ranks)
        theirs[:, by_value] = (
            _ranks(drawn[:, by_value], _first_of_equals(self.values[by_value])) - middle
        )
        products = [(drawn * a * b).sum(axis=1) for a, b in ((ranks, theirs), (ranks, ranks))]
        products.append((drawn * theirs * theirs).sum(axis=1))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.round(products[0] / np.sqrt(products[1] * products[2]), 15))

    def area_under_roc(self, weights: Floats, goal: float) -> Floats:
        """Probability that a row with the goal has a higher score than one without."""
        drawn = weights[:, self.order]
        good = np.where(self.values >= goal, drawn, 0.0)
        yes = good.sum(axis=1)
        no = drawn.sum(axis=1) - yes
        above = (good * _ranks(drawn, self._first)).sum(axis=1) - yes * (yes + 1) / 2
        with np.errstate(invalid="ignore"):
            return np.asarray(above / (yes * no))

    def area_under_risk(self, weights: Floats) -> Floats:
        """Mean over coverages of the mean loss, 1 - value, of the best-scored rows."""
        drawn = weights[:, self.order]
        many, loss = (self._summed(t)[:, ::-1] for t in (drawn, drawn * (1 - self.values)))
        total = many.sum(axis=1)
        harmonic = np.append(0.0, np.cumsum(1 / np.arange(1, total.max(initial=0) + 1)))
        after = many.cumsum(axis=1).astype(int)
        mean = loss / np.maximum(many, 1)
        # The k-th of equal scores accepts the rows before them and k times their mean loss.
        before = after - many.astype(int)
        debt = loss.cumsum(axis=1) - loss - mean * before
        risks = loss + debt * (harmonic[after] - harmonic[before])
        with np.errstate(invalid="ignore"):
            return np.asarray(risks.sum(axis=1) / total)

    def _summed(self, table: Floats) -> Floats:
        """Sums over equal scores."""
        return np.add.reduceat(table, self._first, axis=1)


def risk_coverage(scores: Floats, losses: Floats) -> Floats:
    """Mean loss of the k best-scored rows for k = 1 ... N: accept these, send the rest to a person.

    Within equal scores it is the expected value over their orders. The area under the curve
    (AURC) is its mean.

    >>> risk_coverage(np.array([0.9, 0.5]), np.array([0.0, 1.0]))
    array([0. , 0.5])
    """
    order = np.argsort(-np.asarray(scores, float), kind="stable")
    ranked, loss = np.asarray(scores, float)[order], np.asarray(losses, float)[order]
    groups = np.cumsum(np.diff(ranked, prepend=ranked[:1]) != 0)  # equal scores
    means = np.bincount(groups, loss) / np.bincount(groups)
    return np.asarray(np.cumsum(means[groups]) / np.arange(1, len(loss) + 1))


def stop_at(scores: Floats, iou: Floats, score: float, goal: float = 0.9) -> Stopping:
    """Stop each session at the first round that has this score, at the last if none has.

    Tables are `(sessions, rounds)`, with NaN after the last round of a session.

    >>> found = stop_at(np.array([[0.5, 0.9]]), np.array([[0.6, 0.95]]), score=0.8)
    >>> found.right.tolist(), found.clicks.tolist()
    ([1.0], [2.0])
    """
    rounds = (~np.isnan(iou)).sum(axis=1)
    reached, passed = iou >= goal, scores >= score
    some, good = passed.any(axis=1), reached.any(axis=1)
    end = np.where(some, passed.argmax(axis=1), rounds - 1)
    first = np.where(good, reached.argmax(axis=1), end)
    last = iou[np.arange(len(iou)), end]
    return Stopping(
        (last >= goal).astype(float),
        (end < first).astype(float),
        (~good).astype(float),
        some.astype(float),
        np.maximum(0.0, goal - last),
        np.maximum(0.0, end - first),
        end + 1.0,
        last,
        np.nanmax(iou, axis=1) - last,
    )


def _first_of_equals(ranked: Floats) -> npt.NDArray[np.intp]:
    """Starts of runs of equal values."""
    return np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))


def _ranks(weights: Floats, first: npt.NDArray[np.intp]) -> Floats:
    """Ranks from 1 on of sorted rows that count several times, equal values the mean of theirs."""
    many = np.add.reduceat(weights, first, axis=1)
    ranks = many.cumsum(axis=1) - (many - 1) / 2
    return np.repeat(ranks, np.diff(first, append=weights.shape[1]), axis=1)

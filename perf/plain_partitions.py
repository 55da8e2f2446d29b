"""Region measures with NumPy and SciPy, formula by formula. Only here to be timed against.

Fair to NumPy: each table is counted once and serves all measures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

Labels = npt.NDArray[Any]
Real = npt.NDArray[np.float64]


def table(ground_truth: Labels, prediction: Labels) -> Real:
    """Pixels that prediction region i and ground truth region j share."""
    _, rows = np.unique(prediction, return_inverse=True)
    _, columns = np.unique(ground_truth, return_inverse=True)
    width = int(columns.max()) + 1
    counts = np.bincount(rows.ravel() * width + columns.ravel(), minlength=width)
    whole = np.zeros((int(rows.max()) + 1) * width)
    whole[: counts.size] = counts
    return whole.reshape(-1, width)


def dhd(n: Real) -> float:
    return float(n.max(axis=0).sum() / n.sum())


def sdhd(n: Real) -> float:
    return float(n.max(axis=1).sum() / n.sum())


def vd(n: Real) -> float:
    return (dhd(n) + sdhd(n)) / 2


def overlap(n: Real) -> Real:
    return np.asarray(n / (n.sum(axis=1, keepdims=True) + n.sum(axis=0) - n))


def sc(n: Real) -> float:
    return float(n.sum(axis=1) @ overlap(n).max(axis=1) / n.sum())


def ssc(n: Real) -> float:
    return float(n.sum(axis=0) @ overlap(n).max(axis=0) / n.sum())


def bgm(n: Real) -> float:
    return float(n[linear_sum_assignment(n, maximize=True)].sum() / n.sum())


def errors(n: Real) -> tuple[Real, Real]:
    return 1 - n / n.sum(axis=1, keepdims=True), 1 - n / n.sum(axis=0)


def bce(n: Real) -> float:
    return float(1 - (n * np.maximum(*errors(n))).sum() / n.sum())


def gce(n: Real) -> float:
    return float(1 - min((n * e).sum() for e in errors(n)) / n.sum())


def lce(n: Real) -> float:
    return float(1 - (n * np.minimum(*errors(n))).sum() / n.sum())


def voi(n: Real) -> float:
    p = n / n.sum()
    mine, theirs = p.sum(axis=1, keepdims=True), p.sum(axis=0, keepdims=True)
    filled = p > 0
    ratio = np.where(filled, p / (mine * theirs), 1)
    entropy = -(mine * np.log2(mine)).sum() - (theirs * np.log2(theirs)).sum()
    return float(entropy - 2 * (p * np.log2(ratio)).sum())


def nvoi(n: Real) -> float:
    return 1.0 if max(n.shape) == 1 else 1 - voi(n) / (2 * np.log2(max(n.shape)))


def pairs(n: Real) -> tuple[float, float, float, float]:
    total = n.sum()
    both = ((n**2).sum() - total) / 2
    mine = ((n.sum(axis=1) ** 2).sum() - total) / 2
    theirs = ((n.sum(axis=0) ** 2).sum() - total) / 2
    return both, mine, theirs, total * (total - 1) / 2


def pri(n: Real) -> float:
    both, mine, theirs, everything = pairs(n)
    return float((everything - mine - theirs + 2 * both) / everything)


MEANS: dict[str, Callable[[Real], float]] = {
    f.__name__: f for f in (dhd, sdhd, vd, sc, ssc, bgm, bce, gce, lce, voi, nvoi, pri)
}


def fr(tables: Sequence[Real]) -> float:
    counted = [pairs(n) for n in tables]
    p = np.mean([both / mine for both, mine, _, _ in counted])
    r = np.mean([both / theirs for both, _, theirs, _ in counted])
    return float(2 * p * r / (p + r))


def kept(prediction: Labels, areas: Real) -> npt.NDArray[np.bool_]:
    """Regions until 99 % of the area; of equal areas the one that appears later first."""
    first = np.unique(prediction, return_index=True)[1]
    order = np.lexsort((-first, -areas))
    sums = np.cumsum(areas[order] / areas.sum())
    found = np.zeros(areas.size, dtype=bool)
    found[order] = np.concatenate([[0], sums[:-1]]) < 0.99
    return found


def fop(tables: Sequence[Real], ground_truths: Sequence[Labels], prediction: Labels) -> float:
    """Objects and parts, gamma 0.9 and 0.25, beta 0.1, fragments of the prediction over K."""
    found: list[tuple[float, float]] = []
    classes: list[Real] = []
    earned: list[Real] = []
    for n, ground_truth in zip(tables, ground_truths, strict=True):
        p, q = n / n.sum(axis=1, keepdims=True), n / n.sum(axis=0)
        mine, theirs = kept(prediction, n.sum(axis=1)), kept(ground_truth, n.sum(axis=0))
        judged = mine[:, None] & theirs & (n > 0)
        objects = judged & (p >= 0.9) & (q >= 0.9)
        inside, around = (p >= 0.9) & (q < 0.9) & (n > 0), (q >= 0.9) & (p < 0.9) & (n > 0)
        o, t = objects.any(axis=0), (judged & around & (p >= 0.25)).any(axis=0) & ~objects.any(0)
        f = np.where(inside, q, 0).sum(axis=0)[theirs & ~o & ~t].sum()
        found.append((o.sum() + f + 0.1 * t.sum(), theirs.sum()))
        part = (judged & inside & (q >= 0.25)).any(axis=1)
        classes.append(np.where(objects.any(axis=1), 2, np.where(part, 1, 0)))
        earned.append(np.where(around, p, 0).sum(axis=1))
    best = np.maximum.reduce(classes)
    rest = np.sum(earned, axis=0)[mine & (best == 0)].sum() / len(ground_truths)
    precision = ((best == 2).sum() + rest + 0.1 * (best == 1).sum()) / mine.sum()
    recall = sum(worth for worth, _ in found) / sum(count for _, count in found)
    total = precision + recall
    return float(2 * precision * recall / total) if total else 0.0


def scores(ground_truths: Sequence[Labels], prediction: Labels) -> dict[str, float]:
    """All measures off one table a ground truth."""
    tables = [table(ground_truth, prediction) for ground_truth in ground_truths]
    found = {name: float(np.mean([formula(n) for n in tables])) for name, formula in MEANS.items()}
    return {**found, "fr": fr(tables), "fop": fop(tables, ground_truths, prediction)}

"""Click similarity against the plain ways: PL1, KS in the plane, Wasserstein.

Run as `python perf/similarity.py`; one thread, ratios within one run, values compared. The
plain loops of PL1 and KS visit every pair of points, row by row in NumPy, as the original
does; they are timed on 10 000 points a side.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.stats import wasserstein_distance_nd

from segmeter.measures.clicks import ks_2d, pl1, wasserstein

POINTS = 10_000


def plain_pl1(a: np.ndarray, b: np.ndarray) -> float:
    """Mean of all pairs, one point of the first sample at a time."""
    return float(np.mean([np.abs(b - point).sum(axis=1).mean() for point in a]))


def plain_ks(a: np.ndarray, b: np.ndarray) -> float:
    """The distance by counting quadrants around every point."""

    def gap(origins: np.ndarray, own: np.ndarray, other: np.ndarray) -> float:
        rows = np.array([shares(own, o) - shares(other, o) for o in origins])
        rows[:, 0] -= 1 / len(own)
        return float(max(-rows.min(), rows.max() + 1 / len(own)))

    return (gap(a, a, b) + gap(b, b, a)) / 2


def shares(points: np.ndarray, origin: np.ndarray) -> np.ndarray:
    low, left = points[:, 0] <= origin[0], points[:, 1] <= origin[1]
    parts = [(low & left).mean(), (low & ~left).mean(), (~low & left).mean()]
    return np.array([*parts, 1 - sum(parts)])


def timed(call: Callable[[], float], times: int = 1) -> tuple[float, float]:
    """Least CPU milliseconds of a call, and its value."""
    took, value = [], 0.0
    for _ in range(times):
        start = time.process_time()
        value = call()
        took.append(time.process_time() - start)
    return min(took) * 1000, value


def show(name: str, plain: tuple[float, float], ours: tuple[float, float]) -> None:
    same = "same value" if abs(plain[1] - ours[1]) < 1e-6 else "DIFFERENT value"
    ratio = plain[0] / ours[0]
    print(f"{name:<28}{plain[0]:10.1f} ms {ours[0]:9.3f} ms {ratio:8.0f} x  {same}")


def main() -> None:
    rng = np.random.default_rng(1)
    a = np.rint(rng.normal(500, 80, (POINTS, 2)))
    b = np.rint(rng.normal(510, 90, (POINTS, 2)))
    print(f"{'':<28}{'plain':>13} {'ours':>12}")
    show(f"PL1, {POINTS} points", timed(lambda: plain_pl1(a, b)), timed(lambda: pl1(a, b), 5))
    theirs = timed(lambda: plain_ks(a, b))
    show(f"KS, {POINTS} points", theirs, timed(lambda: ks_2d(a, b).distance, 5))
    for n in (50, 100, 200):
        p, q = a[:n], b[:n]
        theirs = timed(partial(wasserstein_distance_nd, p, q))
        show(f"WD, {n} and {n} points", theirs, timed(partial(wasserstein, p, q), 9))
    p, q = a[:50], b[:80]
    theirs = timed(lambda: float(wasserstein_distance_nd(p, q)))
    show("WD, 50 and 80 points", theirs, timed(lambda: wasserstein(p, q), 9))


if __name__ == "__main__":
    main()

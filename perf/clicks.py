"""Click similarity: the plain loops against ours, in one run, on one thread.

Run as `python perf/clicks.py`; prints milliseconds and ratios, and checks equal values.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.stats import wasserstein_distance_nd as distance_nd

from segmeter.measures.clicks import ks_2d, pl1, wasserstein


def plain_pl1(a: np.ndarray, b: np.ndarray) -> float:
    """One real click after the other against all drawn ones."""
    return float(np.mean([np.abs(b - point).sum(axis=1).mean() for point in a]))


def plain_ks(a: np.ndarray, b: np.ndarray) -> float:
    """Quadrant shares counted anew around every click."""

    def shares(point: np.ndarray, sample: np.ndarray) -> np.ndarray:
        x, y = sample[:, 0] <= point[0], sample[:, 1] <= point[1]
        first = [np.count_nonzero(x & y), np.count_nonzero(x & ~y), np.count_nonzero(~x & y)]
        parts = np.array(first) / len(sample)
        return np.append(parts, 1 - parts[0] - parts[1] - parts[2])

    def farthest(own: np.ndarray, other: np.ndarray) -> float:
        gap = np.array([shares(p, own) - shares(p, other) for p in own])
        gap[:, 0] -= 1 / len(own)
        return max(-gap.min(), gap.max() + 1 / len(own))

    return (farthest(a, b) + farthest(b, a)) / 2


def best_of(times: int, call: Callable[[], float]) -> tuple[float, float]:
    """Shortest wall time in milliseconds, and the value."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        value = call()
        took.append(time.perf_counter() - start)
    return min(took) * 1000, value


def row(name: str, plain: Callable[[], float], ours: Callable[[], float], times: int) -> None:
    slow, expected = best_of(times, plain)
    fast, value = best_of(20, ours)
    same = "same" if np.isclose(expected, value, rtol=1e-9, atol=1e-12) else "DIFFERENT"
    print(f"{name:28s} plain {slow:10.2f} ms  ours {fast:8.3f} ms  {slow / fast:7.0f} x  {same}")


def main() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.integers(0, 2000, (2, 10_000, 2)).astype(float)
    row("PL1, 10 000 clicks", lambda: plain_pl1(a, b), lambda: pl1(a, b), 1)
    row("KS, 10 000 clicks", lambda: plain_ks(a, b), lambda: ks_2d(a, b).distance, 1)
    for n in (50, 100, 200):
        c, d = rng.integers(0, 500, (2, n, 2)).astype(float)
        for name, e in ((f"WD, {n} clicks", d), (f"WD, {n} against {n - 10}", d[10:])):
            row(name, partial(distance_nd, c, e), partial(wasserstein, c, e), 1)


if __name__ == "__main__":
    main()

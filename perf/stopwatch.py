"""Timing for the scripts here: CPU time of this thread, medians, ratios in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def milliseconds(work: Callable[[], Any], repeats: int = 9) -> float:
    """Median CPU milliseconds of a call, after one that warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1000 * statistics.median(times)


def row(name: str, theirs: float, ours: float) -> None:
    """One line: the plain way, ours, and how many times faster ours is."""
    print(f"{name:<44} {theirs:10.2f} ms {ours:10.3f} ms {theirs / ours:8.1f} x")

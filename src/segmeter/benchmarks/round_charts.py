"""Curves over the rounds of sessions: the axis they share, and a line with its band."""

from __future__ import annotations

import numpy as np

from segmeter.core.sections import Axis, Line
from segmeter.stats.intervals import Floats, Resampling

__all__ = ["QUALITY", "curve_with_band", "rounds_axis"]

QUALITY = Axis("IoU, %", high=1.0, percent=True)


def rounds_axis(rounds: int, title: str = "round") -> Axis:
    """From the first round to the last, with a tick at every fifth where there are many.

    >>> rounds_axis(20).ticks
    [1, 5, 10, 15, 20]
    """
    ticks = [1, *range(5, rounds - 1, 5), rounds] if rounds > 6 else list(range(1, rounds + 1))
    return Axis(title, low=1 if rounds > 1 else None, high=rounds, ticks=ticks, digits=0)


def curve_with_band(name: str, values: Floats, drawn: Resampling) -> Line:
    """Means of `(targets, rounds)`; the 95 % band is left out where one image gives none."""
    low, high = drawn.limits(values)
    known = not np.isnan(low).any()
    rounds = np.arange(1, values.shape[1] + 1)
    return Line(name, rounds, values.mean(axis=0), low if known else None, high if known else None)

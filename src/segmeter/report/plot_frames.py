"""Plot frames: where a chart's plot lies on its paper, and how wide its texts are."""

from __future__ import annotations

import math
from dataclasses import dataclass

from segmeter.core.sections import Numbers
from segmeter.report.scales import Scale

__all__ = ["BOLD", "Place", "PlotFrame", "placed", "shortened", "text_width"]

_LETTER = 6.3  # mean width of a letter of 12 px system type
BOLD = 1.12  # how much wider a bold one is

Place = tuple[float, float]
"""A place on the paper, `(x, y)` in pixels."""


@dataclass(frozen=True, slots=True)
class PlotFrame:
    """The paper of a chart: its size and the plot's place on it, in pixels."""

    width: float
    height: float
    left: float = 40
    right: float = 100
    top: float = 28
    bottom: float = 40

    @property
    def plot_right(self) -> float:
        return self.width - self.right

    @property
    def plot_bottom(self) -> float:
        return self.height - self.bottom


def text_width(text: str) -> float:
    """About how wide a text of the charts' size is."""
    return len(text) * _LETTER


def shortened(text: str, room: float) -> str:
    """A text that fits into so many pixels, cut where it must be.

    >>> shortened("a long name", 80.0), shortened("a long name", 40.0)
    ('a long name', 'a lon…')
    """
    letters = int(room / _LETTER)
    return text if len(text) <= letters else text[: letters - 1] + "…"


def placed(xs: Numbers, ys: Numbers, x: Scale, y: Scale) -> list[Place]:
    """Positions of data points in the chart; NaN is left out."""
    return [
        (x(float(a)), y(float(b)))
        for a, b in zip(xs, ys, strict=True)
        if math.isfinite(a) and math.isfinite(b)
    ]

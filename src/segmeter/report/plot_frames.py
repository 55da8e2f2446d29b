"""Plot frames: scales and ticks, styles of names, and how wide texts are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from segmeter.core.sections import Axis
from segmeter.report.elements import amount, path

_LETTER = 6.3  # mean width of a letter of 12 px system type
BOLD = 1.12  # how much wider a bold one is

Place = tuple[float, float]
"""A place on the paper, `(x, y)` in pixels."""


def text_width(text: str) -> float:
    return len(text) * _LETTER


def shortened(text: str, room: float) -> str:
    """A text that fits into so many pixels; a longer one loses its middle, as names end apart.

    >>> shortened("a long name", 80.0), shortened("a long name", 40.0)
    ('a long name', 'a l…me')
    """
    letters = int(room / _LETTER)
    half = max(1, (letters - 1) // 2)
    return text if len(text) <= letters else f"{text[: letters - 1 - half]}…{text[-half:]}"


_FLAT = 1e-8  # values this near to each other are drawn as equal: ticks have ten decimals


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis laid out between two places."""

    axis: Axis
    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]

    def __call__(self, value: float) -> float:
        low, high, at = self.low, self.high, value
        if self.axis.scale == "log":
            low, high, at = math.log10(low), math.log10(high), math.log10(max(value, self.low))
        share = (at - low) / (high - low)
        return self.start + (self.end - self.start) * min(max(share, -0.05), 1.05)

    def label(self, tick: float) -> str:
        """A tick's text, with as many decimals as the ticks need, at most three."""
        percent = self.axis.percent
        shown = [t * 100 if percent else t for t in self.ticks]
        enough = (k for k in range(3) if all(abs(round(t, k) - t) < 1e-9 for t in shown))
        return amount(tick, next(enough, 3), percent)

    def legible(self) -> Sequence[float]:
        """The ticks whose labels do not touch: all of them, or every second, or every fourth..."""
        widest = max((text_width(self.label(t)) for t in self.ticks), default=0.0)
        gaps = [abs(self(b) - self(a)) for a, b in pairwise(self.ticks)]
        step = 1
        while gaps and step < len(self.ticks) and step * min(gaps) < widest + 4:
            step *= 2
        return self.ticks[::step]

    def written(self, value: float) -> str:
        """A value as a read-out shows it."""
        percent = self.axis.percent
        return amount(float(value), 1 if percent else None, percent)


def fitted(axis: Axis, values: Sequence[float], start: float, end: float, wanted: int = 5) -> Scale:
    known = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low = min(known) if axis.low is None else axis.low
    high = max(known) if axis.high is None else axis.high
    if axis.scale == "log":
        if low <= 0:
            low = min((v for v in known if v > 0), default=1e-3)
        high = max(high, low * 1.001)
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = axis.ticks or [m * 10.0**p for p in powers for m in (1, 2, 5)]
        return Scale(axis, low, high, start, end, tuple(t for t in ticks if low <= t <= high))
    size = max(1.0, abs(low), abs(high))
    if high - low <= _FLAT * size:
        room = max(0.5, size / 1000)
        low, high = low - room, high + room
    ticks = tuple(axis.ticks) if axis.ticks is not None else round_ticks(low, high, wanted)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    if axis.low is None:
        low = min(low, math.floor(low / step + 1e-9) * step)
    if axis.high is None:
        high = max(high, math.ceil(high / step - 1e-9) * step)
    if axis.ticks is None:
        ticks = round_ticks(low, high, wanted)
    kept = tuple(t for t in ticks if low - 1e-9 <= t <= high + 1e-9)
    return Scale(axis, low, high, start, end, kept)


def round_ticks(low: float, high: float, wanted: int) -> tuple[float, ...]:
    """Multiples of 1, 2 or 5 times a power of ten, about as many as wanted.

    >>> round_ticks(0, 1, 5)
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    """
    rough = (high - low) / max(wanted, 1)
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(round(k * step, 10) for k in range(first, last + 1))


_DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "5 2 1 2 1 2")
_SHAPES = ("disc", "square", "triangle", "diamond", "ring", "cross")
# Corners of shapes of size 1; of a cross, the ends of its strokes.
_CORNERS = {
    "cross": ((-0.8, -0.8), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8)),
    "square": ((-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)),
    "triangle": ((0, -1.2), (0.6 * math.sqrt(3), 0.6), (-0.6 * math.sqrt(3), 0.6)),
    "diamond": ((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)),
}
_COLOURS = 6


@dataclass(frozen=True, slots=True)
class Style:
    """Colour, dash and marker of one name."""

    place: int

    @property
    def colour(self) -> str:
        """CSS class."""
        return f"c{self.place % _COLOURS}"

    @property
    def dash(self) -> str | None:
        return _DASHES[self.place % len(_DASHES)] or None

    @property
    def shape(self) -> str:
        return _SHAPES[self.place % len(_SHAPES)]

    @property
    def dot(self) -> str:
        """CSS classes of the name's marker."""
        return f"dot {self.colour} {'hollow' if self.shape in ('ring', 'cross') else 'full'}"

    @property
    def corners(self) -> Sequence[Place]:
        """Corners of the marker; none of a disc or ring."""
        return _CORNERS.get(self.shape, ())

    def outline(self, x: float, y: float, size: float) -> str:
        """The route around a marker with corners, as SVG writes it."""
        corners = [(x + size * a, y + size * b) for a, b in self.corners]
        if self.shape == "cross":
            return path(corners[:2]) + path(corners[2:])
        return path(corners) + "Z"


class Palette:
    """Gives each name its style, in the order in which names come."""

    def __init__(self) -> None:
        self._styles: dict[str, Style] = {}

    def __getitem__(self, name: str) -> Style:
        return self._styles.setdefault(name, Style(len(self._styles)))

    def known(self, name: str) -> Style | None:
        """The style of a name that some chart of the page draws, else None."""
        return self._styles.get(name)

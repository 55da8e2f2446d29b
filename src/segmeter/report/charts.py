"""Charts as SVG: curves and dots with labels that do not overlap and read-outs on hover; bars."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from markupsafe import Markup

from segmeter.core.catalogue import short
from segmeter.core.grouping import grouped_pairs
from segmeter.core.sections import Bars, Chart, Line, Numbers, Points
from segmeter.report.elements import amount, drawn
from segmeter.report.plot_frames import BOLD, Palette, Place, Scale, fitted, shortened, text_width

_LEFT, _TOP, _BOTTOM = 40, 28, 40  # room around a plot, in pixels
_LINE = 13.0  # height of a line of text
_GAP = 14.0  # between two names in a column
_BELOW = (-7, 15, 4, -20, 28)  # base lines tried for a dot's name
_ROW, _BAR, _BARS_TOP, _BARS_BOTTOM = 30, 16, 48, 30


def chart_svg(chart: Chart, palette: Palette, width: int, height: int) -> Markup:
    """The whole chart; names are placed at their curves, not in a legend."""
    plot = _Plot.of(chart, palette, width, height)
    ends = [
        f"{m.name} ends at {amount(float(m.y[-1]), None, chart.y.percent)}"
        for m in plot.curves
        if len(m.y)
    ]
    alt = f"{chart.title}. {chart.y.title} by {chart.x.title}. " + "; ".join(ends)
    return drawn("chart", plot, alt)


class _Name(NamedTuple):
    text: str
    x: float
    line: float
    classes: str


class _Room(NamedTuple):
    left: float
    right: float
    line: float

    def clear(self, others: Sequence[_Room]) -> bool:
        return all(
            abs(self.line - other.line) >= _LINE
            or self.left >= other.right
            or other.left >= self.right
            for other in others
        )


@dataclass(frozen=True, slots=True)
class _Plot:
    """A plot on its paper: `right` and `bottom` are its borders in pixels."""

    width: int
    height: int
    right: float
    x: Scale
    y: Scale
    palette: Palette
    marks: Sequence[Line | Points]

    left: ClassVar[int] = _LEFT
    top: ClassVar[int] = _TOP

    @classmethod
    def of(cls, chart: Chart, palette: Palette, width: int, height: int) -> _Plot:
        """Room at the right for the longest name, but never more than a third."""
        data = chart.data
        names = [short(m.name) for m in data if isinstance(m, Line)]
        longest = BOLD * max(map(text_width, names), default=0.0)
        right = width - min(max(18.0, longest + 16), width * 0.34)
        xs = [float(v) for m in data for v in m.x]
        parts = [part for m in data for part in (m.y, m.low, m.high) if part is not None]
        ys = [float(v) for part in parts for v in part]
        x = fitted(chart.x, xs, _LEFT, right, max(3, round((right - _LEFT) / 70)))
        y = fitted(chart.y, ys, height - _BOTTOM, _TOP)
        return cls(width, height, right, x, y, palette, chart.marks)

    @property
    def bottom(self) -> float:
        return self.height - _BOTTOM

    @property
    def curves(self) -> list[Line]:
        return [m for m in self.marks if isinstance(m, Line) and m.role != "guide"]

    @property
    def dots(self) -> list[Points]:
        return [m for m in self.marks if isinstance(m, Points)]

    def places(self, xs: Numbers, ys: Numbers | None) -> list[Place]:
        """Positions of data points, none without `ys`; NaN is left out."""
        if ys is None:
            return []
        return [
            (self.x(float(a)), self.y(float(b)))
            for a, b in zip(xs, ys, strict=True)
            if math.isfinite(a) and math.isfinite(b)
        ]

    def points(self, mark: Line | Points) -> list[Place]:
        return self.places(mark.x, mark.y)

    def drawn(self, line: Line, ys: Numbers | None) -> list[Place]:
        """The corners of a curve; a step holds each value until the next place."""
        points = self.places(line.x, ys)
        if line.role != "step":
            return points
        held = points[:1]
        for px, py in points[1:]:
            held += [(px, held[-1][1]), (px, py)]
        return held

    def guides(self) -> Iterator[tuple[list[Place], _Name | None]]:
        """Thin lines behind the data, named at their ends where that hides no other name."""
        taken: list[_Room] = []
        for line in self.marks:
            points = self.points(line)
            if isinstance(line, Points) or line.role != "guide" or not points:
                continue
            x, y = points[-1]
            room = _Room(x + 2, x + 2 + text_width(line.name), y + 3)
            free = room.clear(taken)
            taken += [room] if free else []
            yield points, _Name(line.name, room.left, room.line, "guide-name") if free else None

    def band(self, line: Line) -> list[Place]:
        """The corners of the area between a curve's limits."""
        below, above = self.drawn(line, line.low), self.drawn(line, line.high)
        return above + below[::-1] if below and above else []

    def whiskers(self, dots: Points) -> Iterator[tuple[Place, Place]]:
        return zip(self.places(dots.x, dots.low), self.places(dots.x, dots.high), strict=False)

    def hovers(self, dots: Points) -> Iterator[tuple[Place, str]]:
        """Dots and what they show on hover."""
        labels = list(dots.labels) or [""] * len(list(dots.x))
        for place, label, x, y in zip(self.points(dots), labels, dots.x, dots.y, strict=False):
            values = (
                scale.written(value) + (" %" if scale.axis.percent else "")
                for value, scale in ((x, self.x), (y, self.y))
            )
            yield place, f"{label or dots.name}: {', '.join(values)}"

    def dot_names(self) -> Iterator[_Name]:
        """Names next to their dots, without overlaps; where none is free, only on hover."""
        right = self.right if self.curves else self.width
        taken = [_Room(x - 4, x + 4, y + 4) for mark in self.dots for x, y in self.points(mark)]
        for mark in self.dots:
            for (px, py), label in zip(self.points(mark), mark.labels, strict=False):
                wide = text_width(label) * BOLD
                lefts = (px + 7, px - 7 - wide)
                spots = (_Room(left, left + wide, py + down) for down in _BELOW for left in lefts)
                free = (s for s in spots if s.left >= 0 and s.right <= right and s.clear(taken))
                spot = next(free, None)
                if label and spot is not None:
                    taken.append(spot)
                    # It ends where its dot begins, or begins where it ends: widths are estimates.
                    after, colour = spot.left > px, self.palette[mark.name].colour
                    x, side = (spot.left, "name") if after else (spot.right, "name end")
                    yield _Name(label, x, spot.line, f"{side} {colour}")

    def end_names(self) -> Iterator[tuple[list[Place], _Name]]:
        """Names in a column to the right of the last end, moved apart where they touch."""
        ends = [(p[-1], line.name) for line in self.curves if (p := self.points(line))]
        places = _apart([at[1] for at, _ in ends], _GAP, _TOP, self.bottom)
        column = max((at[0] for at, _ in ends), default=0.0)
        for ((px, py), name), at in zip(ends, places, strict=True):
            label = shortened(short(name), (self.width - self.right - 12) / BOLD)
            moved = abs(at - py) > 3 or column - px > 3
            leader = [(px + 4, py), (column + 9, at)] if moved else []
            colour = self.palette[name].colour
            yield leader, _Name(label, column + 11, at + 4, f"name {colour}")

    def readouts(self) -> list[tuple[Any, ...]]:
        """For each place on the x axis a hidden read-out of all curves there.

        Left end and width of the area that shows it, the place, and its card with texts.
        """
        columns = grouped_pairs(
            (float(value), (line, i)) for line in self.curves for i, value in enumerate(line.x)
        )
        if not 2 <= len(columns) <= 60:
            return []
        spots = [self.x(value) for value in sorted(columns)]
        borders = [_LEFT - 8, *((a + b) / 2 for a, b in pairwise(spots)), self.right + 8]
        return [
            (low, max(high - low, 1.0), self.x(value), *self._card(value, columns[value]))
            for value, (low, high) in zip(sorted(columns), pairwise(borders), strict=True)
        ]

    def _card(self, value: float, found: Sequence[tuple[Line, int]]) -> tuple[Any, list[_Name]]:
        """A small card, its corner and size: each curve's value with its interval."""
        rows, written = [], self.y.written
        for line, i in sorted(found, key=lambda f: -float(f[0].y[f[1]])):
            limits = ""
            if line.low is not None and line.high is not None:
                limits = f"  {written(line.low[i])}–{written(line.high[i])}"
            rows.append((line.name, f"{line.name}  {written(line.y[i])}{limits}"))
        head = f"{self.x.axis.title} {amount(value, None, self.x.axis.percent)}"
        longest = max(map(text_width, (head, *(text for _, text in rows))))
        wide, tall = min(longest * 0.98 + 16, self.width - 4), 16 * (len(rows) + 1) + 8
        at = self.x(value)
        left = at + 8 if at + 8 + wide < self.width else max(2.0, at - 8 - wide)
        top = self.bottom - tall - 6
        texts = [_Name(head, left + 8, top + 16, "card-head")]
        for k, (name, text) in enumerate(rows):
            colour = self.palette[name].colour
            texts.append(_Name(text, left + 8, top + 32 + 16 * k, f"name {colour}"))
        return (left, top, wide, tall), texts


def _apart(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places moved as little as needed to lie at least `gap` from each other."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = [places[i] for i in order]
    for _ in range(60):
        for k in range(len(moved) - 1):
            overlap = gap - (moved[k + 1] - moved[k])
            if overlap > 0:
                moved[k] -= overlap / 2
                moved[k + 1] += overlap / 2
        moved = [min(max(m, low + gap * k), high) for k, m in enumerate(moved)]
    return [moved[order.index(i)] for i in range(len(places))]


def bars_svg(bars: Bars, width: int) -> Markup:
    """Horizontal bars of stacked parts, with patterns for grey print; parts are named above."""
    longest = max(map(text_width, map(short, bars.categories)), default=0.0)
    left = min(BOLD * longest + 12, width * 0.4)  # categories are set a little larger
    height = _BARS_TOP + len(bars.categories) * _ROW + _BARS_BOTTOM
    lengths = [sum(float(p.values[k]) for p in bars.parts) for k in range(len(bars.categories))]
    scale = fitted(bars.axis, [0.0, *lengths], left, width - 46.0, 5 if width > 500 else 3)
    rows = [_bar(bars, k, left) for k in range(len(bars.categories))]
    low = height - _BARS_BOTTOM
    return drawn(
        "bars", bars, scale, left, width, height, _BARS_TOP, low, _key(bars, width), rows
    )  # fmt: skip


def _key(bars: Bars, width: int) -> list[tuple[str, float, float]]:
    """Name and place of each part, in the order in which they are stacked."""
    found, at, line = [], 2.0, 12.0
    for part in bars.parts:
        wide = text_width(part.name) + 30
        if at + wide > width and at > 2:
            at, line = 2.0, line + 16
        found.append((part.name, at, line))
        at += wide
    return found


def _bar(bars: Bars, k: int, left: float) -> dict[str, Any]:
    """A bar: its name, its heights on the paper, its parts from start to end."""
    top, name = _BARS_TOP + k * _ROW, bars.categories[k]
    parts, at = [], 0.0
    for part in bars.parts:
        end = at + float(part.values[k])
        parts.append((at, end, f"{name}, {part.name}: {_length(bars, float(part.values[k]))}"))
        at = end
    return {
        "name": name,
        "shown": shortened(short(name), left - 10),
        "line": top + _ROW / 2 + 1,
        "lane": top + (_ROW - _BAR) / 2 - 3,
        "parts": parts,
        "end": at,
        "total": _length(bars, at),
    }


def _length(bars: Bars, value: float) -> str:
    return amount(value, bars.axis.digits, bars.axis.percent)

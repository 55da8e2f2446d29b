"""Charts as SVG: curves and dots with labels that do not overlap and read-outs on hover; bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from segmeter.core.catalogue import short
from segmeter.core.sections import Bars, Chart, Line, Numbers, Points
from segmeter.report.elements import amount, drawing, element, path, route, words
from segmeter.report.plot_frames import (
    BOLD,
    Palette,
    Place,
    Scale,
    fitted,
    shortened,
    text_width,
)

_LEFT, _TOP, _BOTTOM = 40, 28, 40  # room around a plot, in pixels
_LINE = 13.0  # height of a line of text
_GAP = 14.0  # between two names in a column
_BELOW = (-7, 15, 4, -20, 28)  # base lines tried for a dot's name
_ROW, _BAR, _BARS_TOP, _BARS_BOTTOM = 30.0, 16.0, 48.0, 30.0


def chart_svg(chart: Chart, palette: Palette, width: int, height: int) -> Markup:
    """The whole chart; names are placed at their curves, not in a legend."""
    lines = [m for m in chart.marks if isinstance(m, Line)]
    curves = [m for m in lines if m.role != "guide"]
    dots = [m for m in chart.marks if isinstance(m, Points)]
    plot = _Plot.of(chart, [*curves, *dots], palette, width, height)
    inside = [
        plot.axes(),
        plot.guides([m for m in lines if m.role == "guide"]),
        [plot.band(m) for m in curves],
        [plot.curve(m) for m in curves],
        [plot.scatter(m) for m in dots],
        plot.dot_labels(dots, plot.right if curves else plot.width),
        plot.end_labels(curves),
        plot.readouts(curves),
    ]
    ends = [
        f"{m.name} ends at {amount(float(m.y[-1]), None, chart.y.percent)}"
        for m in curves
        if len(m.y)
    ]
    spoken = f"{chart.title}. {chart.y.title} by {chart.x.title}. " + "; ".join(ends)
    return _figure(width, height, inside, spoken)


def _figure(width: int, height: int, inside: object, alt: str) -> Markup:
    wide = f"max-width:{round(width * 1.15)}px"
    return drawing(width, height, inside, alt=alt, class_="chart", style=wide)


@dataclass(frozen=True, slots=True)
class _Words:
    """Position of a name."""

    left: float
    right: float
    line: float

    def clear(self, others: Sequence[_Words]) -> bool:
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

    @classmethod
    def of(
        cls, chart: Chart, data: Sequence[Line | Points], palette: Palette, width: int, height: int
    ) -> _Plot:
        """Room at the right for the longest name, but never more than a third."""
        names = [short(m.name) for m in data if isinstance(m, Line)]
        longest = BOLD * max(map(text_width, names), default=0.0)
        right = width - min(max(18.0, longest + 16), width * 0.34)
        xs = [float(v) for m in data for v in m.x]
        drawn = [part for m in data for part in (m.y, m.low, m.high) if part is not None]
        ys = [float(v) for part in drawn for v in part]
        x = fitted(chart.x, xs, _LEFT, right, max(3, round((right - _LEFT) / 70)))
        return cls(width, height, right, x, fitted(chart.y, ys, height - _BOTTOM, _TOP), palette)

    @property
    def bottom(self) -> float:
        return self.height - _BOTTOM

    def places(self, xs: Numbers, ys: Numbers | None) -> list[Place]:
        """Positions of data points, none without `ys`; NaN is left out."""
        if ys is None:
            return []
        return [
            (self.x(float(a)), self.y(float(b)))
            for a, b in zip(xs, ys, strict=True)
            if math.isfinite(a) and math.isfinite(b)
        ]

    def axes(self) -> list[Markup]:
        """Thin rules across, ticks below, titles where the eye begins."""
        parts = []
        for tick in self.y.ticks:
            at = self.y(tick)
            parts.append(route([(_LEFT, at), (self.right, at)], "rule"))
            parts.append(words(self.y.label(tick), _LEFT - 6, at + 4, "tick end"))
        x, below = self.x, self.bottom + 16
        parts += [words(x.label(t), x(t), below, "tick mid") for t in _legible(x)]
        parts.append(route([(_LEFT, self.bottom), (self.right, self.bottom)], "base"))
        parts.append(words(self.y.axis.title, 2, 12, "axis"))
        return [*parts, words(x.axis.title, self.right, self.height - 6, "axis end")]

    def guides(self, lines: Sequence[Line]) -> list[Markup]:
        """Thin lines behind the data, named at their ends where that hides no other name."""
        parts: list[Markup] = []
        taken: list[_Words] = []
        for line in lines:
            points = self.places(line.x, line.y)
            if not points:
                continue
            parts.append(route(points, "guide"))
            end_x, end_y = points[-1]
            name = _Words(end_x + 2, end_x + 2 + text_width(line.name), end_y + 3)
            if name.clear(taken):
                taken.append(name)
                parts.append(words(line.name, name.left, name.line, "guide-name"))
        return parts

    def band(self, line: Line) -> Markup | None:
        below, above = (self.places(line.x, end) for end in (line.low, line.high))
        if not below or not above:
            return None
        if line.role == "step":
            below, above = _steps(below), _steps(above)
        colour = self.palette[line.name].colour
        return element("path", d=path(above + below[::-1]) + "Z", class_=f"band {colour}")

    def curve(self, line: Line) -> list[Markup]:
        points, style = self.places(line.x, line.y), self.palette[line.name]
        if not points:
            return []
        drawn = _steps(points) if line.role == "step" else points
        parts = [route(drawn, f"curve {style.colour}", stroke_dasharray=style.dash)]
        if len(points) <= 25 and line.role == "curve":
            parts += [style.dot(px, py, 2.6) for px, py in points]
        return parts

    def scatter(self, dots: Points) -> list[Markup]:
        style = self.palette[dots.name]
        ends = zip(self.places(dots.x, dots.low), self.places(dots.x, dots.high), strict=False)
        parts = [route(pair, f"whisker {style.colour}") for pair in ends]
        labels = list(dots.labels) or [""] * len(list(dots.x))
        places = self.places(dots.x, dots.y)
        for (px, py), label, vx, vy in zip(places, labels, dots.x, dots.y, strict=False):
            values = (
                scale.written(value) + (" %" if scale.axis.percent else "")
                for value, scale in ((vx, self.x), (vy, self.y))
            )
            hover = element("title", f"{label or dots.name}: {', '.join(values)}")
            parts.append(element("g", style.dot(px, py), hover))
        return parts

    def dot_labels(self, dots: Sequence[Points], right: float) -> list[Markup]:
        """Names next to their dots, up to `right` and without overlaps; else only on hover."""
        parts: list[Markup] = []
        places = [self.places(mark.x, mark.y) for mark in dots]
        taken = [_Words(px - 4, px + 4, py + 4) for each in places for px, py in each]
        for mark, each in zip(dots, places, strict=True):
            for (px, py), label in zip(each, mark.labels, strict=False):
                wide = text_width(label) * BOLD
                lefts = (px + 7, px - 7 - wide)
                spots = (_Words(left, left + wide, py + down) for down in _BELOW for left in lefts)
                free = (s for s in spots if s.left >= 0 and s.right <= right and s.clear(taken))
                spot = next(free, None)
                if label and spot is not None:
                    taken.append(spot)
                    # It ends where its dot begins, or begins where it ends: widths are estimates.
                    after, colour = spot.left > px, self.palette[mark.name].colour
                    at, side = (spot.left, "name") if after else (spot.right, "name end")
                    parts.append(words(label, at, spot.line, f"{side} {colour}"))
        return parts

    def end_labels(self, lines: Sequence[Line]) -> list[Markup]:
        """Names in a column to the right of the last end, moved apart where they touch."""
        ends = [(p[-1], line.name) for line in lines if (p := self.places(line.x, line.y))]
        places = _apart([at[1] for at, _ in ends], _GAP, _TOP, self.bottom)
        column = max((at[0] for at, _ in ends), default=0.0)
        parts = []
        for ((px, py), name), at in zip(ends, places, strict=True):
            label = shortened(short(name), (self.width - self.right - 12) / BOLD)
            if abs(at - py) > 3 or column - px > 3:
                parts.append(route([(px + 4, py), (column + 9, at)], "leader"))
            parts.append(words(label, column + 11, at + 4, f"name {self.palette[name].colour}"))
        return parts

    def readouts(self, lines: Sequence[Line]) -> list[Markup]:
        """For each place on the x axis a hidden read-out of all curves there.

        It shows on hover and on focus: the style sheet does it, the script only moves focus.
        """
        columns: dict[float, list[tuple[Line, int]]] = {}
        for line in lines:
            for i, value in enumerate(line.x):
                columns.setdefault(float(value), []).append((line, i))
        if not 2 <= len(columns) <= 60:
            return []
        spots = [self.x(value) for value in sorted(columns)]
        borders = [_LEFT - 8, *((a + b) / 2 for a, b in pairwise(spots)), self.right + 8]
        probes = []
        for value, (low, high) in zip(sorted(columns), pairwise(borders), strict=True):
            size = {"width": max(high - low, 1.0), "height": self.bottom - _TOP}
            hit = element("rect", x=low, y=_TOP, **size, class_="hit")
            shown = self._readout(value, columns[value])
            probes.append(element("g", hit, shown, class_="probe", tabindex="-1"))
        return [element("g", probes, class_="probes")]

    def _readout(self, value: float, found: Sequence[tuple[Line, int]]) -> Markup:
        """A rule and a small card: each curve's value with its interval."""
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
        texts = [words(head, left + 8, top + 16, "card-head")]
        for k, (name, text) in enumerate(rows):
            colour = self.palette[name].colour
            texts.append(words(text, left + 8, top + 32 + 16 * k, f"name {colour}"))
        card = element("rect", x=left, y=top, width=wide, height=float(tall), rx=3, class_="card")
        rule = route([(at, _TOP), (at, self.bottom)], "crosshair")
        return element("g", rule, card, texts, class_="readout")


def _legible(x: Scale) -> Sequence[float]:
    """The ticks whose labels do not touch: all of them, or every second, or every fourth..."""
    widest = max((text_width(x.label(t)) for t in x.ticks), default=0.0)
    gaps = [abs(x(b) - x(a)) for a, b in pairwise(x.ticks)]
    step = 1
    while gaps and step < len(x.ticks) and step * min(gaps) < widest + 4:
        step *= 2
    return x.ticks[::step]


def _steps(points: list[Place]) -> list[Place]:
    """Hold each value until the next place."""
    held = points[:1]
    for px, py in points[1:]:
        held += [(px, held[-1][1]), (px, py)]
    return held


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
    low = height - _BARS_BOTTOM
    inside: list[object] = []
    for tick in scale.ticks:
        rule = element("path", d=f"M{scale(tick):.1f} {_BARS_TOP - 8}V{low}", class_="rule")
        inside += [rule, words(scale.label(tick), scale(tick), low + 14, "tick mid")]
    inside.append(_key(bars, width))
    inside += [_row(bars, k, scale, left) for k in range(len(bars.categories))]
    inside.append(words(bars.axis.title, width - 46.0, height - 2, "axis end"))
    return _figure(width, round(height), inside, bars.title)


def _key(bars: Bars, width: int) -> list[Markup]:
    """Swatch and name of each part, in the order in which they are stacked."""
    parts, at, line = [], 2.0, 12.0
    for k, part in enumerate(bars.parts):
        wide = text_width(part.name) + 30
        if at + wide > width and at > 2:
            at, line = 2.0, line + 16
        parts += [
            *_block(at, line - 9, 12, 10, k, part.name),
            words(part.name, at + 17, line, "key"),
        ]
        at += wide
    return parts


def _row(bars: Bars, k: int, scale: Scale, left: float) -> list[Markup]:
    top, name = _BARS_TOP + k * _ROW, bars.categories[k]
    shown = [shortened(short(name), left - 10), element("title", name)]
    parts = [words(shown, left - 8, top + _ROW / 2 + 1, "category end")]
    at, lane = 0.0, top + (_ROW - _BAR) / 2 - 3
    for i, part in enumerate(bars.parts):
        end = at + float(part.values[k])
        hover = f"{name}, {part.name}: {_length(bars, float(part.values[k]))}"
        parts += _block(scale(at), lane, max(scale(end) - scale(at), 0.0), _BAR, i, hover)
        at = end
    return [*parts, words(_length(bars, at), scale(at) + 6, lane + _BAR - 4, "tick")]


def _length(bars: Bars, value: float) -> str:
    return amount(value, bars.axis.digits, bars.axis.percent)


def _block(x: float, y: float, width: float, height: float, k: int, alt: str) -> list[Markup]:
    """A coloured block with a pattern over it that print shows too."""
    place = {"x": x, "y": y, "width": float(width), "height": float(height)}
    fill = element("rect", element("title", alt), **place, class_=f"bar b{k % 6}")
    return [fill, element("rect", **place, class_="hatch", fill=f"url(#hatch{k % 6})")]

"""Charts: curves and dots as SVG, with labels that do not overlap and read-outs on hover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from segmeter.core.catalogue import short
from segmeter.core.sections import Chart, Line, Points
from segmeter.report.elements import amount, drawing, element, path
from segmeter.report.plot_frames import (
    BOLD,
    Palette,
    Place,
    PlotFrame,
    Scale,
    Style,
    fitted,
    placed,
    shortened,
    text_width,
)


def chart_svg(chart: Chart, palette: Palette, width: int, height: int) -> Markup:
    """The whole chart; names are placed at their curves, not in a legend."""
    frame = _frame(chart, width, height)
    ticks = max(3, round((frame.plot_right - frame.left) / 70))
    x = fitted(chart.x, _all(chart, "x"), frame.left, frame.plot_right, ticks)
    y = fitted(chart.y, _all(chart, "y"), frame.plot_bottom, frame.top, 5)
    curves = [m for m in chart.marks if isinstance(m, Line) and m.role != "guide"]
    guides = [m for m in chart.marks if isinstance(m, Line) and m.role == "guide"]
    dots = [m for m in chart.marks if isinstance(m, Points)]
    named: list[Words] = []
    inside = [
        _axes(frame, x, y),
        [_guide(m, x, y, named) for m in guides],
        [_band(m, x, y, palette[m.name]) for m in curves],
        [_curve(m, x, y, palette[m.name]) for m in curves],
        [_scatter(m, x, y, palette[m.name]) for m in dots],
        dot_labels(dots, x, y, palette, frame.plot_right if curves else frame.width),
        end_labels(curves, x, y, palette, frame),
        readouts(curves, x, y, palette, frame),
    ]
    wide = f"max-width:{round(width * 1.15)}px"
    return drawing(width, height, inside, alt=_spoken(chart), class_="chart", style=wide)


def _frame(chart: Chart, width: int, height: int) -> PlotFrame:
    """Room at the right for the longest name, but never more than a third."""
    names = [short(m.name) for m in chart.marks if isinstance(m, Line) and m.role != "guide"]
    longest = BOLD * max(map(text_width, names), default=0.0)
    return PlotFrame(width, height, right=min(max(18.0, longest + 16), width * 0.34))


def _axes(frame: PlotFrame, x: Scale, y: Scale) -> list[Markup]:
    """Thin rules across, ticks below, titles where the eye begins."""
    parts = []
    for tick in y.ticks:
        at = y(tick)
        parts.append(
            element("path", d=path([(frame.left, at), (frame.plot_right, at)]), class_="rule")
        )
        parts.append(element("text", y.label(tick), x=frame.left - 6, y=at + 4, class_="tick end"))
    below = frame.plot_bottom + 16
    parts += [element("text", x.label(t), x=x(t), y=below, class_="tick mid") for t in _legible(x)]
    base = [(frame.left, frame.plot_bottom), (frame.plot_right, frame.plot_bottom)]
    parts.append(element("path", d=path(base), class_="base"))
    parts.append(element("text", y.axis.title, x=2, y=12, class_="axis"))
    parts.append(
        element("text", x.axis.title, x=frame.plot_right, y=frame.height - 6, class_="axis end")
    )
    return parts


def _legible(x: Scale) -> Sequence[float]:
    """The ticks whose labels do not touch: all of them, or every second, or every fourth..."""
    ticks = list(x.ticks)
    widest = max((text_width(x.label(t)) for t in ticks), default=0.0)
    gaps = [abs(x(b) - x(a)) for a, b in pairwise(ticks)]
    step = 1
    while gaps and step < len(ticks) and step * min(gaps) < widest + 4:
        step *= 2
    return ticks[::step]


def _guide(line: Line, x: Scale, y: Scale, taken: list[Words]) -> list[Markup]:
    points = placed(line.x, line.y, x, y)
    if not points:
        return []
    end_x, end_y = points[-1]
    rule = element("path", d=path(points), class_="guide")
    name = Words(end_x + 2, end_x + 2 + text_width(line.name), end_y + 3)
    if not name.clear(taken):  # names on top of each other say nothing
        return [rule]
    taken.append(name)
    label = element("text", line.name, x=name.left, y=name.line, class_="guide-name")
    return [rule, label]


def _band(line: Line, x: Scale, y: Scale, style: Style) -> Markup:
    if line.low is None or line.high is None:
        return Markup("")
    below = placed(line.x, line.low, x, y)
    above = placed(line.x, line.high, x, y)
    if line.role == "step":
        below, above = _steps(below), _steps(above)
    if not below:
        return Markup("")
    return element("path", d=path(above + below[::-1]) + "Z", class_=f"band {style.colour}")


def _curve(line: Line, x: Scale, y: Scale, style: Style) -> list[Markup]:
    points = placed(line.x, line.y, x, y)
    drawn = _steps(points) if line.role == "step" else points
    parts = (
        [
            element(
                "path", d=path(drawn), class_=f"curve {style.colour}", stroke_dasharray=style.dash
            )
        ]
        if drawn
        else []
    )
    if 1 <= len(points) <= 25 and line.role == "curve":
        parts += [style.dot(px, py, 2.6) for px, py in points]
    return parts


def _scatter(dots: Points, x: Scale, y: Scale, style: Style) -> list[Markup]:
    parts = []
    labels = list(dots.labels) or [""] * len(list(dots.x))
    places = placed(dots.x, dots.y, x, y)
    if dots.low is not None and dots.high is not None:
        ends = zip(placed(dots.x, dots.low, x, y), placed(dots.x, dots.high, x, y), strict=True)
        parts += [
            element("path", d=path([a, b]), class_=f"whisker {style.colour}") for a, b in ends
        ]
    for (px, py), label, vx, vy in zip(places, labels, dots.x, dots.y, strict=False):
        point = f"{_with_label(vx, x)}, {_with_label(vy, y)}"
        hover = element("title", f"{label or dots.name}: {point}")
        parts.append(element("g", style.dot(px, py), hover))
    return parts


def _with_label(value: float, scale: Scale) -> str:
    """A number as its axis tells it."""
    percent = scale.axis.percent
    return amount(float(value), 1 if percent else None, percent) + (" %" if percent else "")


def _steps(points: list[Place]) -> list[Place]:
    """Hold each value until the next place."""
    held: list[Place] = []
    for px, py in points:
        if held:
            held.append((px, held[-1][1]))
        held.append((px, py))
    return held


def _all(chart: Chart, axis: str) -> list[float]:
    """All values of the data along an axis, limits of bands included, guides left out."""
    values: list[float] = []
    for mark in chart.marks:
        if isinstance(mark, Line) and mark.role == "guide":
            continue
        values += [float(v) for v in (mark.x if axis == "x" else mark.y)]
        if axis == "y" and mark.low is not None and mark.high is not None:
            values += [float(v) for v in [*mark.low, *mark.high]]
    return values


def _spoken(chart: Chart) -> str:
    """Text for screen readers: the chart's title and the last value of each curve."""
    ends = [
        f"{m.name} ends at {amount(float(m.y[-1]), None, chart.y.percent)}"
        for m in chart.marks
        if isinstance(m, Line) and m.role != "guide" and len(m.y)
    ]
    return f"{chart.title}. {chart.y.title} by {chart.x.title}. " + "; ".join(ends)


_LINE = 13.0  # height of a line of text
_GAP = 14.0  # between two names in a column
_BELOW = (-7, 15, 4, -20, 28)  # base lines tried for a dot's name


@dataclass(frozen=True, slots=True)
class Words:
    """Position of a name."""

    left: float
    right: float
    line: float

    def clear(self, others: Sequence[Words]) -> bool:
        return all(
            abs(self.line - other.line) >= _LINE
            or self.left >= other.right
            or other.left >= self.right
            for other in others
        )


def dot_labels(
    dots: Sequence[Points], x: Scale, y: Scale, palette: Palette, right: float
) -> list[Markup]:
    """Names next to their dots, up to `right` and without overlaps; else only on hover."""
    parts: list[Markup] = []
    spots_of_dots = [at for mark in dots for at in placed(mark.x, mark.y, x, y)]
    taken = [Words(px - 4, px + 4, py + 4) for px, py in spots_of_dots]
    for mark in dots:
        places = placed(mark.x, mark.y, x, y)
        for (px, py), label in zip(places, mark.labels, strict=False):
            wide = text_width(label) * BOLD
            lefts = (px + 7, px - 7 - wide)
            spots = (Words(left, left + wide, py + down) for down in _BELOW for left in lefts)
            free = (s for s in spots if s.left >= 0 and s.right <= right and s.clear(taken))
            spot = next(free, None)
            if label and spot is not None:
                taken.append(spot)
                parts.append(_dot_label(label, spot, px, palette[mark.name]))
    return parts


def _dot_label(label: str, spot: Words, dot: float, style: Style) -> Markup:
    """A name that ends where its dot begins, or begins where it ends: widths are estimates."""
    if spot.left > dot:
        return element("text", label, x=spot.left, y=spot.line, class_=f"name {style.colour}")
    return element("text", label, x=spot.right, y=spot.line, class_=f"name end {style.colour}")


def end_labels(
    lines: Sequence[Line], x: Scale, y: Scale, palette: Palette, frame: PlotFrame
) -> list[Markup]:
    """Names in a column to the right of the last end, moved apart where they touch."""
    ends = []
    for line in lines:
        points = placed(line.x, line.y, x, y)
        if points:
            ends.append((points[-1], line.name))
    places = _apart([at[1] for at, _ in ends], _GAP, frame.top, frame.plot_bottom)
    column = max((at[0] for at, _ in ends), default=0.0)
    parts = []
    for ((px, py), name), at in zip(ends, places, strict=True):
        style = palette[name]
        label = shortened(short(name), (frame.right - 12) / BOLD)
        if abs(at - py) > 3 or column - px > 3:
            leader = path([(px + 4, py), (column + 9, at)])
            parts.append(element("path", d=leader, class_="leader"))
        parts.append(element("text", label, x=column + 11, y=at + 4, class_=f"name {style.colour}"))
    return parts


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
    result = list(places)
    for k, i in enumerate(order):
        result[i] = moved[k]
    return result


def readouts(
    lines: Sequence[Line], x: Scale, y: Scale, palette: Palette, frame: PlotFrame
) -> list[Markup]:
    """For each place on the x axis a hidden read-out of all curves there.

    It shows on hover and on focus: the style sheet does it, the script only moves focus.
    """
    columns: dict[float, list[tuple[Line, int]]] = {}
    for line in lines:
        for i, value in enumerate(line.x):
            columns.setdefault(float(value), []).append((line, i))
    if not 2 <= len(columns) <= 60:
        return []
    places = sorted(columns)
    parts = []
    for k, value in enumerate(places):
        before = x(places[k - 1]) if k else frame.left - 8
        after = x(places[k + 1]) if k + 1 < len(places) else frame.plot_right + 8
        low = (before + x(value)) / 2 if k else before
        high = (after + x(value)) / 2 if k + 1 < len(places) else after
        hit = element(
            "rect",
            x=low,
            y=frame.top,
            width=max(high - low, 1.0),
            height=frame.plot_bottom - frame.top,
            class_="hit",
        )
        parts.append(
            element(
                "g",
                hit,
                _readout(value, columns[value], x, y, palette, frame),
                class_="probe",
                tabindex="-1",
            )
        )
    return [element("g", parts, class_="probes")]


def _readout(
    value: float,
    found: Sequence[tuple[Line, int]],
    x: Scale,
    y: Scale,
    palette: Palette,
    frame: PlotFrame,
) -> Markup:
    """A rule and a small card: each curve's value with its interval."""
    rows = []
    for line, i in sorted(found, key=lambda f: -float(f[0].y[f[1]])):
        limits = ""
        if line.low is not None and line.high is not None:
            limits = f"  {_number(line.low[i], y)}–{_number(line.high[i], y)}"
        rows.append((line.name, f"{line.name}  {_number(line.y[i], y)}{limits}"))
    head = f"{x.axis.title} {amount(value, None, x.axis.percent)}"
    wide = min(
        max(text_width(t) for t in [head, *(r[1] for r in rows)]) * 0.98 + 16, frame.width - 4
    )
    tall = 16 * (len(rows) + 1) + 8
    left = x(value) + 8 if x(value) + 8 + wide < frame.width else max(2.0, x(value) - 8 - wide)
    top = frame.plot_bottom - tall - 6
    texts = [element("text", head, x=left + 8, y=top + 16, class_="card-head")]
    texts += [
        element(
            "text", text, x=left + 8, y=top + 32 + 16 * k, class_=f"name {palette[name].colour}"
        )
        for k, (name, text) in enumerate(rows)
    ]
    card = element("rect", x=left, y=top, width=wide, height=float(tall), rx=3, class_="card")
    rule = element(
        "path", d=path([(x(value), frame.top), (x(value), frame.plot_bottom)]), class_="crosshair"
    )
    return element("g", rule, card, texts, class_="readout")


def _number(value: float, y: Scale) -> str:
    return amount(float(value), 1 if y.axis.percent else None, y.axis.percent)

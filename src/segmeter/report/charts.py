"""Charts: curves with bands, dots and guides, as SVG with labels at the curves' ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from segmeter.core.catalogue import short
from segmeter.core.sections import Chart, Line, Points
from segmeter.report.chart_labels import Words, dot_labels, end_labels
from segmeter.report.chart_readouts import readouts
from segmeter.report.elements import element, path
from segmeter.report.marks import Palette, Style
from segmeter.report.plot_frames import BOLD, Place, PlotFrame, placed, text_width
from segmeter.report.scales import Scale, fitted
from segmeter.report.wording import amount

__all__ = ["chart_svg"]


def chart_svg(chart: Chart, palette: Palette, width: int, height: int) -> Markup:
    """The whole chart; names are placed at their curves, not in a legend."""
    frame = _frame(chart, width, height)
    wide = max(3, round((frame.plot_right - frame.left) / 70))
    x = fitted(chart.x, _all(chart, "x"), frame.left, frame.plot_right, wide)
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
        dot_labels(dots, x, y, palette, frame),
        end_labels(curves, x, y, palette, frame),
        readouts(curves, x, y, palette, frame),
    ]
    return element(
        "svg",
        element("title", _spoken(chart)),
        inside,
        viewBox=f"0 0 {width} {height}",
        class_="chart",
        role="img",
        style=f"max-width:{round(width * 1.15)}px",
    )


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
        told = f"{_told(vx, x)}, {_told(vy, y)}"
        hover = element("title", f"{label or dots.name}: {told}")
        parts.append(element("g", style.dot(px, py), hover))
    return parts


def _told(value: float, scale: Scale) -> str:
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

"""Bars: horizontal, stacked or side by side, with patterns for grey print."""

from __future__ import annotations

from markupsafe import Markup

from segmeter.core.catalogue import short
from segmeter.core.sections import Bars, Part
from segmeter.report.elements import amount, drawing, element
from segmeter.report.plot_frames import BOLD, Scale, fitted, shortened, text_width

_ROW, _BAR, _TOP, _BOTTOM = 30.0, 16.0, 48.0, 30.0


def bars_svg(bars: Bars, width: int) -> Markup:
    """One row per category; the parts' names stand above the longest bar's row."""
    longest = max(map(text_width, map(short, bars.categories)), default=0.0)
    left = min(BOLD * longest + 12, width * 0.4)  # categories are set a little larger
    rows = len(bars.categories) * (1 if bars.stacked else max(len(bars.parts), 1))
    height = _TOP + rows * _ROW + _BOTTOM
    scale = fitted(bars.axis, _reach(bars), left, width - 46.0, 5 if width > 500 else 3)
    inside = [
        _rules(scale, height),
        _key(bars, width),
        [_row(bars, k, scale, left) for k in range(len(bars.categories))],
        element("text", bars.axis.title, x=width - 46.0, y=height - 2, class_="axis end"),
    ]
    wide = f"max-width:{round(width * 1.15)}px"
    return drawing(width, round(height), inside, said=bars.title, class_="chart", style=wide)


def _reach(bars: Bars) -> list[float]:
    """Zero, and the length of every bar."""
    columns = range(len(bars.categories))
    if bars.stacked:
        return [0.0, *(sum(float(p.values[k]) for p in bars.parts) for k in columns)]
    return [0.0, *(float(v) for p in bars.parts for v in (*p.values, *(p.high or ())))]


def _rules(scale: Scale, height: float) -> list[Markup]:
    parts = []
    for tick in scale.ticks:
        at = scale(tick)
        d = f"M{at:.1f} {_TOP - 8}V{height - _BOTTOM}"
        parts.append(element("path", d=d, class_="rule"))
        parts.append(
            element("text", scale.label(tick), x=at, y=height - _BOTTOM + 14, class_="tick mid")
        )
    return parts


def _key(bars: Bars, width: int) -> list[Markup]:
    """Swatch and name of each part, in the order in which they are stacked."""
    parts, at, line = [], 2.0, 12.0
    for k, part in enumerate(bars.parts):
        wide = text_width(part.name) + 30
        if at + wide > width and at > 2:
            at, line = 2.0, line + 16
        swatch = _block(at, line - 9, 12, 10, k, part.name)
        parts += [*swatch, element("text", part.name, x=at + 17, y=line, class_="key")]
        at += wide
    return parts


def _row(bars: Bars, k: int, scale: Scale, left: float) -> list[Markup]:
    lanes = 1 if bars.stacked else len(bars.parts)
    top = _TOP + k * lanes * _ROW
    name = bars.categories[k]
    label = element(
        "text",
        shortened(short(name), left - 10),
        element("title", name),
        x=left - 8,
        y=top + lanes * _ROW / 2 + 1,
        class_="category end",
    )
    parts: list[Markup] = [label]
    at = 0.0
    for i, part in enumerate(bars.parts):
        value = float(part.values[k])
        start = at if bars.stacked else 0.0
        lane = top + (_ROW - _BAR) / 2 - 3 + (0 if bars.stacked else i * _ROW)
        hover = f"{name}, {part.name}: {amount(value, bars.axis.digits, bars.axis.percent)}"
        begin, end = scale(start), scale(start + value)
        parts += _block(begin, lane, max(end - begin, 0.0), _BAR, i, hover)
        if not bars.stacked:
            parts += _limits(part, k, scale, lane)
            parts.append(_amount(bars, value, _end(part, k, scale, end), lane))
        at = start + value
    if bars.stacked:
        parts.append(_amount(bars, at, scale(at), top + (_ROW - _BAR) / 2 - 3))
    return parts


def _block(x: float, y: float, width: float, height: float, k: int, said: str) -> list[Markup]:
    """A coloured block with a pattern over it that print shows too."""
    place = {"x": x, "y": y, "width": float(width), "height": float(height)}
    fill = element("rect", element("title", said), **place, class_=f"bar b{k % 6}")
    return [fill, element("rect", **place, class_="hatch", fill=f"url(#hatch{k % 6})")]


def _limits(part: Part, k: int, scale: Scale, lane: float) -> list[Markup]:
    if part.low is None or part.high is None:
        return []
    low, high = scale(float(part.low[k])), scale(float(part.high[k]))
    middle = lane + _BAR / 2
    return [element("path", d=f"M{low:.1f} {middle}H{high:.1f}", class_="whisker ink")]


def _end(part: Part, k: int, scale: Scale, end: float) -> float:
    return end if part.high is None else max(end, scale(float(part.high[k])))


def _amount(bars: Bars, value: float, x: float, lane: float) -> Markup:
    text = amount(value, bars.axis.digits, bars.axis.percent)
    return element("text", text, x=x + 6, y=lane + _BAR - 4, class_="tick")

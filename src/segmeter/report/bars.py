"""Bars: horizontal, of stacked parts, with patterns for grey print."""

from __future__ import annotations

from markupsafe import Markup

from segmeter.core.catalogue import short
from segmeter.core.sections import Bars
from segmeter.report.elements import amount, drawing, element
from segmeter.report.plot_frames import BOLD, Scale, fitted, shortened, text_width

_ROW, _BAR, _TOP, _BOTTOM = 30.0, 16.0, 48.0, 30.0


def bars_svg(bars: Bars, width: int) -> Markup:
    """One row per category; the parts' names stand above the longest bar's row."""
    longest = max(map(text_width, map(short, bars.categories)), default=0.0)
    left = min(BOLD * longest + 12, width * 0.4)  # categories are set a little larger
    height = _TOP + len(bars.categories) * _ROW + _BOTTOM
    lengths = [sum(float(p.values[k]) for p in bars.parts) for k in range(len(bars.categories))]
    scale = fitted(bars.axis, [0.0, *lengths], left, width - 46.0, 5 if width > 500 else 3)
    inside = [
        _rules(scale, height),
        _key(bars, width),
        [_row(bars, k, scale, left) for k in range(len(bars.categories))],
        element("text", bars.axis.title, x=width - 46.0, y=height - 2, class_="axis end"),
    ]
    wide = f"max-width:{round(width * 1.15)}px"
    return drawing(width, round(height), inside, alt=bars.title, class_="chart", style=wide)


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
    top = _TOP + k * _ROW
    name = bars.categories[k]
    label = element(
        "text",
        shortened(short(name), left - 10),
        element("title", name),
        x=left - 8,
        y=top + _ROW / 2 + 1,
        class_="category end",
    )
    parts: list[Markup] = [label]
    at, lane = 0.0, top + (_ROW - _BAR) / 2 - 3
    for i, part in enumerate(bars.parts):
        end = at + float(part.values[k])
        hover = f"{name}, {part.name}: {_amount(bars, float(part.values[k]))}"
        parts += _block(scale(at), lane, max(scale(end) - scale(at), 0.0), _BAR, i, hover)
        at = end
    total = element("text", _amount(bars, at), x=scale(at) + 6, y=lane + _BAR - 4, class_="tick")
    return [*parts, total]


def _amount(bars: Bars, value: float) -> str:
    return amount(value, bars.axis.digits, bars.axis.percent)


def _block(x: float, y: float, width: float, height: float, k: int, alt: str) -> list[Markup]:
    """A coloured block with a pattern over it that print shows too."""
    place = {"x": x, "y": y, "width": float(width), "height": float(height)}
    fill = element("rect", element("title", alt), **place, class_=f"bar b{k % 6}")
    return [fill, element("rect", **place, class_="hatch", fill=f"url(#hatch{k % 6})")]

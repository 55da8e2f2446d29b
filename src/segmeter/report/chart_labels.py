"""Chart labels: names next to dots and at the ends of curves, without overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from segmeter.core.catalogue import short
from segmeter.core.sections import Line, Points
from segmeter.report.elements import element, path
from segmeter.report.marks import Palette, Style
from segmeter.report.plot_frames import BOLD, PlotFrame, placed, shortened, text_width
from segmeter.report.scales import Scale

__all__ = ["Words", "dot_labels", "end_labels"]

_LINE = 13.0  # height of a line of text
_GAP = 14.0  # between two names in a column


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
    dots: Sequence[Points], x: Scale, y: Scale, palette: Palette, frame: PlotFrame
) -> list[Markup]:
    """Names next to their dots, inside the chart and without overlaps; else only on hover."""
    parts: list[Markup] = []
    taken: list[Words] = []
    for mark in dots:
        places = placed(mark.x, mark.y, x, y)
        for (px, py), label in zip(places, mark.labels, strict=False):
            wide = text_width(label) * BOLD
            lefts = (px + 7, px - 7 - wide)
            spots = (Words(left, left + wide, py + down) for down in (4, -7, 15) for left in lefts)
            free = (s for s in spots if s.left >= 0 and s.right <= frame.width and s.clear(taken))
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
        said = shortened(short(name), (frame.right - 12) / BOLD)
        if abs(at - py) > 3 or column - px > 3:
            leader = path([(px + 4, py), (column + 9, at)])
            parts.append(element("path", d=leader, class_="leader"))
        parts.append(element("text", said, x=column + 11, y=at + 4, class_=f"name {style.colour}"))
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

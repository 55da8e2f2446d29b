"""Chart read-outs: the values of all curves at one place, shown on hover and on focus."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from segmeter.core.sections import Line
from segmeter.report.elements import element, path
from segmeter.report.marks import Palette
from segmeter.report.plot_frames import PlotFrame, text_width
from segmeter.report.scales import Scale
from segmeter.report.wording import amount

__all__ = ["readouts"]


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
            limits = f"  {_said(line.low[i], y)}–{_said(line.high[i], y)}"
        rows.append((line.name, f"{line.name}  {_said(line.y[i], y)}{limits}"))
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


def _said(value: float, y: Scale) -> str:
    return amount(float(value), 1 if y.axis.percent else None, y.axis.percent)

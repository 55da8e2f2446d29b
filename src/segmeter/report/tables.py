"""Tables: aligned numerals, intervals beside them, and a common scale where asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from segmeter.core.sections import Axis, Cell, Column, Label, Table, Value
from segmeter.report.elements import element
from segmeter.report.scales import Scale, fitted
from segmeter.report.wording import amount, spread

__all__ = ["CellView", "HeadView", "TableView", "table_view"]

_STRIP = 120


@dataclass(frozen=True, slots=True)
class HeadView:
    """A column's heading; `axis` is the scale of a plotted column."""

    title: str
    unit: str
    numeric: bool
    axis: Markup | None = None


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell ready for the page."""

    text: str
    numeric: bool
    interval: str = ""
    best: bool = False
    strip: Markup | None = None
    tint: str = ""
    link: str = ""
    reading: str = ""
    note: str = ""
    order: str = ""


@dataclass(frozen=True, slots=True)
class TableView:
    """A table ready for the page."""

    name: str
    heads: list[HeadView]
    rows: list[list[CellView]]
    caption: str = ""
    note: str = ""
    sortable: bool = False
    dense: bool = False


def table_view(table: Table) -> TableView:
    """Lay out a table."""
    columns = list(table.columns)
    cells = [[row[k] for row in table.rows] for k in range(len(columns))]
    scales = [_scale(c, cells[k]) if c.plot else None for k, c in enumerate(columns)]
    best = [_best(c, cells[k]) for k, c in enumerate(columns)]
    spans = [_span(c, cells[k]) for k, c in enumerate(columns)]
    heads = [
        HeadView(c.title, c.unit, c.digits is not None, _ruler(s) if s else None)
        for c, s in zip(columns, scales, strict=True)
    ]
    rows = [
        [_view(cell, columns[k], best[k], scales[k], spans[k]) for k, cell in enumerate(row)]
        for row in table.rows
    ]
    dense = sum(c.digits is not None for c in columns) > 6
    return TableView(table.name, heads, rows, table.caption, table.note, len(rows) > 2, dense)


def _view(
    cell: Cell,
    column: Column,
    best: float | None,
    scale: Scale | None,
    span: tuple[float, float] | None,
) -> CellView:
    if cell is None:
        return CellView("–", column.digits is not None)
    if isinstance(cell, str):
        return CellView(cell, column.digits is not None, order=cell)
    if isinstance(cell, Label):
        return CellView(cell.text, False, link=cell.link, reading=cell.reading, order=cell.text)
    value = cell if isinstance(cell, Value) else Value(float(cell))
    known = value.value is not None and math.isfinite(value.value)
    return CellView(
        amount(value.value, column.digits, column.percent),
        True,
        interval=spread(value, column),
        best=known and best is not None and value.value == best,
        strip=_strip(value, scale) if scale and known else None,
        tint=_tint(value.value, span) if known else "",
        link=value.link,
        note=value.note,
        order=str(value.value) if known else "",
    )


def _numbers(cells: list[Cell]) -> list[float]:
    found = [c.value if isinstance(c, Value) else c for c in cells]
    return [float(v) for v in found if isinstance(v, int | float) and math.isfinite(v)]


def _best(column: Column, cells: list[Cell]) -> float | None:
    """The best number, where there is something to choose from."""
    numbers = _numbers(cells)
    if not column.better or len(numbers) < 2 or len(set(numbers)) < 2:
        return None
    return max(numbers) if column.better == "higher" else min(numbers)


def _scale(column: Column, cells: list[Cell]) -> Scale:
    """One scale for a column: from zero unless all values lie far from it."""
    limits = [
        v
        for c in cells
        if isinstance(c, Value)
        for v in (c.value, c.low, c.high)
        if v is not None and math.isfinite(v)
    ] or [0.0, 1.0]
    low, high = min(limits), max(limits)
    start = 0.0 if 0 <= low < 0.6 * high else low
    axis = Axis(column.title, low=start, high=high, percent=column.percent)
    return fitted(axis, limits, 6.0, _STRIP - 6.0, 3)


def _strip(value: Value, scale: Scale) -> Markup:
    """A dot on its interval."""
    assert value.value is not None
    parts = [element("path", d=f"M{scale.start} 8H{scale.end}", class_="lane")]
    if scale.low < 0 < scale.high:
        parts.append(element("path", d=f"M{scale(0.0):.1f} 0V16", class_="zero"))
    if value.low is not None and value.high is not None:
        low, high = scale(value.low), scale(value.high)
        parts.append(element("path", d=f"M{low:.1f} 8H{high:.1f}", class_="whisker ink"))
    parts.append(element("circle", cx=scale(value.value), cy=8, r=4, class_="dot ink"))
    return element(
        "svg",
        parts,
        viewBox=f"0 0 {_STRIP} 16",
        width=_STRIP,
        height=16,
        class_="strip",
        aria_hidden="true",
    )


def _ruler(scale: Scale) -> Markup:
    first = 0.0 if 0.0 in scale.ticks else scale.ticks[0]
    ends = [first, scale.ticks[-1]] if scale.ticks[-1] != first else [first]
    marks = [element("text", scale.label(t), x=scale(t), y=11, class_="tick mid") for t in ends]
    return element(
        "svg",
        marks,
        viewBox=f"0 0 {_STRIP} 14",
        width=_STRIP,
        height=14,
        class_="strip",
        aria_hidden="true",
    )


def _span(column: Column, cells: list[Cell]) -> tuple[float, float] | None:
    numbers = _numbers(cells)
    return (min(numbers), max(numbers)) if column.shade and numbers else None


def _tint(value: float | None, span: tuple[float, float] | None) -> str:
    """How strong a shaded cell's tint is, as a percentage."""
    if span is None or value is None or span[1] <= span[0]:
        return ""
    return f"{round(5 + 40 * (value - span[0]) / (span[1] - span[0]))}%"

"""Tables: aligned numbers with their intervals, and a common scale on request."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace

from markupsafe import Markup

from segmeter.core.catalogue import short
from segmeter.core.sections import Axis, Cell, Column, Label, Table, Value
from segmeter.report.elements import amount, drawn, spread
from segmeter.report.plot_frames import Palette, Scale, Style, fitted

_STRIP = 120
_PAGE_PX = 1090  # what a screen of 1280 leaves for a table
_CARD_LINES = 96  # a few turns of a phone's page


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell ready for the page; `room` is how many letters its column's intervals have at most."""

    text: str
    numeric: bool
    interval: str = ""
    room: int = 0
    best: bool = False
    strip: Markup | None = None
    tint: str = ""
    link: str = ""
    protocol: str = ""
    order: str = ""
    key: Markup | None = None


@dataclass(frozen=True, slots=True)
class TableView:
    """A table ready for the page; `heads` are its columns with the scales of plotted ones."""

    heads: list[tuple[Column, Markup | None]]
    rows: list[list[CellView]]
    note: str = ""
    sortable: bool = False
    dense: bool = False

    @property
    def cards(self) -> bool:
        """Whether a phone shows each row as a card; long tables and matrices scroll instead."""
        tinted = sum(any(c.tint for c in column) for column in zip(*self.rows, strict=True))
        matrix = 2 * tinted > len(self.heads)
        lines = len(self.rows) * len(self.heads)
        return len(self.heads) > 2 and lines <= _CARD_LINES and not matrix


@dataclass(frozen=True, slots=True)
class _ColumnLayout:
    """Layout shared by the cells of a column: the best rows, scale, tints, room for intervals."""

    column: Column
    best: set[int]
    scales: list[Scale]  # of each row, where numbers are plotted
    span: tuple[float, float] | None
    room: int


def table_view(table: Table, palette: Palette | None = None) -> TableView:
    """Lay out a table; rows named as curves of the page are keyed in their colours."""
    kinds, layouts = _kinds(table), []
    statistics = _texts(table, "statistic")
    for k, column in enumerate(table.columns):
        cells = [row[k] for row in table.rows]
        room = max((len(spread(c, column)) for c in cells if isinstance(c, Value)), default=0)
        scales = _scales(column, cells, statistics) if column.plot else []
        best = _best(column, cells, kinds)
        numbers = _numbers(cells) if column.shade else []
        span = (min(numbers), max(numbers)) if numbers else None
        layouts.append(_ColumnLayout(column, best, scales, span, room))
    shared = len(set(statistics)) == 1
    heads = [(one.column, _ruler(one.scales, shared) if one.scales else None) for one in layouts]
    rows = []
    for i, row in enumerate(table.rows):
        style = palette.known(_name(row[0])) if palette and row else None
        pairs = zip(row, layouts, strict=True)
        views = [_view(i, cell, one, style) for cell, one in pairs]
        if style:
            views[0] = replace(views[0], text=short(views[0].text), key=drawn("key", style))
        rows.append(views)
    note = table.note
    if any(v.numeric and v.text and v.room and not v.interval for row in rows for v in row):
        note = f"{note} No interval: a single image, or the same number in every resample.".strip()
    dense = sum(one.room > 0 for one in layouts) > 5 or _inline_px(heads, rows) > _PAGE_PX
    return TableView(heads, rows, note, len(rows) > 2, dense)


def _inline_px(heads: list[tuple[Column, Markup | None]], rows: list[list[CellView]]) -> float:
    """Approximate width of a table with its intervals next to the numbers."""
    total = 0.0
    for (column, axis), *cells in zip(heads, *rows, strict=True):
        words = 7 * max(len(column.title), len(column.unit))
        strip = _STRIP + 12 if axis else 0
        sizes = (
            8 * len(c.text) + 7 * len(c.interval + c.protocol) + 30 * bool(c.key) for c in cells
        )
        total += 14 + strip + max([words, *sizes])
    return total


def _name(cell: Cell) -> str:
    return cell.text if isinstance(cell, Label) else str(cell)


def _view(row: int, cell: Cell, layout: _ColumnLayout, style: Style | None) -> CellView:
    column, room = layout.column, layout.room
    if isinstance(cell, Label):
        return CellView(cell.text, False, room=room, protocol=cell.protocol, order=cell.text)
    if cell is None or isinstance(cell, str):
        shown = "–" if cell is None else cell
        return CellView(shown, column.digits is not None, room=room, order=cell or "")
    value = cell if isinstance(cell, Value) else Value(float(cell))
    known = value.value is not None and math.isfinite(value.value)
    return CellView(
        amount(value.value, column.digits, column.percent, column.least),
        True,
        interval=spread(value, column),
        room=room,
        best=row in layout.best,
        strip=_strip(value, layout.scales[row], style) if layout.scales and known else None,
        tint=_tint(value.value, layout.span) if known else "",
        link=value.link,
        order=str(value.value) if known else "",
    )


def _numbers(cells: list[Cell]) -> list[float]:
    found = [c.value if isinstance(c, Value) else c for c in cells]
    return [float(v) for v in found if isinstance(v, int | float) and math.isfinite(v)]


def _kinds(table: Table) -> list[Hashable]:
    """Comparable rows: those of one protocol, on the same data."""
    return [
        (row[0].protocol if row and isinstance(row[0], Label) else "", data)
        for row, data in zip(table.rows, _texts(table, "data"), strict=True)
    ]


def _texts(table: Table, title: str) -> list[str]:
    """Each row's text in the column of that title; empty where there is none."""
    places = [k for k, column in enumerate(table.columns) if column.title == title][:1]
    return ["".join(_name(row[k]) for k in places) for row in table.rows]


def _best(column: Column, cells: list[Cell], kinds: list[Hashable]) -> set[int]:
    """The rows whose number is set strong, among those that may be compared.

    A cell's own setting decides; else the best number is marked if its
    interval lies apart from those of all others, or if numbers come without intervals.
    """
    marked_best = {
        i: c.best for i, c in enumerate(cells) if isinstance(c, Value) and c.best is not None
    }
    best = {i for i, strong in marked_best.items() if strong}
    if not column.better or best:
        return best
    for kind in dict.fromkeys(kinds):
        rows = [i for i, cell in enumerate(cells) if kinds[i] == kind and _numbers([cell])]
        first = _foremost([cells[i] for i in rows], column.better == "higher")
        best |= {rows[k] for k in first if marked_best.get(rows[k]) is not False}
    return best


def _foremost(cells: list[Cell], higher: bool) -> set[int]:
    """Which of some numbers are best, where there is something to choose from."""
    numbers = _numbers(cells)
    if len(set(numbers)) < 2:
        return set()
    limit = max(numbers) if higher else min(numbers)
    first = {i for i, number in enumerate(numbers) if number == limit}
    others = [cell for i, cell in enumerate(cells) if i not in first]
    apart = all(_apart(cells[i], other, higher) for i in first for other in others)
    return first if apart else set()


def _apart(best: Cell, other: Cell, higher: bool) -> bool:
    """Whether two intervals do not overlap; numbers without one are used as they are."""
    limits = [c for c in (best, other) if isinstance(c, Value) and c.low is not None]
    if len(limits) < 2:
        return True
    low, high = (limits[1].high, limits[0].low) if higher else (limits[0].high, limits[1].low)
    return low is not None and high is not None and low < high


def _scales(column: Column, cells: list[Cell], statistics: list[str]) -> list[Scale]:
    """The scale of each row: from zero unless all values are far from it.

    Each statistic has its own; with negative numbers in the column, all of them contain zero.
    """
    limits = [_limits(cell) for cell in cells]
    signed = any(v < 0 for row in limits for v in row)
    made = {}
    for statistic in dict.fromkeys(statistics):
        pairs = zip(limits, statistics, strict=True)
        here = [v for row, own in pairs if own == statistic for v in row] or [0.0, 1.0]
        here += [-0.02 * max(here), -0.02 * min(here)] if signed else []
        low, high = min(here), max(here)
        start = 0.0 if 0 <= low < 0.6 * high else low
        axis = Axis(column.title, low=start, high=high, percent=column.percent)
        made[statistic] = fitted(axis, here, 6.0, _STRIP - 6.0, 3)
    return [made[statistic] for statistic in statistics]


def _limits(cell: Cell) -> list[float]:
    found = (cell.value, cell.low, cell.high) if isinstance(cell, Value) else ()
    return [v for v in found if v is not None and math.isfinite(v)]


def _strip(value: Value, scale: Scale, style: Style | None) -> Markup:
    """A dot on its interval, in the row's own colour and shape where it has one."""
    ends = [scale(end) for end in (value.low, value.high) if end is not None and math.isfinite(end)]
    limits = ends if len(ends) == 2 else None
    return drawn("strip", _STRIP, scale, scale(value.value or 0.0), limits, style)


def _ruler(scales: list[Scale], shared: bool) -> Markup | None:
    """The ends of a scale that all rows share."""
    if not shared:
        return None
    scale = scales[0]
    first = 0.0 if 0.0 in scale.ticks else scale.ticks[0]
    ends = [first, scale.ticks[-1]] if scale.ticks[-1] != first else [first]
    return drawn("ruler", _STRIP, scale, ends)


def _tint(value: float | None, span: tuple[float, float] | None) -> str:
    """How strong a shaded cell's tint is, as a percentage."""
    if span is None or value is None or span[1] <= span[0]:
        return ""
    return f"{round(5 + 40 * (value - span[0]) / (span[1] - span[0]))}%"

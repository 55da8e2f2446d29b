"""Tables of numbers: a run's summary by model and reading, and square ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from segmeter.benchmarks.difference_table import difference_section
from segmeter.core.benchmarks import Difference, StatisticCard, SummaryRow
from segmeter.core.sections import Cell, Column, Label, Section, Table, Value
from segmeter.stats.intervals import Floats

__all__ = ["DATA", "By", "headline_sections", "matrix_table", "summary_table"]

By = Mapping[Column, Callable[[SummaryRow], Cell]]
"""Columns that identify a group in addition to model and protocol."""

DATA: By = {Column("data"): lambda row: row.dataset}


def summary_table(
    name: str,
    rows: Sequence[SummaryRow],
    measures: Mapping[str, Column],
    *,
    by: By | None = None,
    who: str = "model",
    ranked: bool = False,
    caption: str = "",
    note: str = "",
) -> Table:
    """A line per group that has any of the measures, a column for each that any group has.

    `ranked` sets the highest of the first measure first; else groups stand as they came.

    >>> rows = [
    ...     SummaryRow(m, "mini", "", "corrected", "ap", v, v, v, 9) for m, v in zip("ab", (1, 2))
    ... ]
    >>> table = summary_table("ap", rows, {"ap": Column("AP"), "ar": Column("AR")}, ranked=True)
    >>> [label.text for label, _ in table.rows]
    ['b', 'a']
    """
    told = by or {}
    shown = [m for m in measures if any(row.measure == m for row in rows)]
    groups: dict[tuple[str, ...], dict[str, SummaryRow]] = {}
    for row in rows:
        if row.measure in shown:
            groups.setdefault(row.key, {})[row.measure] = row
    lines = list(groups.values())
    if ranked:
        lines.sort(key=lambda line: -line[shown[0]].value if shown[0] in line else 0.0)
    made: list[list[Cell]] = []
    for line in lines:
        one = next(iter(line.values()))
        head = [Label(one.model, protocol=one.protocol), *(tell(one) for tell in told.values())]
        made.append([*head, *(Value.of(line.get(m)) for m in shown)])
    columns = [Column(who), *told, *(measures[m] for m in shown)]
    return Table(name, columns, made, caption, note)


def matrix_table(
    name: str, labels: Sequence[str], values: Floats, caption: str, note: str = ""
) -> Table:
    """A square table, each cell tinted by its value; a dash where there is none.

    >>> matrix_table("r", ["a", "b"], np.array([[1, 0.5], [0.5, np.nan]]), "").rows
    [['a', 1.0, 0.5], ['b', 0.5, None]]
    """
    columns = [Column(""), *(Column(label, "", 2, shade=True) for label in labels)]
    rows: list[list[Cell]] = [
        [label, *(None if np.isnan(value) else float(value) for value in row)]
        for label, row in zip(labels, values, strict=True)
    ]
    return Table(name, columns, rows, caption, note)


def headline_sections(
    headline: Sequence[str],
    cards: Mapping[str, StatisticCard],
    rows: Sequence[SummaryRow],
    found: Sequence[Difference],
) -> list[Section]:
    """The sections of a benchmark that declares none: its headline, and differences."""
    columns = {
        name: Column(
            cards[name].title, cards[name].unit, cards[name].digits, better=cards[name].better
        )
        for name in headline or cards
    }
    by: By = {**DATA, Column("user"): lambda row: row.user}
    varied = {c: tell for c, tell in by.items() if len({str(tell(row)) for row in rows}) > 1}
    note = "95 % intervals from resampling images."
    table = summary_table("results", rows, columns, by=varied, note=note)
    return [Section("Results", blocks=[table]), *difference_section(found, cards)]

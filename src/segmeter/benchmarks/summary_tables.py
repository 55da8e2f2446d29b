"""Tables of a run's summary: a line per model and reading, a column per statistic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from segmeter.core.benchmarks import SummaryRow
from segmeter.core.sections import Cell, Column, Label, Table, Value

__all__ = ["DATA", "By", "summary_table"]

By = Mapping[Column, Callable[[SummaryRow], Cell]]
"""What tells groups apart beside model and reading, column by column."""

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

    >>> rows = [SummaryRow(m, "mini", "", "sound", "ap", v, v, v, 9) for m, v in zip("ab", (1, 2))]
    >>> table = summary_table("ap", rows, {"ap": Column("AP"), "ar": Column("AR")}, ranked=True)
    >>> [label.text for label, _ in table.rows]
    ['b', 'a']
    """
    told = by or {}
    shown = [m for m in measures if any(row.measure == m for row in rows)]
    groups: dict[tuple[str, ...], dict[str, SummaryRow]] = {}
    for row in rows:
        if row.measure in shown:
            key = (row.model, row.dataset, row.user, row.reading)
            groups.setdefault(key, {})[row.measure] = row
    lines = list(groups.values())
    if ranked:
        lines.sort(key=lambda line: -line[shown[0]].value if shown[0] in line else 0.0)
    made: list[list[Cell]] = []
    for line in lines:
        one = next(iter(line.values()))
        head = [Label(one.model, reading=one.reading), *(tell(one) for tell in told.values())]
        made.append([*head, *(Value.of(line.get(m)) for m in shown)])
    columns = [Column(who), *told, *(measures[m] for m in shown)]
    return Table(name, columns, made, caption, note)

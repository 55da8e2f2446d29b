"""The table that tells which differences between models are established, of any benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from segmeter.core.benchmarks import Difference
from segmeter.core.sections import Cell, Column, Table, Value

__all__ = ["PAIR", "PAIR_AND_READING", "Say", "difference_table"]

Say = Callable[[Difference], Cell]
PAIR: Mapping[str, Say] = {"first": lambda d: d.first, "second": lambda d: d.second}
PAIR_AND_READING: Mapping[str, Say] = {**PAIR, "reading": lambda d: d.reading}


def difference_table(
    name: str,
    found: Iterable[Difference],
    said: Mapping[str, Say],
    *,
    difference: Column,
    p: Column,
    caption: str = "",
    note: str = "",
) -> Table:
    """A row per difference: what `said` tells of it, by column, then how large and how sure."""
    rows: list[list[Cell]] = [
        [
            *(say(d) for say in said.values()),
            Value.of(d),
            d.p_holm,
            "yes" if d.established else "no",
        ]
        for d in found
    ]
    columns = [*map(Column, said), difference, p, Column("established")]
    return Table(name, columns, rows, caption, note)

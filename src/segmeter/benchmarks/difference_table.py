"""The table that tells which differences between models are significant, of any benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from segmeter.core.benchmarks import Difference
from segmeter.core.sections import Cell, Column, Table, Value

__all__ = ["PAIR", "PAIR_AND_PROTOCOL", "Say", "difference_table"]

Say = Callable[[Difference], Cell]
PAIR: Mapping[str, Say] = {"first": lambda d: d.first, "second": lambda d: d.second}
PAIR_AND_PROTOCOL: Mapping[str, Say] = {**PAIR, "protocol": lambda d: d.protocol}


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
    """A row per difference: what `said` tells of it, by column, then how large and how sure.

    The column `data` is left out where all are of one data set.
    """
    every = list(found)
    told = dict(said)
    if len({d.dataset for d in every}) == 1:
        told.pop("data", None)
    columns: dict[Column, Say] = {Column(title): say for title, say in told.items()}
    columns[difference] = Value.of
    columns[p] = lambda d: d.p_holm
    columns[Column("significant")] = lambda d: "yes" if d.significant else "no"
    return Table.of(name, every, columns, caption, note)

"""Differences between models in Segment Anything's evaluation, as a section of a report."""

from __future__ import annotations

from collections.abc import Sequence

from segmeter.benchmarks.difference_table import difference_table
from segmeter.core.benchmarks import Difference
from segmeter.core.sections import Column, Label, Section

__all__ = ["difference_section"]


def difference_section(
    name: str, found: Sequence[Difference], user: str, unit: str, text: str, *, folded: bool = False
) -> list[Section]:
    """All pairs of models; none where there is one model. `user` is what users are called there."""
    if not found:
        return []
    table = difference_table(
        name,
        found,
        {
            "models": lambda d: f"{d.first} minus {d.second}",
            "data": lambda d: d.dataset,
            user: lambda d: d.user,
            "measure": lambda d: Label(d.measure, protocol=d.protocol),
        },
        difference=Column("difference", unit, 1),
        p=Column("p", "Holm", 4),
    )
    return [Section("Significant differences (Holm-corrected)", text, [table], folded=folded)]

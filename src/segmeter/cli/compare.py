"""`segmeter compare`: which differences between models are established."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from segmeter.cli._options import AsJson, Cost, GoalChoice, Runs, Trust, settings
from segmeter.cli._words import printable
from segmeter.cli.app import Exit, app
from segmeter.core.benchmarks import Difference

__all__ = ["compare"]


@app.command()
def compare(
    runs: Runs,
    reading: Annotated[str, typer.Option("--reading", help="published, sound or both.")] = "sound",
    cost: Cost = None,
    goal: GoalChoice = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> int:
    """Say which differences between models are established, in one run or over several.

    Pairs are compared on the same targets, intervals come from resampling
    photographs, and p-values are corrected for the number of comparisons (Holm).

    Example: `segmeter compare runs/mine`
    """
    from segmeter.cli._options import readings
    from segmeter.core.errors import BadInput
    from segmeter.report.several import open_runs

    wanted = readings(reading)
    found = open_runs(runs, settings=settings(cost, goal), trust=trust).differences()
    if not found:
        named = ", ".join(f"'{path}'" for path in runs)
        raise BadInput(f"{named} has only one model; there is nothing to compare")
    found = [difference for difference in found if difference.reading in wanted]
    if as_json:
        from segmeter.cli._tables import rows_json

        print(rows_json([asdict(d) | {"established": d.established} for d in found]))
    else:
        _print(found)
    return Exit.DONE


def _print(found: Sequence[Difference]) -> None:
    """One table a data set, user and reading, the established differences first."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(markup=False)
    for place in dict.fromkeys((d.dataset, d.user, d.reading) for d in found):
        here = [d for d in found if (d.dataset, d.user, d.reading) == place]
        title = printable(", ".join(filter(None, (*place[:2], f"reading {place[2]}"))))
        table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("measure", no_wrap=True)
        table.add_column("first\nless second", overflow="fold", max_width=24)
        for name in ("difference\n95 % interval", "p\n(Holm)"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("verdict", no_wrap=True)
        for d in sorted(here, key=lambda d: not d.established):
            table.add_row(*(Text(printable(cell)) for cell in _row(d)))
        console.print(table)


def _row(d: Difference) -> tuple[str, ...]:
    from segmeter.core.catalogue import short

    return (
        d.measure,
        f"{short(d.first)}\n{short(d.second)}",
        f"{d.value:+.2f}\n{_span(d)}",
        f"{d.p_holm:.3f}",
        "established" if d.established else "not\nestablished",
    )


def _span(d: Difference) -> str:
    """The interval; none where one photograph, or no spread, gives none."""
    low, high = f"{d.low:+.2f}", f"{d.high:+.2f}"
    return "" if low == high or "nan" in low else f"{low} to {high}"

"""`segmeter compare`: which differences between models are established."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from segmeter.cli._options import AsJson, Cost, settings
from segmeter.cli.app import Exit, app
from segmeter.core.benchmarks import Difference

__all__ = ["compare"]


@app.command()
def compare(
    run: Annotated[Path, typer.Argument(help="A run folder with at least two models.")],
    reading: Annotated[str, typer.Option("--reading", help="published, sound or both.")] = "sound",
    cost: Cost = None,
    as_json: AsJson = False,
) -> int:
    """Say which differences between models are established and which are not.

    Pairs are compared on the same targets, intervals come from resampling scenes, and
    p-values are corrected for the number of comparisons (Holm).

    Example: `segmeter compare runs/mine`
    """
    from segmeter.cli._options import readings
    from segmeter.core import catalogue
    from segmeter.core.errors import BadInput
    from segmeter.store import Run

    wanted = readings(reading)
    results = Run.open(run, settings=settings(cost))
    found = catalogue.benchmarks.make(results.plan.benchmark).differences(results)
    if not found:
        raise BadInput(f"'{run}' has only one model; there is nothing to compare")
    found = [difference for difference in found if difference.reading in wanted]
    if as_json:
        from segmeter.cli._tables import rows_json

        print(rows_json([asdict(d) | {"established": d.established} for d in found]))
    else:
        _print(found)
    return Exit.DONE


def _print(found: Sequence[Difference]) -> None:
    """One line a difference, the established ones first."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for title, settled in (("Established", True), ("Not established", False)):
        table = Table(title=title, title_justify="left")
        for name in ("measure", "data", "reading", "difference", "95 % interval", "p (Holm)"):
            table.add_column(name, justify="left" if name in ("measure", "data") else "right")
        for d in found:
            if d.established is settled:
                table.add_row(
                    f"{d.measure}: {d.first} - {d.second}",
                    d.dataset,
                    d.reading,
                    f"{d.value:+.3f}",
                    f"{d.low:+.3f} to {d.high:+.3f}",
                    f"{d.p_holm:.3f}",
                )
        if table.row_count:
            console.print(table)

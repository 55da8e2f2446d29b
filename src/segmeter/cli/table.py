"""`segmeter table`: the table of a paper, from one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segmeter.cli._formats import Format
from segmeter.cli._option_values import settings
from segmeter.cli._options import Cost, GoalChoice, OneProtocol, Runs
from segmeter.cli._words import printable
from segmeter.cli.app import Exit, app

__all__ = ["table"]

Kind = Annotated[Format, typer.Option("--format", help="What to write.")]
To = Annotated[
    Path | None, typer.Option("--to", "--out", "-o", help="A file instead of the terminal.")
]


@app.command()
def table(
    runs: Runs,
    kind: Kind = Format.latex,
    protocol: OneProtocol = "corrected",
    cost: Cost = None,
    goal: GoalChoice = None,
    to: To = None,
) -> int:
    """Print the table of a paper: models by data sets, bold where significantly best.

    Example: `segmeter table runs/mine --format latex`
    """
    from segmeter.report.paper_tables import table_text
    from segmeter.store import Run

    read = Run.open(runs, settings=settings(cost, goal))
    text = printable(table_text(read, kind.language, protocol))
    if to is None:
        print(text, end="")
        return Exit.DONE
    from segmeter.store.local import write_file

    write_file(to, text.encode())
    typer.echo(f"table: {to}")
    return Exit.DONE

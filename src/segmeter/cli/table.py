"""`segmeter table`: the table of a paper, from one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import segmeter
from segmeter.cli._formats import Format
from segmeter.cli._options import Cost, GoalChoice, OneProtocol, Runs
from segmeter.cli._words import printable
from segmeter.cli.app import Exit, app

__all__ = ["table"]

Kind = Annotated[Format, typer.Option("--format", help="What to write.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="File to write instead of printing.")]


@app.command()
def table(
    runs: Runs,
    kind: Kind = Format.latex,
    protocol: OneProtocol = "corrected",
    cost: Cost = None,
    goal: GoalChoice = None,
    out: Out = None,
) -> int:
    """Print the table of a paper: models by data sets, bold where significantly best.

    Example: `segmeter table runs/mine --format latex`
    """
    opened = segmeter.open_run(runs, cost=cost, goal=goal)
    text = printable(opened.table(kind.language, protocol))
    if out is None:
        print(text, end="")
        return Exit.DONE
    from segmeter.store.local import write_file

    write_file(out, text.encode())
    typer.echo(f"table: {out}")
    return Exit.DONE

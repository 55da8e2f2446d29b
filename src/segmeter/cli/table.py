"""`segmeter table`: the table of a paper, from one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import segmeter
from segmeter.api import printable
from segmeter.cli._options import Cost, GoalChoice, OneProtocol, Runs
from segmeter.cli.app import Exit, app

__all__ = ["table"]

Kind = Annotated[str, typer.Option("--format", help="latex (tex), markdown (md), csv or html.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="File to write instead of printing.")]


@app.command()
def table(
    runs: Runs,
    kind: Kind = "latex",
    protocol: OneProtocol = "corrected",
    cost: Cost = None,
    goal: GoalChoice = None,
    out: Out = None,
) -> int:
    """Print the table of a paper: models by data sets, bold where significantly best.

    Example: `segmeter table runs/mine --format latex`
    """
    opened = segmeter.open_run(runs, cost=cost, goal=goal)
    text = printable(opened.table(kind, protocol))
    if out is None:
        print(text, end="")
        return Exit.DONE
    out.write_text(text, encoding="utf-8")
    typer.echo(f"table: {out}")
    return Exit.DONE

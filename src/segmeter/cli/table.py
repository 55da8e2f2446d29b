"""`segmeter table`: the table of a paper, from one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

import segmeter
from segmeter import api
from segmeter.api import printable
from segmeter.cli._options import Cost, GoalChoice, OneProtocol, Runs, out_option
from segmeter.cli.app import app


@app.command()
def table(
    runs: Runs,
    kind: Annotated[
        str,
        Option(
            "--format", help="latex (tex), markdown (md), csv, html, or challenge: its own CSV."
        ),
    ] = "latex",
    protocol: OneProtocol = "corrected",
    cost: Cost = None,
    goal: GoalChoice = None,
    columns: Annotated[str, Option(help="Statistics to show, such as noc@80,noc@85,noc@90.")] = "",
    model: Annotated[
        list[str] | None,
        Option("--model", "-m", help="Models to show, in this order; all by default."),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        Option("--dataset", "-d", help="Datasets to show, in this order; all by default."),
    ] = None,
    name: Annotated[
        list[str] | None,
        Option(help="Display name of a model or dataset, such as net.py:predict=Ours."),
    ] = None,
    out: Annotated[Path | None, out_option("File to write instead of printing.")] = None,
) -> None:
    """Print a table for a paper: models in rows, datasets in columns, significantly best values in
    bold.

    Example: `segmeter table runs/mine --format latex`,
    `segmeter table runs/mine --columns noc@80,noc@90 --name grabcut=GrabCut -d davis -d mini`
    """
    for text in name or ():
        if "=" not in text:
            raise segmeter.BadInput(f"--name is NAME=SHOWN, not '{text}'")
    opened = segmeter.open_run(runs, cost=cost, goal=goal)
    shown = [column.strip() for column in columns.split(",") if column.strip()]
    names = dict(text.rsplit("=", 1) for text in name or ())
    made = opened.table(
        kind, protocol, columns=shown, models=model or (), datasets=dataset or (), names=names
    )
    if out is None:
        print(printable(made), end="")
        return
    api.write_file(out, printable(made).encode())
    typer.echo(f"table: {out}")

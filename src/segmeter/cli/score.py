"""`segmeter score`: add a measure to a finished run, without its model."""

from __future__ import annotations

from typing import Annotated

import typer

import segmeter
from segmeter.api import counted
from segmeter.cli._options import AsJson, Data, RunAddress, Trust, names_of
from segmeter.cli._printing import print_json
from segmeter.cli.app import Exit, app

__all__ = ["score"]

MeasureNames = Annotated[
    list[str],
    typer.Option("--measure", autocompletion=names_of("measures"), help="Measure to add."),
]


@app.command()
def score(
    run: RunAddress,
    measure: MeasureNames,
    data: Data = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> int:
    """Add a measure to a finished run, computed from its stored masks.

    Example: `segmeter score runs/mine --measure dice`
    """
    opened = segmeter.open_run(run, data=data, trust=trust)
    scored = {}
    for name in measure:
        scored[name] = jobs = opened.score(name)
        if not as_json and jobs:
            typer.echo(f"{name}: {counted(jobs, 'job')} scored in {run}, a model on a scene each")
        elif not as_json:
            typer.echo(f"{name}: {run} has it already")
    if as_json:
        print_json({"scored": scored})
    return Exit.DONE

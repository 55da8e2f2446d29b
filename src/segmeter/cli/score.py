"""`segmeter score`: add a measure to a finished run, without its model."""

from __future__ import annotations

import json
from typing import Annotated

import typer

import segmeter
from segmeter.cli._options import AsJson, Data, RunAddress, Trust
from segmeter.cli.app import Exit, app
from segmeter.core.wording import counted

__all__ = ["score"]

MeasureNames = Annotated[
    list[str], typer.Option("--measure", help="Measure to add; see 'segmeter list measures'.")
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
        scored[name] = opened.score(name)
        if not as_json:
            typer.echo(_said(name, scored[name], run))
    if as_json:
        print(json.dumps({"scored": scored}, indent=1))
    return Exit.DONE


def _said(measure: str, jobs: int, run: str) -> str:
    if not jobs:
        return f"{measure}: {run} has it already"
    return f"{measure}: {counted(jobs, 'job')} scored in {run}, a model on a scene each"

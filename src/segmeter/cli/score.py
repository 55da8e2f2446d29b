"""`segmeter score`: add a measure to a finished run, without its model."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from segmeter.cli._option_values import remembered
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
    """Add a measure from the masks a run has kept.

    Example: `segmeter score runs/mine --measure dice`
    """
    from segmeter.engine.scoring import score_run
    from segmeter.store import Run

    places = remembered(Run.open(run), data)
    scored = {}
    for name in measure:
        scored[name] = score_run(run, name, places, trust=trust)
        if not as_json:
            typer.echo(_said(name, scored[name], run))
    if as_json:
        print(json.dumps({"scored": scored}, indent=1))
    return Exit.DONE


def _said(measure: str, jobs: int, run: str) -> str:
    if not jobs:
        return f"{measure}: {run} has it already"
    return f"{measure}: {counted(jobs, 'job')} scored in {run}, a model on a scene each"

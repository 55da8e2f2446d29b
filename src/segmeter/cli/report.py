"""`segmeter report`: one page, a table or JSON of a run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import segmeter
from segmeter.api import printable
from segmeter.cli._options import (
    AsJson,
    By,
    Cost,
    Data,
    GoalChoice,
    GroupsFile,
    RunAddress,
    Trust,
)
from segmeter.cli._printing import rows_json, say, say_answer
from segmeter.cli.app import Exit, app

__all__ = ["report"]

Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Where to write; inside RUN by default.")
]
Kind = Annotated[
    str, typer.Option("--format", help="html, or all its tables as csv, markdown or latex.")
]
Objects = Annotated[
    int | None,
    typer.Option("--objects", min=1, help="Add what annotating so many objects would cost."),
]
Rate = Annotated[
    float | None, typer.Option("--rate", min=0, help="Money per hour (with --objects).")
]


@app.command()
def report(
    run: RunAddress,
    out: Out = None,
    kind: Kind = "html",
    data: Data = None,
    cost: Cost = None,
    goal: GoalChoice = None,
    by: By = None,
    groups: GroupsFile = None,
    objects: Objects = None,
    rate: Rate = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> int:
    """Write the report of a run: one HTML page, or its tables as text.

    Example: `segmeter report runs/mine`
    """
    if as_json:
        _refuse_page_options(kind, out=out, by=by, groups=groups, objects=objects)
    opened = segmeter.open_run(run, data=data, cost=cost, goal=goal, trust=trust)
    if as_json:
        rows_json([asdict(row) for row in opened.summary()])
        return Exit.DONE
    more: dict[str, Any] = {"by": by, "groups": groups, "objects": objects, "rate": rate}
    if kind != "html":
        for file in opened.report_tables(out, kind, **more):
            typer.echo(f"report: {printable(file)}")
        return Exit.DONE
    page = opened.report(out, **more)
    say_answer(opened.conclusion())
    typer.echo(f"report: {printable(page)}")
    for name, why in opened.missing_images().items():
        remedy = "" if "--data" in why else "; give their folder with --data"
        say(f"images of {name} are not on the page: {why}{remedy}")
    return Exit.DONE


def _refuse_page_options(kind: str, **given: object) -> None:
    """Refuse options about the page: `--json` writes none."""
    named = [f"--{name}" for name, value in given.items() if value is not None]
    named += ["--format"] if kind != "html" else []
    if named:
        raise segmeter.BadInput(f"--json prints the summary alone; leave out {' and '.join(named)}")

"""`segmeter report`: one page, a table or JSON of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import segmeter
from segmeter.cli._formats import Format
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
from segmeter.cli._tables import summary_json
from segmeter.cli._words import printable, say_answer
from segmeter.cli.app import Exit, app
from segmeter.core.errors import BadInput, SegmeterError

if TYPE_CHECKING:
    from segmeter.api.runs import Run

__all__ = ["report"]

Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Where to write; inside RUN by default.")
]
Kind = Annotated[Format, typer.Option("--format", help="A page, or all its tables as text.")]
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
    kind: Kind = Format.html,
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
    _check(out, kind, objects, rate)
    opened = segmeter.open_run(run, data=data, cost=cost, goal=goal, trust=trust)
    if as_json:
        print(summary_json(opened.summary()))
        return Exit.DONE
    more: dict[str, Any] = {"by": by, "groups": groups, "objects": objects, "rate": rate}
    if kind is not Format.html:
        for file in opened.report_tables(out, kind.text_ending, **more):
            typer.echo(f"report: {printable(file)}")
        return Exit.DONE
    page = opened.report(out, **more)
    say_answer(opened.conclusion())
    typer.echo(f"report: {printable(page)}")
    _say_missing_images(opened)
    return Exit.DONE


def _refuse_page_options(kind: Format, **given: object) -> None:
    """Refuse options about the page: `--json` writes none."""
    named = [f"--{name}" for name, value in given.items() if value is not None]
    named += ["--format"] if kind is not Format.html else []
    if named:
        raise BadInput(f"--json prints the summary alone; leave out {' and '.join(named)}")


def _check(out: Path | None, kind: Format, objects: int | None, rate: float | None) -> None:
    """Refuse options that would be ignored."""
    if rate is not None and objects is None:
        raise BadInput("--rate is what an hour costs of --objects; say how many objects")
    if kind is Format.html and out is not None and out.is_dir():
        raise BadInput(f"--out '{out}' is a folder; name the page, such as '{out / 'report.html'}'")


def _say_missing_images(run: Run) -> None:
    """Print on stderr of which data sets the page has no images, and why."""
    from segmeter.core.dataset_names import display_names

    for name, shown in display_names(run.plan.datasets).items():
        try:
            run.scenes(name)
        except SegmeterError as error:
            remedy = "" if "--data" in str(error) else "; give their folder with --data"
            told = f"images of {shown} are not on the page: {error}{remedy}"
            typer.echo(printable(told), err=True)

"""`segmeter report`: one page, a table or JSON of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segmeter.cli._formats import Format
from segmeter.cli._option_values import remembered, settings
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
from segmeter.cli._words import printable, say_answer
from segmeter.cli.app import Exit, app
from segmeter.core.errors import BadInput, SegmeterError

if TYPE_CHECKING:
    from segmeter.core.sections import Section
    from segmeter.store import Run

__all__ = ["report"]

To = Annotated[
    Path | None, typer.Option("--to", "--out", "-o", help="Where to write; inside RUN by default.")
]
Kind = Annotated[Format, typer.Option("--format", help="A page, or all its tables as text.")]
Objects = Annotated[
    int | None,
    typer.Option("--objects", min=1, help="Say what annotating so many objects would cost."),
]
Rate = Annotated[
    float | None, typer.Option("--rate", min=0, help="Money per hour (with --objects).")
]


@app.command()
def report(
    run: RunAddress,
    to: To = None,
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
    """Write a run's report: one page that needs nothing else.

    Example: `segmeter report runs/mine`
    """
    from segmeter.report.writing import answer_of, sections_of, write_sections
    from segmeter.store import Run

    if as_json:
        _refuse_page_options(kind, to=to, by=by, groups=groups, objects=objects)
    _check(to, kind, objects, rate)
    results = Run.open(run, None, settings(cost, goal), trust=trust)
    results.roots = remembered(results, data)
    if as_json:
        from segmeter.cli._tables import summary_json

        print(summary_json(results.summary()))
        return Exit.DONE
    more = [*_project(results, objects, rate), *_breakdown(results, by, groups)]
    sections = sections_of(results, more)
    if kind is Format.html:
        say_answer(answer_of(sections))
    for written in write_sections(results, sections, to, kind.ending):
        typer.echo(f"report: {printable(written)}")
    if kind is Format.html:
        _say_missing_images(results)
    return Exit.DONE


def _refuse_page_options(kind: Format, **given: object) -> None:
    """With `--json` nothing is written, so what is about the page would be ignored."""
    named = [f"--{name}" for name, value in given.items() if value is not None]
    named += ["--format"] if kind is not Format.html else []
    if named:
        raise BadInput(f"--json prints the summary alone; leave out {' and '.join(named)}")


def _check(to: Path | None, kind: Format, objects: int | None, rate: float | None) -> None:
    """Refuse options that would be ignored."""
    if rate is not None and objects is None:
        raise BadInput("--rate is what an hour costs of --objects; say how many objects")
    if kind is Format.html and to is not None and to.is_dir():
        raise BadInput(f"--to '{to}' is a folder; name the page, such as '{to / 'report.html'}'")


def _project(run: Run, objects: int | None, rate: float | None) -> list[Section]:
    """What a project of so many objects would cost, where that was asked."""
    if objects is None:
        return []
    section = run.benchmark.cost_section(run, objects, rate)
    if section is None:
        raise BadInput(f"--objects: benchmark '{run.plan.benchmark}' does not measure time")
    return [section]


def _breakdown(run: Run, by: str | None, groups: Path | None) -> list[Section]:
    """The run split by a group, where that was asked; a file of groups alone asks for them."""
    if by is None and groups is None:
        return []
    from segmeter.benchmarks.by_group.breakdown import breakdown

    return [breakdown(run.benchmark, run, by or "group", groups)]


def _say_missing_images(run: Run) -> None:
    """On stderr: of which data sets the page has no images, and why."""
    from segmeter.core.dataset_names import display_names

    for name, shown in display_names(run.plan.datasets).items():
        try:
            run.scenes(name)
        except SegmeterError as error:
            remedy = "" if "--data" in str(error) else "; --data says where they lie"
            told = f"images of {shown} are not on the page: {error}{remedy}"
            typer.echo(printable(told), err=True)

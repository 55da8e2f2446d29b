"""`segmeter report`: one page, a table or JSON of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from segmeter import __version__
from segmeter.cli._options import AsJson, Cost, Data, roots, settings
from segmeter.cli.app import Exit, app

if TYPE_CHECKING:
    from segmeter.core.plans import Plan
    from segmeter.core.sections import Section
    from segmeter.report.exports import Format
    from segmeter.report.page import Page
    from segmeter.store import Run

__all__ = ["report", "write_report"]


class Kind(StrEnum):
    """What a report is written as."""

    html = "html"
    csv = "csv"
    md = "md"
    tex = "tex"


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    to: Annotated[
        Path | None, typer.Option("--to", help="Where to write; inside RUN by default.")
    ] = None,
    kind: Annotated[
        Kind, typer.Option("--format", help="A page, or all its tables as text.")
    ] = Kind.html,
    data: Data = None,
    cost: Cost = None,
    by: Annotated[
        str | None,
        typer.Option("--by", help="Split by class, size or another group; see --groups."),
    ] = None,
    groups: Annotated[
        Path | None, typer.Option("--groups", help="Groups of your own: CSV of mask,group.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Write a run's report: one page that needs nothing else.

    Example: `segmeter report runs/mine`
    """
    if groups is not None and by is None:
        by = "group"
    if as_json:
        from segmeter.cli._tables import summary_json
        from segmeter.store import Run

        print(summary_json(Run.open(run, settings=settings(cost)).summary()))
        return Exit.DONE
    written = write_report(run, to, kind, data, cost, by, groups)
    for path in written:
        typer.echo(f"report: {path}")
    return Exit.DONE


def write_report(
    run: Path,
    to: Path | None = None,
    kind: Kind = Kind.html,
    data: Path | None = None,
    cost: Path | None = None,
    by: str | None = None,
    groups: Path | None = None,
) -> list[Path]:
    """Write what the run's benchmark has to say; the files written.

    A page goes to `RUN/report.html`, tables go to `RUN/tables/`, unless `to` says otherwise.
    `by` adds a section split by class, size, or a column of the file `groups`.
    """
    from segmeter.core import catalogue
    from segmeter.report.exports import export
    from segmeter.report.naming import renamed
    from segmeter.report.page import render
    from segmeter.report.trail import missing, trail
    from segmeter.store import Run
    from segmeter.store.parts import write_text

    results = Run.open(run, roots(data, None), settings(cost))
    own = [*catalogue.benchmarks.make(results.plan.benchmark).sections(results)]
    if by is not None:
        from segmeter.benchmarks.breakdown import breakdown

        own.append(breakdown(results, by, groups))
    told = renamed([*own, missing(results)], results.plan.datasets)
    sections = [*told, trail(results)]
    if kind is not Kind.html:
        return export(sections, to or run / "tables", [cast("Format", kind.value)])
    page = to or run / "report.html"
    write_text(page, render(_page(results, sections)))
    return [page]


def _page(results: Run, sections: Sequence[Section]) -> Page:
    """Title and facts of a run's page."""
    from segmeter.core import catalogue
    from segmeter.report.naming import display_names
    from segmeter.report.page import Page

    plan = results.plan
    names = display_names(plan.datasets)
    entry = catalogue.benchmarks.entry(plan.benchmark)
    commands = results.provenance["commands"]
    return Page(
        title=f"{_listed(map(str, plan.subjects))} on {_listed(names.values())}",
        subtitle=entry.summary,
        facts=[
            f"{_rounds(plan)} with {_users(plan)}" if plan.users else "",
            f"run {commands[-1]['at'][:10]}" if commands else "",
            f"segmeter {__version__}",
        ],
        sections=sections,
    )


def _rounds(plan: Plan) -> str:
    return "1 round" if plan.rounds == 1 else f"{plan.rounds} rounds"


def _users(plan: Plan) -> str:
    """Who played; of a crowd only the first and how many more."""
    first, *others = map(str, plan.users)
    return _listed([first, *others]) if len(others) < 4 else f"{first} and {len(others)} others"


def _listed(names: Iterable[str]) -> str:
    """`a, b and c`."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last

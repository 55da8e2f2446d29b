"""`segmeter report`: one page, a table or JSON of a run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

import segmeter
from segmeter.api import printable
from segmeter.cli._options import AsJson, By, Cost, Data, GoalChoice, GroupsFile, RunAddress, Trust
from segmeter.cli._printing import print_json, print_rows, say, say_answer
from segmeter.cli.app import Exit, app

_FORMATS = ("html", "csv", "md", "markdown", "tex", "latex")

Out = Annotated[Path | None, Option("--out", "-o", help="Where to write; inside RUN by default.")]
Kind = Annotated[str, Option("--format", help="html, or all its tables as csv, markdown or latex.")]
Objects = Annotated[
    int | None, Option("--objects", min=1, help="Add what annotating so many objects would cost.")
]
Sheet = Annotated[
    bool, Option("--sheet", help="Write the costs alone, a page that prints on one sheet.")
]
Rate = Annotated[float | None, Option("--rate", min=0, help="Money per hour (with --objects).")]


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
    sheet: Sheet = False,
    trust: Trust = False,
    as_json: AsJson = False,
) -> int:
    """Write the report of a run: one HTML page, or its tables as text.

    With `--objects`, the hours and the money of so many objects are printed and added to the page;
    `--sheet` writes them alone, as a page that prints on one sheet. With `--by` as well, each group
    has its clicks, hours and money.

    Example: `segmeter report runs/mine`,
    `segmeter report runs/mine --objects 20000 --rate 15 --sheet`,
    `segmeter report runs/mine --objects 20000 --rate 15 --by size`
    """
    if kind not in _FORMATS:
        names = ", ".join(f"'{name}'" for name in _FORMATS)
        raise segmeter.BadInput(f"--format '{kind}' is not one of {names}")
    if as_json:
        split = {} if objects is not None else {"by": by, "groups": groups}
        _refuse_page_options(kind, out=out, **split)
    if sheet and objects is None:
        raise segmeter.BadInput("--sheet is about --objects; say how many objects")
    opened = segmeter.open_run(run, data=data, cost=cost, goal=goal, trust=trust)
    costs = [] if objects is None else opened.cost(objects, rate, by=by, groups=groups)
    if as_json:
        rows = [asdict(row) for row in opened.summary()]
        print_json({"rows": rows} | ({"cost": costs} if costs else {}))
        return Exit.DONE
    _print_costs(costs)
    if sheet:
        typer.echo(f"sheet: {printable(opened.cost_sheet(out, objects or 1, rate))}")
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


def _print_costs(costs: list[dict[str, Any]]) -> None:
    """Hours and money of each way, one table per data set."""
    for title in dict.fromkeys(row["table"] for row in costs):
        here = [row for row in costs if row["table"] == title]
        same = [k for k in ("data set", "user") if len({row.get(k) for row in here}) == 1]
        print(printable("; ".join([title, *(str(here[0][k]) for k in same if k in here[0])])))
        heads = [name for name in here[0] if name not in ("table", *same)]
        rows = [[_amount(row[name]) for name in heads] for row in here]
        print_rows([name.replace("_", "\n") for name in heads], rows)


def _amount(cell: Any) -> str:
    """A number over its interval; text as it is."""
    if not isinstance(cell, dict):
        return cell or ""
    value, low, high = (cell[name] for name in ("value", "low", "high"))
    if value is None:
        return ""
    known = low is not None and high is not None and low == low
    ends = (f"{low:,.1f}", f"{high:,.1f}") if known else ("", "")
    return f"{value:,.1f}" + (f"\n{ends[0]} to {ends[1]}" if ends[0] != ends[1] else "")


def _refuse_page_options(kind: str, **given: object) -> None:
    """Refuse options about the page: `--json` writes none."""
    named = [f"--{name}" for name, value in given.items() if value is not None]
    named += ["--format"] if kind != "html" else []
    if named:
        raise segmeter.BadInput(f"--json prints the summary alone; leave out {' and '.join(named)}")

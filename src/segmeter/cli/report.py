"""`segmeter report`: one page, a table or JSON of a run."""

from __future__ import annotations

import re
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

import segmeter
from segmeter.api import display_names, grouped, printable, short, with_titles
from segmeter.cli import _options as options
from segmeter.cli._printing import interval_text, print_json, print_rows, say, say_answer
from segmeter.cli.app import app

_FORMATS = ("html", "csv", "md", "markdown", "tex", "latex")


def _count(text: str) -> int:
    """A number of objects; thousands may be set apart: 20000, 20 000, 20,000."""
    plain = re.sub(r"(?<=\d)[ ,_'\u00a0\u202f](?=\d{3}(\D|$))", "", text.strip())
    if not plain.isdecimal() or int(plain) < 1:
        raise segmeter.BadInput(f"--objects is a number such as 20000 or '20 000', not '{text}'")
    return int(plain)


def _money(text: str) -> float:
    """Pay per hour, without a currency."""
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < float("inf"):
        raise segmeter.BadInput(
            f"--hourly-rate is a number such as 15 or 12.50, in any currency, not '{text}'"
        )
    return rate


Objects = Annotated[
    int | None,
    Option(parser=_count, metavar="N", help="Estimate the cost of annotating this many objects."),
]
Rate = Annotated[float | None, Option(parser=_money, metavar="R", help="Annotators' pay per hour.")]


@app.command()
def report(
    run: options.RunAddress,
    out: Annotated[
        Path | None, options.out_option("Output file or folder; inside RUN by default.")
    ] = None,
    kind: Annotated[
        str, Option("--format", help="html, or all its tables as csv, markdown or latex.")
    ] = "html",
    data: options.Data = None,
    cost: options.Cost = None,
    goal: options.GoalChoice = None,
    by: options.By = None,
    groups: options.GroupsFile = None,
    objects: Objects = None,
    hourly_rate: Rate = None,
    sheet: Annotated[
        bool, Option("--sheet", help="Write only the cost estimate, on one printable page.")
    ] = False,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    """Write the report of a run: one HTML page, or its tables as text.

    `--objects N` adds an estimate of the hours and money needed to annotate N objects; `--sheet`
    writes only this estimate, on one printable page. Add `--by` to break the estimate down by
    group.

    Example: `segmeter report runs/mine`,
    `segmeter report runs/mine --objects 20000 --hourly-rate 15 --sheet`,
    `segmeter report runs/mine --objects 20000 --hourly-rate 15 --by size`
    """
    if kind not in _FORMATS:
        raise segmeter.BadInput(f"--format '{kind}' is not one of {', '.join(map(repr, _FORMATS))}")
    if as_json:
        split = {} if objects is not None else {"by": by, "groups": groups}
        _refuse_page_options(kind, out=out, **split)
    if objects is None and (sheet or hourly_rate is not None):
        flag = "--sheet" if sheet else "--hourly-rate"
        raise segmeter.BadInput(f"{flag} needs --objects, the number of objects")
    opened = segmeter.open_run(run, data=data, cost=cost, goal=goal, trust=trust)
    chosen: dict[str, Any] = {"by": by, "groups": groups, "objects": objects,
                              "hourly_rate": hourly_rate}  # fmt: skip
    costs = [] if objects is None else opened.cost(**chosen)
    if as_json:
        rows = [asdict(row) for row in opened.summary()]
        more = {"cost": costs, "unfinished": opened.unfinished()}
        print_json({"rows": rows} | {name: value for name, value in more.items() if value})
        return
    printed = opened.conclusion(objects, hourly_rate) if costs else ""
    say_answer(printed)
    models = {name: short(name) for name in map(str, opened.plan.segmenters)}
    _print_costs(costs, {**models, **display_names(opened.plan.datasets)})
    if sheet:
        typer.echo(f"sheet: {printable(opened.cost_sheet(out, **chosen))}")
    elif kind == "html":
        _write_page(opened, out, chosen, printed)
    else:
        for file in opened.report_tables(out, kind, **chosen):
            typer.echo(f"report: {printable(file)}")


def _write_page(
    opened: segmeter.Run, out: Path | None, chosen: dict[str, Any], printed: str
) -> None:
    """Write the page; print its conclusion, unless already printed, and missing images."""
    before = _costs_on(out or Path(opened.address) / "report.html")
    page = opened.report(out, **chosen)
    say_answer("\n".join(s for s in opened.conclusion().splitlines() if s not in printed))
    typer.echo(f"report: {printable(page)}")
    if before and chosen["objects"] is None:
        say(f"the page had the costs of {before} objects, this one has none; --objects adds them")
    for name, why in opened.missing_images().items():
        remedy = "" if "--data" in why else "; give their folder with --data"
        say(f"images of {name} are not on the page: {why}{remedy}")


def _costs_on(page: Path) -> str:
    """The number of objects whose costs a page states; empty without any."""
    try:
        found = re.search(r">What ([\d ]+) objects cost<", page.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):  # no page yet, or one on a server
        return ""
    return found[1] if found else ""


def _print_costs(costs: list[dict[str, Any]], names: dict[str, str]) -> None:
    """Hours and money of each way, one table per dataset; models and folders by short names."""
    for title, here in grouped(costs, itemgetter("table")).items():
        same = [k for k in ("dataset", "user") if len({row.get(k) for row in here}) == 1]
        title = "; ".join([title, *(str(here[0][k]) for k in same if k in here[0])])
        print(printable(with_titles(title, names)))
        heads = [name for name in here[0] if name not in ("table", "conclusion", *same)]
        rows = [[with_titles(_amount(row[name], name), names) for name in heads] for row in here]
        words, number = {"overflow": "fold", "min_width": 8}, {"justify": "right", "no_wrap": True}
        columns = [number if isinstance(here[0][name], dict) else words for name in heads]
        print_rows([name.replace("_", "\n") for name in heads], rows, columns=columns)
        for sentence, ways in grouped(here, lambda row: row.get("conclusion", "baseline")).items():
            if sentence != "baseline":
                named = ", ".join(with_titles(way["way"], names) for way in ways)
                say_answer(f"{named}: {sentence}")


def _amount(cell: Any, name: str) -> str:
    """A number over its interval, with the decimals of the page; text as it is."""
    if not isinstance(cell, dict):
        return cell or ""
    value, low, high = (cell[key] for key in ("value", "low", "high"))
    if value is None:
        return ""
    digits = {"money": 0, "saved_percent": 0, "clicks": 2}.get(name, 1)
    known = low is not None and high is not None and low == low
    return f"{value:z.{digits}f}" + (f"\n{interval_text(low, high, digits)}" if known else "")


def _refuse_page_options(kind: str, **given: object) -> None:
    """Refuse options about the page: `--json` writes none."""
    named = [f"--{name}" for name, value in given.items() if value is not None]
    named += ["--format"] if kind != "html" else []
    if named:
        raise segmeter.BadInput(f"--json prints the summary alone; leave out {' and '.join(named)}")

"""`segmeter runs`: which runs there are, how far they are, and what they say."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from segmeter.cli._estimates import size_text
from segmeter.cli._options import AsJson
from segmeter.cli._words import printable
from segmeter.cli.app import Exit, app

if TYPE_CHECKING:
    from segmeter.store.listing import RunFacts

__all__ = ["runs"]


@app.command()
def runs(
    folder: Annotated[str, typer.Argument(help="Folder or address that runs lie under.")] = "runs",
    number: Annotated[
        str | None,
        typer.Option("--number", help="Compare a number of their summaries, such as noc@90."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List the runs under a folder: what was played, how far they are, how large.

    With --number, that number of every model in every run, side by side; whether a
    difference is significant is said by 'segmeter compare'.

    Example: `segmeter runs runs --number noc@90`
    """
    from segmeter.core.errors import NotFound
    from segmeter.store.listing import list_runs

    found = list_runs(folder)
    numbers = [] if number is None else _numbers(found, number)
    if number is not None and not numbers:
        raise NotFound(
            f"no run under '{folder}' has a number '{number}'; 'segmeter report RUN --json' shows "
            "those of a run"
        )
    if as_json:
        told = {"runs": [asdict(facts) for facts in found]}
        print(json.dumps(told | ({"numbers": numbers} if number else {}), indent=1))
    elif number is not None:
        _print_numbers(numbers, number)
    else:
        _print_runs(found)
    return Exit.DONE


def _numbers(found: Sequence[RunFacts], measure: str) -> list[dict[str, Any]]:
    """A number of each summary, computed where it is not kept; runs without rows are passed by."""
    from segmeter.core.errors import SegmeterError
    from segmeter.store import Run

    numbers = []
    for facts in found:
        if facts.problem or not facts.done:
            continue
        try:
            rows = Run.open(facts.run).summary()
        except SegmeterError as error:
            typer.echo(printable(f"{facts.run}: {error}"), err=True)
            continue
        told = (asdict(r) for r in rows if r.measure == measure)
        numbers += [{"run": facts.run} | {k: _known(v) for k, v in r.items()} for r in told]
    return numbers


def _known(value: Any) -> Any:
    """A limit of one image's interval is not known."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_runs(found: Sequence[RunFacts]) -> None:
    from segmeter.core.catalogue import short

    lines = []
    for facts in found:
        if facts.problem:
            lines.append((facts.run, "cannot be read", facts.problem, "", "", ""))
            continue
        jobs = f"{facts.done}/{'?' if facts.jobs is None else facts.jobs}"
        failed = f"\n{facts.errors} failed" if facts.errors else ""
        models = "\n".join(map(short, facts.models))
        data = "\n".join(map(short, facts.datasets))
        day = facts.last[:16].replace("T", "\n")
        size, name = size_text(facts.bytes), f"{facts.run}\n{facts.benchmark}"
        lines.append((name, models, data, jobs + failed, day, size))
    _print(("run\nbenchmark", "models", "data sets", "jobs", "last (UTC)", "size"), lines)


def _print_numbers(numbers: Sequence[dict[str, Any]], measure: str) -> None:
    from segmeter.core.catalogue import short

    lines = [
        (
            n["run"],
            f"{short(n['model'])}\n{n['protocol']}",
            "\n".join(filter(None, (short(n["dataset"]), n["user"]))),
            _number(n),
            str(n["targets"]),
        )
        for n in numbers
    ]
    _print(("run", "model\nreading", "data set\nuser", f"{measure}\n95 %", "targets"), lines)


def _number(row: dict[str, Any]) -> str:
    """A value over its interval, where there is one."""
    value, low, high = (row[name] for name in ("value", "low", "high"))
    span = "" if low is None or high is None or low == high else f"\n{low:.2f} to {high:.2f}"
    return ("" if value is None else f"{value:.2f}") + span


def _print(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    for line in lines:
        table.add_row(*(Text("\n".join(map(printable, cell.split("\n")))) for cell in line))
    Console(markup=False).print(table)

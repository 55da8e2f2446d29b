"""`segmeter runs`: which runs there are, how far they are, and what they found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from typer import Argument, Option

import segmeter
from segmeter.api import short, size_text
from segmeter.api.run_folders import run_numbers
from segmeter.cli._options import AsJson
from segmeter.cli._printing import print_json, print_rows, say, say_answer
from segmeter.cli.app import app


@app.command()
def runs(
    folder: Annotated[str, Argument(help="Folder or URL that contains runs.")] = "runs",
    statistic: Annotated[
        str | None, Option("--statistic", help="Add this statistic of every model, such as noc@90.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the runs under a folder: models, datasets, progress, size.

    `--statistic noc@90` adds the value of that statistic for every model; `segmeter compare`
    reports which differences are significant.

    Example: `segmeter runs runs --statistic noc@90`
    """
    found = segmeter.list_runs(folder)
    numbers = [] if statistic is None else run_numbers(folder, statistic, say)
    if as_json:
        facts: dict[str, Any] = {"runs": [asdict(one) for one in found]}
        print_json(facts | ({"numbers": numbers} if statistic else {}))
    elif statistic is not None:
        _print_numbers(numbers, statistic)
    else:
        _print_runs(found)


def _print_runs(found: Sequence[Any]) -> None:
    lines = []
    for facts in found:
        if facts.problem:
            lines.append((facts.run, "cannot be read", "", "", "", ""))
            continue
        jobs = f"{facts.done}/{'?' if facts.jobs is None else facts.jobs}"
        failed = f"\n{facts.errors} failed" if facts.errors else ""
        models = "\n".join(map(short, facts.models))
        data = "\n".join(map(_short_data, facts.datasets))
        day = facts.last[:16].replace("T", "\n")
        size, name = size_text(facts.bytes), f"{facts.run}\n{facts.benchmark}"
        lines.append((name, models, data, jobs + failed, day, size))
    print_rows(("run\nbenchmark", "models", "datasets", "jobs", "last (UTC)", "size"), lines)
    for facts in found:
        say_answer(facts.problem)


def _print_numbers(numbers: Sequence[dict[str, Any]], measure: str) -> None:
    lines = []
    for n in numbers:
        model = f"{short(n['model'])}\n{n['protocol']}"
        data = "\n".join(filter(None, (_short_data(n["dataset"]), n["user"])))
        value = "" if n["value"] is None else f"{n['value']:.2f}"
        if n["low"] != n["high"] and None not in (n["low"], n["high"]):
            value += f"\n{n['low']:.2f}–{n['high']:.2f}"
        lines.append((n["run"], model, data, value, str(n["targets"])))
    print_rows(("run", "model\nprotocol", "dataset\nuser", f"{measure}\n95 %", "targets"), lines)


def _short_data(name: str) -> str:
    """A short name of a dataset: a folder by its path."""
    return short(name.removeprefix("folder?path="))

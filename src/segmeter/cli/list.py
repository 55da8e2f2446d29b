"""`segmeter list`: everything that has a name."""

from __future__ import annotations

from typing import Annotated, Any

from rich.console import Console
from rich.table import Table
from typer import Argument, Option

import segmeter
from segmeter.api.listing import KINDS, summaries
from segmeter.cli._options import AsJson, Data, Weights
from segmeter.cli._printing import print_json
from segmeter.cli.app import app


@app.command("list")
def list_names(
    kind: Annotated[
        str | None,
        Argument(help="models, methods, detectors, datasets, users, measures or benchmarks."),
    ] = None,
    name: Annotated[
        str | None, Argument(help="Print details of this one: options, licence, citation.")
    ] = None,
    data: Data = None,
    weights: Weights = None,
    everything: Annotated[
        bool, Option("--all", help="Also list synthetic models, which are for tests.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List models, methods, detectors, datasets, users, measures and benchmarks.

    Examples: `segmeter list models`, `segmeter list datasets mini`
    """
    if kind is not None and name is not None:
        _print(segmeter.describe(kind, name, data=data, weights=weights), as_json)
        return
    found = {one: summaries(one, synthetic=everything) for one in ([kind] if kind else KINDS)}
    if as_json:
        print_json({k: [{"name": n, "summary": s} for n, s in v.items()] for k, v in found.items()})
        return
    console = Console(markup=False)
    for title, names in found.items():
        table = Table(
            title=title, title_justify="left", show_header=False, box=None, pad_edge=False
        )
        for one, summary in names.items():
            table.add_row(one, summary)
        console.print(table, "")


def _print(facts: dict[str, Any], as_json: bool) -> None:
    """One thing's facts, a line each."""
    if as_json:
        print_json(facts)
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for key, value in facts.items():
        table.add_row(key.replace("_", " "), _words(value))
    Console(markup=False).print(table)


def _words(value: Any) -> str:
    """A fact in words: options with their defaults, a range, a list.

    >>> _words((0.0, 1.0)), _words(["box", "click"])
    ('0.0 to 1.0', 'box, click')
    """
    if isinstance(value, dict):
        return ", ".join(_option(name, option) for name, option in value.items()) or "none"
    if isinstance(value, list | tuple):
        numbers = all(isinstance(one, int | float) for one in value)
        return (" to " if numbers and len(value) == 2 else ", ").join(map(str, value))
    return str(value)


def _option(name: str, option: dict[str, Any]) -> str:
    """`name=default`, or the name alone where the default is to leave it out."""
    if "default" not in option:
        return f"{name} (required)"
    return name if option["default"] is None else f"{name}={option['default']}"

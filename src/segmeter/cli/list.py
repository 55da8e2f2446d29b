"""`segmeter list`: everything that has a name."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from segmeter.cli._options import AsJson
from segmeter.cli.app import Exit, app
from segmeter.core import catalogue
from segmeter.core.catalogue import Shelf
from segmeter.core.errors import NotFound, suggestion

__all__ = ["list_names"]

_SHELVES: dict[str, Shelf[object]] = {
    "models": catalogue.models,
    "methods": catalogue.methods,
    "datasets": catalogue.datasets,
    "users": catalogue.users,
    "measures": catalogue.measures,
    "benchmarks": catalogue.benchmarks,
}


@app.command("list")
def list_names(
    kind: Annotated[
        str | None,
        typer.Argument(help="models, methods, datasets, users, measures or benchmarks."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List models, methods, data sets, users, measures and benchmarks.

    Example: `segmeter list models`
    """
    if kind is not None and kind not in _SHELVES:
        hint = suggestion(kind, _SHELVES)
        raise NotFound(f"nothing is called '{kind}' here;{hint} choose {', '.join(_SHELVES)}")
    chosen = [kind] if kind else list(_SHELVES)
    if as_json:
        names = {k: [{"name": e.name, "summary": e.summary} for e in _SHELVES[k]] for k in chosen}
        print(json.dumps(names, indent=1))
        return Exit.DONE
    console = Console()
    for name in chosen:
        table = Table(title=name, title_justify="left", show_header=False, box=None, pad_edge=False)
        for entry in _SHELVES[name]:
            table.add_row(entry.name, entry.summary)
        console.print(table, "")
    return Exit.DONE

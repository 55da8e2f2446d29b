"""`segmeter list`: everything that has a name."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from segmeter.cli._cards import facts_of
from segmeter.cli._option_values import roots
from segmeter.cli._options import AsJson, Data, Weights
from segmeter.cli.app import Exit, app
from segmeter.core import catalogue
from segmeter.core.catalogue import Registry
from segmeter.core.errors import NotFound, suggestion

__all__ = ["list_names"]

_REGISTRIES: dict[str, Registry[object]] = {
    "models": catalogue.models,
    "methods": catalogue.methods,
    "detectors": catalogue.detectors,
    "datasets": catalogue.datasets,
    "users": catalogue.users,
    "measures": catalogue.measures,
    "benchmarks": catalogue.benchmarks,
}


KindName = Annotated[
    str | None,
    typer.Argument(help="models, methods, detectors, datasets, users, measures or benchmarks."),
]
ThingName = Annotated[
    str | None, typer.Argument(help="One of them: its options, licence, citation.")
]


@app.command("list")
def list_names(
    kind: KindName = None,
    name: ThingName = None,
    data: Data = None,
    weights: Weights = None,
    as_json: AsJson = False,
) -> int:
    """List models, methods, detectors, data sets, users, measures and benchmarks.

    Examples: `segmeter list models`, `segmeter list datasets mini`
    """
    if kind is not None and kind not in _REGISTRIES:
        hint = suggestion(kind, _REGISTRIES)
        raise NotFound(f"nothing is called '{kind}' here;{hint} choose {', '.join(_REGISTRIES)}")
    if kind in (None, "methods"):
        catalogue.benchmarks.names()  # some benchmarks bring methods of their own
    if kind is not None and name is not None:
        _tell(facts_of(_REGISTRIES[kind], name, roots(data, weights)), as_json)
        return Exit.DONE
    chosen = [kind] if kind else list(_REGISTRIES)
    if as_json:
        names = {
            k: [{"name": e.name, "summary": e.summary} for e in _REGISTRIES[k]] for k in chosen
        }
        print(json.dumps(names, indent=1))
        return Exit.DONE
    console = Console(markup=False)
    for title in chosen:
        table = Table(
            title=title, title_justify="left", show_header=False, box=None, pad_edge=False
        )
        for entry in _REGISTRIES[title]:
            table.add_row(entry.name, entry.summary)
        console.print(table, "")
    return Exit.DONE


def _tell(facts: dict[str, Any], as_json: bool) -> None:
    """One thing's facts, a line each."""
    if as_json:
        print(json.dumps(facts, indent=1, default=str))
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

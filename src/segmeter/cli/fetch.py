"""`segmeter fetch`: bring a model's weights to where models look for them."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from segmeter.cli._options import AsJson
from segmeter.cli.app import Exit, app
from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound, suggestion

if TYPE_CHECKING:
    from segmeter.models.fetching import Arrival, Offer

__all__ = ["fetch"]

ModelName = Annotated[
    str | None, typer.Argument(help="Model whose weights to fetch; of a data set, where it is.")
]
Folder = Annotated[
    Path | None, typer.Option("--to", help="Folder to hold them; your cache by default.")
]
SourceName = Annotated[
    str | None,
    typer.Option("--from", help="hub, page, index, or a folder, file, archive, address or hub id."),
]
Listing = Annotated[bool, typer.Option("--list", help="Say what can be fetched.")]


@app.command()
def fetch(
    name: ModelName = None,
    to: Folder = None,
    source: SourceName = None,
    listing: Listing = False,
    as_json: AsJson = False,
) -> int:
    """Fetch a model's weights; where it was stopped, the same command goes on.

    Example: `segmeter fetch mobile-sam`
    """
    catalogue.models.names()  # adapters say what they offer when they are imported
    from segmeter.models.fetching import fetch as bring
    from segmeter.models.fetching import offers

    if listing:
        return _list(offers(), as_json)
    if name is None:
        raise BadInput("which model's weights? 'segmeter fetch --list' says what can be fetched")
    if name not in offers():
        _explain(name, offers())
    with _Meter() as meter:
        arrival = bring(offers()[name], to, source, meter.show)
    _tell(arrival, as_json)
    return Exit.DONE


class _Meter:
    """How much has come, on stderr; silent without a terminal."""

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )

    def __enter__(self) -> _Meter:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, what: str, have: int, total: int) -> None:
        if not self._bar.tasks or self._bar.tasks[-1].description != what:
            self._bar.add_task(what)
        self._bar.update(self._bar.task_ids[-1], completed=have, total=total or None)


def _tell(arrival: Arrival, as_json: bool) -> None:
    if as_json:
        facts = {
            "name": arrival.name,
            "folder": str(arrival.folder),
            "source": arrival.source,
            "sha256": dict(arrival.digests),
            "checked": sorted(arrival.checked),
        }
        print(json.dumps(facts, indent=1))
        return
    state = f"from {arrival.source}" if arrival.source else "was here already"
    typer.echo(f"{arrival.name}: {state}")
    for file, digest in arrival.digests.items():
        word = "as published" if file in arrival.checked else "none published"
        typer.echo(f"  sha256 {digest[:16]}... ({word})  {file}")
    typer.echo(f"in {arrival.folder}")


def _list(offers: dict[str, Offer], as_json: bool) -> int:
    from segmeter.models import weights

    here = {name: bool(weights.files(weights.home() / name)) for name in offers}
    if as_json:
        rows = [
            {"name": name, "here": here[name], "sources": [str(s) for s in offer.sources]}
            for name, offer in offers.items()
        ]
        print(json.dumps(rows, indent=1))
        return Exit.DONE
    width = max(map(len, offers), default=0)
    for name, offer in offers.items():
        mark = "here" if here[name] else "    "
        kinds = ", ".join(source.kind for source in offer.sources)
        typer.echo(f"{name:<{width}}  {mark}  {kinds}")
    typer.echo(f"weights go to {weights.home()}")
    return Exit.DONE


def _explain(name: str, offers: dict[str, Offer]) -> NoReturn:
    """A name that cannot be fetched: a data set, a model without a source, or a slip."""
    if name in catalogue.datasets.names():
        if not catalogue.required(catalogue.datasets.entry(name)):
            _refuse_data(name)
        raise BadInput(f"data set '{name}' is here already: there is nothing to fetch")
    if name in catalogue.models.names():
        _explain_model(name)
    hint = suggestion(name, [*offers, *catalogue.models.names(), *catalogue.datasets.names()])
    raise NotFound(f"no weights named '{name}';{hint} 'segmeter fetch --list' shows them all")


def _refuse_data(name: str) -> None:
    """A set that is not here says where to get it, and to which command its folder is told."""
    try:
        catalogue.datasets.make(name)
    except NotFound as error:
        raise NotFound(
            f"segmeter fetches weights, not data: {error}; --data is told to 'segmeter run'"
        ) from None


def _explain_model(name: str) -> NoReturn:
    """A model whose weights nobody offers: it needs none, is not available, or wants a folder."""
    entry = catalogue.models.entry(name)
    if "weights" not in inspect.signature(entry.make).parameters:
        if not catalogue.required(entry):
            catalogue.models.make(name)  # one that is not available says what is missing
        raise BadInput(f"model '{name}' needs no weights: there is nothing to fetch")
    raise NotFound(
        f"no source of weights for '{name}' is known; put them in a folder '{name}' and give "
        "the folder that holds it with --weights"
    )

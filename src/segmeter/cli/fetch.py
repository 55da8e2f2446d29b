"""`segmeter fetch`: download a model's weights."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from typer import Argument, Option

import segmeter
from segmeter.api.fetching import weight_sources, weights_home
from segmeter.cli._options import AsJson
from segmeter.cli._printing import print_json
from segmeter.cli.app import Exit, app

ModelName = Annotated[str | None, Argument(help="Model whose weights to fetch.")]
Folder = Annotated[
    Path | None, Option("--out", "-o", help="Folder for the weights; your cache folder by default.")
]
SourceName = Annotated[
    str | None,
    Option("--from", help="hub, page, index, or a folder, file, archive, URL or hub id."),
]
Listing = Annotated[bool, Option("--list", help="List the available weights.")]


@app.command()
def fetch(
    name: ModelName = None,
    out: Folder = None,
    source: SourceName = None,
    listing: Listing = False,
    as_json: AsJson = False,
) -> int:
    """Download a model's weights; the same command resumes an interrupted download.

    Example: `segmeter fetch mobile-sam`
    """
    if listing:
        return _list(as_json)
    if name is None:
        raise segmeter.BadInput("which model's weights? 'segmeter fetch --list' lists them")
    with _Meter() as meter:
        arrival = segmeter.fetch(name, out, source, progress=meter.show)
    _print(arrival, as_json)
    return Exit.DONE


class _Meter:
    """Progress of a download on stderr; silent without a terminal."""

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


def _print(arrival: Any, as_json: bool) -> None:
    if as_json:
        facts = {
            "name": arrival.name,
            "folder": str(arrival.folder),
            "source": arrival.source,
            "sha256": dict(arrival.digests),
            "checked": sorted(arrival.checked),
        }
        print_json(facts)
        return
    state = f"from {arrival.source}" if arrival.source else "was here already"
    typer.echo(f"{arrival.name}: {state}")
    for file, digest in arrival.digests.items():
        word = "as published" if file in arrival.checked else "none published"
        typer.echo(f"  sha256 {digest[:16]}... ({word})  {file}")
    typer.echo(f"in {arrival.folder}")


def _list(as_json: bool) -> int:
    here, sources = segmeter.list_weights(), weight_sources()
    if as_json:
        print_json(
            [{"name": n, "here": here[n], "sources": list(sources[n].values())} for n in here]
        )
        return Exit.DONE
    width = max(map(len, here), default=0)
    for name in here:
        mark = "here" if here[name] else "    "
        typer.echo(f"{name:<{width}}  {mark}  {', '.join(sources[name])}")
    typer.echo(f"weights go to {weights_home()}")
    return Exit.DONE

"""`segmeter fetch`: download a model's weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

import segmeter
from segmeter import api
from segmeter.api import size_text
from segmeter.cli._options import AsJson, out_option
from segmeter.cli._printing import print_json, progress_line
from segmeter.cli.app import app

Folder = Annotated[Path | None, out_option("Folder for the weights; your cache folder by default.")]


@app.command()
def fetch(
    name: Annotated[str | None, Argument(help="Model whose weights to fetch.")] = None,
    out: Folder = None,
    source: Annotated[
        str | None,
        Option("--from", help="hub, page, index, or a folder, file, archive, URL or hub id."),
    ] = None,
    listing: Annotated[bool, Option("--list", help="List the available weights.")] = False,
    as_json: AsJson = False,
) -> None:
    """Download a model's weights; the same command resumes an interrupted download.

    Example: `segmeter fetch mobile-sam`
    """
    if listing:
        _list(as_json)
        return
    if name is None:
        raise segmeter.BadInput("which model's weights? 'segmeter fetch --list' lists them")

    def progress(what: str, have: int, total: int) -> None:
        of = f" of {size_text(total)}" if total else ""
        progress_line(f"{what}: {size_text(have)}{of}", lasting=False)

    arrival = segmeter.fetch(name, out, source, progress=progress)
    progress_line("", lasting=False)
    _print(arrival, as_json)


def _print(arrival: Any, as_json: bool) -> None:
    if as_json:
        facts = {"name": arrival.name, "folder": str(arrival.folder), "source": arrival.source}
        digests = {"sha256": dict(arrival.digests), "checked": sorted(arrival.checked)}
        print_json(facts | digests)
        return
    state = f"from {arrival.source}" if arrival.source else "was already there"
    typer.echo(f"{arrival.name}: {state}")
    for file, digest in arrival.digests.items():
        word = "as published" if file in arrival.checked else "none published"
        typer.echo(f"  sha256 {digest[:16]}... ({word})  {file}")
    typer.echo(f"in {arrival.folder}")


def _list(as_json: bool) -> None:
    here, sources = segmeter.list_weights(), api.fetching.weight_sources()
    if as_json:
        print_json(
            [{"name": n, "here": here[n], "sources": list(sources[n].values())} for n in here]
        )
        return
    width = max(map(len, here), default=0)
    for name in here:
        mark = "here" if here[name] else "    "
        typer.echo(f"{name:<{width}}  {mark}  {', '.join(sources[name])}")
    typer.echo(f"weights go to {api.fetching.weights_home()}")

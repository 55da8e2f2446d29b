"""`segmeter embeddings`: vectors of a data set's masks, and a page to look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import segmeter
from segmeter.cli._options import Data, Limit, OneDataset, OneModel, Weights
from segmeter.cli.app import Exit, app


@app.command()
def embeddings(
    model: OneModel,
    dataset: OneDataset,
    out: Annotated[
        list[Path], typer.Option("--out", "-o", help="Files to write: .npz, .parquet or .html.")
    ],
    data: Data = None,
    weights: Weights = None,
    limit: Limit = None,
) -> int:
    """Embed every mask of a data set with a SAM's image features.

    Writes vectors (.npz, .parquet), or a page (.html) with a query, its neighbours, the most
    unusual objects, near-duplicates and what to annotate next. The model `colours` gives colour
    histograms, a baseline.

    Example: `segmeter embeddings -m mobile-sam -d FOLDER -o masks.npz -o masks.html`
    """
    for place in out:
        if place.suffix not in (".npz", ".parquet", ".html"):
            raise segmeter.BadInput(f"--out: '{place.name}' is not .npz, .parquet or .html")

    def told(done: int, total: int) -> None:
        if done % 10 == 0 or done == total:
            typer.echo(f"{done} of {total} images", err=True)

    found, thumbnails = segmeter.embed_masks(
        model, dataset, data=data, weights=weights, limit=limit, progress=told
    )
    for place in out:
        if place.suffix == ".html":
            found.page(place, thumbnails)
        else:
            found.save(place)
        typer.echo(f"{len(found.scenes)} objects written to {place}")
    return Exit.DONE

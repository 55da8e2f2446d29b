"""`segmeter models`: masks of everything, embeddings, parity of two models, a server."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

import segmeter
from segmeter.api import counted
from segmeter.cli import _options as options
from segmeter.cli._printing import print_json, progress_line, say
from segmeter.cli.app import Exit, command_group

group = command_group(
    "models", "Segment everything, embed masks, compare two versions of a model, serve a model."
)


@group.command()
def parity(
    a: Annotated[str, Argument(metavar="A", help="Model: name, file, folder or URL.")],
    b: Annotated[str, Argument(metavar="B", help="Model to compare with A.")],
    dataset: Annotated[str, Option("--dataset", "-d", help="Images to prompt on.")] = "mini",
    run: Annotated[Path | None, Option(help="Use the prompts recorded in a run.")] = None,
    at_least: Annotated[
        float | None, Option(min=0, max=1, help="Exit with code 1 if the mean IoU is lower.")
    ] = None,
    rounds: Annotated[int, Option(min=1, help="Maximum clicks per object.")] = 10,
    limit: Annotated[int | None, Option(min=1, help="Only the first N images or volumes.")] = None,
    out: Annotated[Path | None, options.out_option("Write a page (HTML).")] = None,
    data: options.Data = None,
    weights: options.Weights = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> int:
    """Compare two models mask by mask on the same prompts: exports, ports, services, new weights.

    Example: `segmeter models parity mobile-sam mobile-sam.onnx --dataset mini --at-least 0.99`
    """
    found = segmeter.parity(
        a, b, dataset, run=run, rounds=rounds, limit=limit, data=data, weights=weights, trust=trust
    )
    if as_json:
        print_json(found.facts())
    else:
        typer.echo("\n".join(found.lines()))
    if out is not None:
        typer.echo(f"page: {found.report(out)}", err=as_json)
    return Exit.WITH_ERRORS if at_least is not None and found.mean_iou < at_least else Exit.DONE


@group.command()
def serve(
    model: Annotated[str, Option("--model", "-m", help="Model: name, file or folder.")],
    host: Annotated[str, Option(help="IP address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, Option(min=0, max=65535, help="Port to listen on; 0 for any free port.")
    ] = 8008,
    weights: options.Weights = None,
) -> None:
    """Serve a model over HTTP, for `--model http://host:port` and for annotation tools.

    Example: `segmeter models serve --model mobile-sam`
    """
    with segmeter.serve(model, host, port, weights=weights) as server, suppress(KeyboardInterrupt):
        typer.echo(f"{model} at {server.address}; Ctrl-C stops it")
        server.serve_forever()


@group.command()
def masks(
    images: Annotated[list[Path], Argument(help="Images, or folders of images.")],
    model: options.OneModel,
    out: options.NewFolder,
    points: Annotated[int, Option(help="Points per side of the grid.")] = 32,
    crops: Annotated[int, Option(help="Layers of crops in addition to the full image.")] = 0,
    smallest: Annotated[
        int, Option(help="Remove holes and islands smaller than this many pixels.")
    ] = 0,
    protocol: options.OneProtocol = "corrected",
    option: Annotated[
        list[str] | None,
        Option(help="Another setting as name=value: score, stability, box_nms, ..."),
    ] = None,
    weights: options.Weights = None,
    threads: options.Threads = 1,
    as_json: options.AsJson = False,
) -> int:
    """Segment everything (automatic mask generation): COCO JSON, an overlay and a page for each
    image.

    Example: `segmeter models masks photo.jpg --model sam2-hiera-tiny --out found`
    """

    def tell(sentence: str, failed: bool) -> None:
        if failed or sys.stderr.isatty():
            say(f"segmeter: {sentence}" if failed else sentence)

    found = segmeter.auto_masks(
        images, model, out, points=points, crops=crops, smallest=smallest, protocol=protocol,
        options=option or (), weights=weights, threads=threads, tell=tell,
    )  # fmt: skip
    if as_json:
        print_json(found)
    else:
        many, of = counted(found["masks"], "mask"), counted(found["images"], "image")
        typer.echo(f"{many} in {of}, {found['seconds']:.1f} s")
        typer.echo(f"written to {out}: masks.json (COCO), index.html, a .png and a .html per image")
    return Exit.WITH_ERRORS if found["failed"] else Exit.DONE


@group.command()
def embed(
    model: options.OneModel,
    dataset: options.OneDataset,
    out: Annotated[list[Path], options.out_option("Files to write: .npz, .parquet or .html.")],
    data: options.Data = None,
    weights: options.Weights = None,
    limit: options.Limit = None,
) -> None:
    """Embed every mask of a dataset with a SAM's image features.

    Writes vectors (.npz, .parquet), or a page (.html) for nearest-neighbour search, outliers,
    near-duplicates and suggestions for what to annotate next. The model `colours` computes colour
    histograms as a baseline.

    Example: `segmeter models embed -m mobile-sam -d FOLDER -o masks.npz -o masks.html`
    """
    for place in out:
        if place.suffix not in (".npz", ".parquet", ".html"):
            raise segmeter.BadInput(f"--out: '{place.name}' is not .npz, .parquet or .html")

    def progress(done: int, total: int) -> None:
        progress_line(f"{done} of {total} images", lasting=done % 100 == 0 or done == total)

    found, thumbnails = segmeter.embed_masks(
        model, dataset, data=data, weights=weights, limit=limit, progress=progress
    )
    for place in out:
        if place.suffix == ".html":
            found.page(place, thumbnails)
        else:
            found.save(place)
        typer.echo(f"{counted(len(found.scenes), 'object')} written to {place}")

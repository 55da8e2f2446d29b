"""`segmeter masks`: masks of everything in images."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import segmeter
from segmeter.api import counted
from segmeter.cli._options import AsJson, NewFolder, OneModel, OneProtocol, Threads, Weights
from segmeter.cli._printing import print_json, say
from segmeter.cli.app import Exit, app

Images = Annotated[list[Path], typer.Argument(help="Images, or folders of images.")]
Points = Annotated[int, typer.Option("--points", help="Points on a side of the grid.")]
Crops = Annotated[int, typer.Option("--crops", help="Layers of crops to search besides the image.")]
Smallest = Annotated[
    int, typer.Option("--smallest", help="Holes and islands below so many pixels are cleaned.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--option", help="Another setting, as name=value: score, stability, box_nms..."),
]


@app.command()
def masks(
    images: Images,
    model: OneModel,
    out: NewFolder,
    points: Points = 32,
    crops: Crops = 0,
    smallest: Smallest = 0,
    protocol: OneProtocol = "corrected",
    option: Settings = None,
    weights: Weights = None,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> int:
    """Find masks of everything: COCO JSON, an overlay and a page for each image.

    Example: `segmeter masks photo.jpg --model sam2-hiera-tiny --out found`
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

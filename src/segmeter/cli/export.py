"""`segmeter export`: masks of a run as files that other programs open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

import segmeter
from segmeter.api import counted
from segmeter.cli._options import AsJson, Data, RunAddress
from segmeter.cli._printing import print_json
from segmeter.cli.app import Exit, app

Out = Annotated[Path, Option("--out", "-o", help="Folder for the masks.")]
Format = Annotated[
    str | None,
    Option(
        "--format",
        help="png, nifti, coco, cvat, fiftyone or labelstudio; of videos davis, coco-vid, gif or "
        "mp4. By default PNG of images and videos, NIfTI of volumes.",
    ),
]
Which = Annotated[
    str, Option("--round", help="Masks of the last round, of the best one, or after K.")
]
AllRounds = Annotated[bool, Option("--all-rounds", help="Masks of every round, one file each.")]
Images = Annotated[bool, Option("--images/--no-images", help="Images next to lists.")]


@app.command()
def export(
    run: RunAddress,
    out: Out = Path("masks"),
    kind: Format = None,
    which: Which = "last",
    all_rounds: AllRounds = False,
    images: Images = True,
    data: Data = None,
    as_json: AsJson = False,
) -> int:
    """Write the masks of a run: a file each, or as lists for COCO, CVAT and other tools.

    Volumes become NIfTI on the grids of their own files, which ITK-SNAP and 3D Slicer show over
    the images they belong to; images become PNG unless `--format` says otherwise.

    Example: `segmeter export runs/mine --round best --format coco --out masks`
    """
    opened = segmeter.open_run(run, data=data)
    written = opened.export(out, kind, "all" if all_rounds else which, images)
    if as_json:
        facts = [
            {"file": str(f.path), "scene": f.scene, "target": f.target, "image": f.image,
             "voxels": f.voxels}
            for f in written
        ]  # fmt: skip
        print_json({"masks": facts})
        return Exit.DONE
    typer.echo(f"{counted(len(written), 'mask')} written to {out}")
    hint = opened.export_hint(kind)
    if hint:
        for file in dict.fromkeys(f.path for f in written):
            typer.echo(f"  {file}")
        typer.echo(hint)
    return Exit.DONE

"""`segmeter export`: masks of a run as files that other programs open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

import segmeter
from segmeter.api import counted
from segmeter.cli._options import AsJson, Data, RunAddress, out_option
from segmeter.cli._printing import print_json
from segmeter.cli.app import app


@app.command()
def export(
    run: RunAddress,
    out: Annotated[Path, out_option("Folder for the masks.")] = Path("masks"),
    kind: Annotated[
        str | None,
        Option(
            "--format",
            help="Images: png, coco, cvat, fiftyone, labelstudio. Volumes: nifti, nifti-labels "
            "(one per case), dicom-seg. Videos: davis, coco-vid, gif, mp4. The first is the "
            "default.",
        ),
    ] = None,
    which: Annotated[str, Option("--round", help="last, best, or a number of rounds.")] = "last",
    all_rounds: Annotated[
        bool, Option("--all-rounds", help="Write the masks of every round.")
    ] = False,
    images: Annotated[bool, Option(help="Write images next to annotation files.")] = True,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Export the masks of a run as one file per mask, or as annotation files for COCO, CVAT and
    other tools.

    Volumes are written as NIfTI in the geometry of the original scan, so ITK-SNAP and 3D Slicer
    overlay them correctly; images are written as PNG unless `--format` is given.

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
        return
    files = len({f.path for f in written})
    held = f" ({counted(files, 'file')})" if files != len(written) else ""
    typer.echo(f"{counted(len(written), 'mask')} written to {out}{held}")
    if len(opened.plan.protocols) > 1:
        typer.echo("each object has a mask per protocol: use those of published or of corrected")
    hint = opened.export_hint(kind)
    if hint:
        for file in dict.fromkeys(f.path for f in written):
            typer.echo(f"  {file}")
        typer.echo(hint)

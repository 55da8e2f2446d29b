"""`segmeter export`: masks of a run as files that other programs open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from segmeter.cli._options import AsJson, Data, roots
from segmeter.cli.app import Exit, app

__all__ = ["export"]


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    masks: Annotated[
        Path, typer.Option("--masks", help="Folder that the masks are written to, one file each.")
    ],
    all_rounds: Annotated[
        bool, typer.Option("--all-rounds", help="Masks of every round, not only of the last.")
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> int:
    """Write the masks of a run: volumes as NIfTI on their files' own grids, pictures as PNG.

    ITK-SNAP and 3D Slicer show the NIfTI files over the images they belong to.

    Example: `segmeter export runs/mine --masks masks`
    """
    from segmeter.cli._mask_files import mask_files
    from segmeter.store import Run

    results = Run.open(run, roots(data, None))
    written = list(mask_files(results, masks, "all" if all_rounds else "last"))
    if as_json:
        facts = [
            {"file": str(f.path), "scene": f.scene, "target": f.target, "voxels": f.voxels}
            for f in written
        ]
        print(json.dumps({"masks": facts}, indent=1))
    else:
        typer.echo(f"{len(written)} masks written to {masks}")
    return Exit.DONE

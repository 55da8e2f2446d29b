"""`segmeter export`: masks of a run as files that other programs open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segmeter.cli._options import AsJson, Data
from segmeter.cli.app import Exit, app
from segmeter.core.errors import check_choice

if TYPE_CHECKING:
    from segmeter.cli._mask_files import MaskFile

__all__ = ["export"]


_FORMATS = ("png", "nifti", "coco", "fiftyone", "labelstudio")


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    masks: Annotated[
        Path, typer.Option("--masks", "--to", help="Folder that the masks are written to.")
    ] = Path("masks"),
    kind: Annotated[
        str | None,
        typer.Option("--format", help="png, nifti, coco, fiftyone or labelstudio."),
    ] = None,
    which: Annotated[
        str, typer.Option("--round", help="Masks of the last round, the best one, or after K.")
    ] = "last",
    all_rounds: Annotated[
        bool, typer.Option("--all-rounds", help="Masks of every round, one file each.")
    ] = False,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Pictures beside lists of masks.")
    ] = True,
    data: Data = None,
    as_json: AsJson = False,
) -> int:
    """Write the masks of a run: a file each, or as lists for COCO, FiftyOne and Label Studio.

    Volumes become NIfTI on their files' own grids, which ITK-SNAP and 3D Slicer show over the
    images they belong to; pictures become PNG unless `--format` says otherwise.

    Example: `segmeter export runs/mine --round best --format coco --to masks`
    """
    from segmeter.cli._mask_files import mask_files, mask_lists, rounds_of
    from segmeter.cli._mask_lists import LISTS
    from segmeter.cli._options import remembered
    from segmeter.store import Run

    if kind is not None:
        check_choice("format", kind, _FORMATS)
    results = Run.open(run)
    results.roots = remembered(results, data)
    rounds = "all" if all_rounds else rounds_of(which)
    if kind is not None and kind in LISTS:
        written = list(mask_lists(results, masks, kind, rounds, pictures))
    else:
        written = list(mask_files(results, masks, rounds, kind))
    if as_json:
        print(json.dumps({"masks": [_facts(f) for f in written]}, indent=1))
        return Exit.DONE
    many = "1 mask" if len(written) == 1 else f"{len(written)} masks"
    typer.echo(f"{many} written to {masks}")
    if kind is not None and kind in LISTS:
        for file in dict.fromkeys(f.path for f in written):
            typer.echo(f"  {file}")
        typer.echo(LISTS[kind].said)
    return Exit.DONE


def _facts(file: MaskFile) -> dict[str, object]:
    named = {"scene": file.scene, "target": file.target, "voxels": file.voxels}
    return {"file": str(file.path), **named}

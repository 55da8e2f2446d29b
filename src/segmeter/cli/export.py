"""`segmeter export`: masks of a run as files that other programs open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segmeter.cli._option_values import remembered
from segmeter.cli._options import AsJson, Data, RunAddress
from segmeter.cli.app import Exit, app
from segmeter.core.errors import check_choice
from segmeter.core.wording import counted

if TYPE_CHECKING:
    from segmeter.report.mask_files import MaskFile

__all__ = ["export"]


To = Annotated[
    Path,
    typer.Option("--to", "--out", "-o", "--masks", help="Folder that the masks are written to."),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="png, nifti, coco, fiftyone or labelstudio; by default PNG of images and NIfTI of "
        "volumes.",
    ),
]
Which = Annotated[
    str, typer.Option("--round", help="Masks of the last round, of the best one, or after K.")
]
AllRounds = Annotated[
    bool, typer.Option("--all-rounds", help="Masks of every round, one file each.")
]
Images = Annotated[bool, typer.Option("--images/--no-images", help="Images beside lists of masks.")]


@app.command()
def export(
    run: RunAddress,
    to: To = Path("masks"),
    kind: Format = None,
    which: Which = "last",
    all_rounds: AllRounds = False,
    images: Images = True,
    data: Data = None,
    as_json: AsJson = False,
) -> int:
    """Write the masks of a run: a file each, or as lists for COCO, FiftyOne and Label Studio.

    Volumes become NIfTI on their files' own grids, which ITK-SNAP and 3D Slicer show over the
    images they belong to; images become PNG unless `--format` says otherwise.

    Example: `segmeter export runs/mine --round best --format coco --to masks`
    """
    from segmeter.report.mask_files import FORMATS, export_masks, rounds_of
    from segmeter.store import Run

    if kind is not None:
        check_choice("format", kind, FORMATS)
    results = Run.open(run)
    results.roots = remembered(results, data)
    rounds = "all" if all_rounds else rounds_of(which)
    written = export_masks(results, to, kind, rounds, images)
    if as_json:
        print(json.dumps({"masks": [_facts(f) for f in written]}, indent=1))
    else:
        _say(written, to, kind)
    return Exit.DONE


def _say(written: list[MaskFile], to: Path, kind: str | None) -> None:
    """How many masks lie where; of lists also which files, and how they are opened."""
    from segmeter.report.mask_lists import LISTS

    typer.echo(f"{counted(len(written), 'mask')} written to {to}")
    if kind is not None and kind in LISTS:
        for file in dict.fromkeys(f.path for f in written):
            typer.echo(f"  {file}")
        typer.echo(LISTS[kind].hint)


def _facts(file: MaskFile) -> dict[str, object]:
    named = {"scene": file.scene, "target": file.target, "image": file.image}
    return {"file": str(file.path), **named, "voxels": file.voxels}

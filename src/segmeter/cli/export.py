"""`segmeter export`: masks of a run as files that other programs open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import segmeter
from segmeter.cli._options import AsJson, Data, RunAddress
from segmeter.cli.app import Exit, app
from segmeter.core.wording import counted

if TYPE_CHECKING:
    from segmeter.report.mask_files import MaskFile

__all__ = ["export"]


Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the masks.")]
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
    out: Out = Path("masks"),
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

    Example: `segmeter export runs/mine --round best --format coco --out masks`
    """
    from segmeter.report.mask_files import rounds_of

    opened = segmeter.open_run(run, data=data)
    rounds = "all" if all_rounds else rounds_of(which)
    written = opened.export(out, kind, rounds, images)
    if as_json:
        print(json.dumps({"masks": [_facts(f) for f in written]}, indent=1))
    else:
        _say(written, out, kind)
    return Exit.DONE


def _say(written: list[MaskFile], out: Path, kind: str | None) -> None:
    """Print how many masks were written; of lists also which files, and how to open them."""
    from segmeter.report.mask_lists import LISTS

    typer.echo(f"{counted(len(written), 'mask')} written to {out}")
    if kind is not None and kind in LISTS:
        for file in dict.fromkeys(f.path for f in written):
            typer.echo(f"  {file}")
        typer.echo(LISTS[kind].hint)


def _facts(file: MaskFile) -> dict[str, object]:
    named = {"scene": file.scene, "target": file.target, "image": file.image}
    return {"file": str(file.path), **named, "voxels": file.voxels}

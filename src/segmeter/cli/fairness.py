"""`segmeter fairness`: groups files from annotations of people, and where images come from."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from segmeter.cli._help import Group
from segmeter.cli._option_values import dataset_spec, roots
from segmeter.cli._options import AsJson, Data, OneDataset
from segmeter.cli.app import Exit, app

__all__ = ["people", "places"]

_group = typer.Typer(
    cls=Group, no_args_is_help=True, help="Who and where: groups of masks and images."
)
app.add_typer(_group, name="fairness")


@_group.callback()
def _fairness() -> None:
    """Who and where: groups of masks and images."""


BoxTable = Annotated[Path, typer.Option("--miap", help="MIAP's table of boxes (CSV).")]
MaskTable = Annotated[Path, typer.Option("--masks", help="Open Images' table of masks (CSV).")]
GroupsOut = Annotated[Path, typer.Option("--out", "-o", help="Groups file to write.")]
ClothingClasses = Annotated[
    Path | None,
    typer.Option("--clothing", help="Classes of clothing, a line each: their masks instead."),
]
CountryTable = Annotated[Path, typer.Option("--countries", help="CSV of image,country.")]
GroupTable = Annotated[Path, typer.Option("--table", help="CSV of country,group.")]


@_group.command()
def people(
    miap: BoxTable,
    masks: MaskTable,
    out: GroupsOut,
    clothing: ClothingClasses = None,
) -> int:
    """Join MIAP's people with masks of Open Images into a groups file.

    Example: `segmeter fairness people --miap boxes.csv --masks masks.csv -o groups.csv`
    """
    from segmeter.core.errors import BadInput
    from segmeter.datasets.groups import write_groups
    from segmeter.datasets.image_files import read_bytes
    from segmeter.datasets.open_images import clothing_groups, person_groups, read_boxes

    persons, drawn = read_boxes(miap), read_boxes(masks, "Box")
    if clothing is None:
        groups = person_groups(persons, drawn)
    else:
        labels = {line.strip() for line in read_bytes(clothing).decode().splitlines()} - {""}
        groups = clothing_groups(persons, drawn, labels)
    if not groups:
        raise BadInput(f"no mask of '{masks}' agrees with a box of '{miap}'; are both one split?")
    write_groups(out, groups)
    typer.echo(f"{len(groups)} masks with groups: {out}")
    return Exit.DONE


@_group.command()
def places(
    dataset: OneDataset,
    countries: CountryTable,
    table: GroupTable,
    data: Data = None,
    as_json: AsJson = False,
) -> int:
    """Count images and masks by region or income of the country they come from.

    Example: `segmeter fairness places -d coco --countries flickr.csv --table regions.csv`
    """
    from segmeter.core import catalogue
    from segmeter.datasets.groups import read_table
    from segmeter.stats.fairness import group_shares

    opened = catalogue.datasets.make(dataset_spec(dataset), **roots(data, None).options())
    counts = {scene: len(opened.load(scene).targets) for scene in opened.scenes()}
    located = {r["image"]: r["country"] for r in read_table(countries, "table", "image")}
    grouped = {r["country"]: r["group"] for r in read_table(table, "table", "country")}
    found = group_shares(counts, located, grouped)
    if as_json:
        print(json.dumps([asdict(share) for share in found], indent=1))
        return Exit.DONE
    print(f"{'group':<28}{'countries':>10}{'images':>10}{'masks':>9}{'per image':>13}{'%':>7}")
    for share in found:
        print(
            f"{share.group[:27]:<28}{share.countries:>10}{share.images:>10}{share.masks:>9}"
            f"{share.masks_per_image.value:>13.1f}{100 * share.share:>7.1f}"
        )
    return Exit.DONE

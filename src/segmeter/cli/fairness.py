"""`segmeter fairness`: groups files from annotations of people, and where images come from."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from segmeter import api
from segmeter.cli._options import AsJson, Data, OneDataset, out_option
from segmeter.cli._printing import print_json
from segmeter.cli.app import command_group

group = command_group("fairness", "Groups of people and countries, for `--groups`.")


@group.command()
def people(
    miap: Annotated[Path, Option(help="MIAP's table of boxes (CSV).")],
    masks: Annotated[Path, Option(help="Open Images' table of masks (CSV).")],
    out: Annotated[Path, out_option("Groups file to write.")],
    clothing: Annotated[
        Path | None, Option(help="File with classes of clothing, one per line; uses their masks.")
    ] = None,
) -> None:
    """Match MIAP's person annotations to Open Images masks and write a groups file.

    Example: `segmeter fairness people --miap boxes.csv --masks masks.csv -o groups.csv`
    """
    many = api.counted(api.fairness.person_groups(miap, masks, out, clothing), "mask")
    typer.echo(f"{many} with groups: {out}")


@group.command()
def places(
    dataset: OneDataset,
    countries: Annotated[Path, Option(help="CSV with columns image,country.")],
    table: Annotated[Path, Option("--country-groups", help="CSV with columns country,group.")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Count images and masks by region or income of the country they come from.

    Example: `segmeter fairness places -d coco --countries flickr.csv --country-groups regions.csv`
    """
    found = api.fairness.place_shares(dataset, countries, table, data)
    if as_json:
        print_json([asdict(share) for share in found])
        return
    print(f"{'group':<28}{'countries':>10}{'images':>10}{'masks':>9}{'per image':>13}{'%':>7}")
    for share in found:
        print(
            f"{share.group[:27]:<28}{share.countries:>10}{share.images:>10}{share.masks:>9}"
            f"{share.masks_per_image.value:>13.1f}{100 * share.share:>7.1f}"
        )

"""Fairness: groups of people and places, from annotations of Open Images and tables of yours."""

from __future__ import annotations

from pathlib import Path

from segmeter.api.loading import load_dataset
from segmeter.core.errors import BadInput
from segmeter.datasets import open_images
from segmeter.datasets.groups import read_table, write_groups
from segmeter.datasets.image_files import read_bytes
from segmeter.stats.fairness import GroupShare, group_shares


def person_groups(miap: Path, masks: Path, out: Path, clothing: Path | None = None) -> int:
    """Join MIAP's people with masks of Open Images into a groups file; returns how many masks.

    `clothing` lists classes of clothing, one per line: their masks are grouped instead.
    """
    persons, drawn = open_images.read_boxes(miap), open_images.read_boxes(masks, "Box")
    if clothing is None:
        groups = open_images.person_groups(persons, drawn)
    else:
        labels = {line.strip() for line in read_bytes(clothing).decode().splitlines()} - {""}
        groups = open_images.clothing_groups(persons, drawn, labels)
    if not groups:
        raise BadInput(
            f"no mask of '{masks}' agrees with a box of '{miap}'; are both of the same split?"
        )
    write_groups(out, groups)
    return len(groups)


def place_shares(
    dataset: str, countries: Path, table: Path, data: str | Path | None = None
) -> list[GroupShare]:
    """Images and masks by region or income of the country that images come from.

    `countries` is a CSV of image,country and `table` one of country,group.
    """
    opened = load_dataset(dataset, data)
    counts = {scene: len(opened.load(scene).targets) for scene in opened.scenes()}
    located = {r["image"]: r["country"] for r in read_table(countries, "table", "image")}
    grouped = {r["country"]: r["group"] for r in read_table(table, "table", "country")}
    return group_shares(counts, located, grouped)

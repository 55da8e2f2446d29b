"""Open Images' masks: one file per object, named in a table, as the fairness study uses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import DatasetCard
from segmeter.datasets.groups import read_table
from segmeter.datasets.image_files import SUFFIXES, read_values
from segmeter.datasets.places import set_folder
from segmeter.datasets.zeroshot.listed import Item, Listed, Named, Selection

__all__ = ["open_images"]

_TABLE = "test-annotations-object-segmentation.csv"
_CARD = DatasetCard(
    name="open-images",
    summary="objects of Open Images, for groups joined from MIAP",
    licence="annotations CC BY 4.0; images CC BY 2.0 by their owners' word",
    citation="Benenson, Popov, Ferrari. Large-scale interactive object segmentation with human "
    "annotators. CVPR 2019",
    homepage="https://storage.googleapis.com/openimages/web/index.html",
    notes=f"The test images belong in open-images/images, the masks in open-images/masks and "
    f"the table {_TABLE} next to them. Masks are enlarged to their image's size. Scenes and "
    "targets are named as 'segmeter fairness people' names them.",
)


@catalogue.datasets.add("open-images", summary=_CARD.summary)
def open_images(
    data: str | Path | None = None,
    table: str = _TABLE,
    sample: int | None = None,
    least_area: int = 0,
    most_side: int = 0,
    split: str | None = None,
    category: str | None = None,
) -> Listed:
    """Open Images from a root folder that holds `open-images`."""
    folder = set_folder(_CARD, data, ("open-images", "openimages"), ("images", "masks", table))
    items = _items(folder, table)
    if not items:
        raise NotFound(f"data set 'open-images': none of its images is in '{folder / 'images'}'")
    return Listed(_CARD, items, Selection(sample, least_area, most_side, split, category))


def _items(folder: Path, table: str) -> dict[str, Item]:
    rows = read_table(folder / table, "table of masks", "MaskPath")
    if rows and not {"ImageID", "LabelName"} <= rows[0].keys():
        raise BadInput(f"table of masks '{folder / table}' has no ImageID or no LabelName")
    images, files = _by_name(folder / "images"), _by_name(folder / "masks")
    drawn: dict[str, list[tuple[str, str, Path]]] = {}
    for row in rows:
        name = row["MaskPath"].removesuffix(".png")
        if row["ImageID"] in images and name in files:
            drawn.setdefault(row["ImageID"], []).append((name, row["LabelName"], files[name]))
    return {
        image: Item(images[image], partial(_masks, entries), tuple(e[2] for e in entries))
        for image, entries in drawn.items()
    }


def _masks(entries: Sequence[tuple[str, str, Path]], size: tuple[int, int]) -> Iterator[Named]:
    import cv2

    for name, label, file in entries:
        values = read_values(file)
        bits = (values if values.ndim == 2 else values.max(axis=2)) > 0
        if bits.shape != size:
            enlarged = cv2.resize(
                bits.astype(np.uint8), size[::-1], interpolation=cv2.INTER_NEAREST_EXACT
            )
            bits = enlarged > 0
        yield Named(name, Mask.of(np.ascontiguousarray(bits)), label)


def _by_name(folder: Path) -> dict[str, Path]:
    """Images anywhere under a folder, by file name without suffix."""
    return {p.stem: p for p in sorted(folder.rglob("*")) if p.suffix.lower() in SUFFIXES}

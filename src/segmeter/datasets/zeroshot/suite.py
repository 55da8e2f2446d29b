"""The suite of 23 datasets by name: a card each, the folder it is looked for in, its reader.

The notes of each set describe its files; some layouts are known only from memory
(`known`, `recalled`, `weak`), so `images` and `annotations` may be given by hand. Counts are
those of Segment Anything's authors; their own samples and their blurred faces were
never published, so their numbers cannot be reproduced to the digit.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from segmeter.core import catalogue
from segmeter.core.errors import NotFound
from segmeter.core.scenes import DatasetCard
from segmeter.datasets.data_roots import set_folder
from segmeter.datasets.zeroshot import mask_readers
from segmeter.datasets.zeroshot.listed import Item, Listed, Selection

Confidence = Literal["known", "recalled", "weak"]
Certainty = {
    "known": "its layout is documented by its authors",
    "recalled": "its layout is given from memory: check the first masks by eye",
    "weak": "its layout is a prediction: give images and annotations, and check masks by eye",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """One dataset of the suite.

    `images` and `annotations` are places under its folder; `image_count` and `masks` how many the
    authors used; `reader` is a function of `mask_readers`, which gets these places and `options`.
    """

    name: str
    title: str
    about: str
    reader: str
    split: str
    image_count: int
    masks: int
    images: str
    annotations: str
    citation: str
    homepage: str
    licence: str = "see the project page"
    confidence: Confidence = "recalled"
    sampled: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def card(self) -> DatasetCard:
        places = dict.fromkeys(p for p in (self.images, self.annotations) if p != ".")
        layout = " and ".join(f"'{self.name}/{place}'" for place in places) or f"'{self.name}'"
        part = f"a sample of {self.masks}" if self.sampled else str(self.masks)
        notes = (
            f"{self.split} belongs in {layout}. Segment Anything used {part} masks on"
            f" {self.image_count} images, faces blurred; its parts of large sets were not"
            f" published. Reader {self.reader}: {Certainty[self.confidence]}."
        )
        return DatasetCard(
            self.name, f"{self.title}: {self.about}", self.licence, self.citation,
            targets=self.masks, homepage=self.homepage, notes=notes,
        )  # fmt: skip


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
SUITE = tuple(Kind(name=name, **table) for name, table in _TABLES.items())

_ALIASES = {"bbbc038": ("BBBC038", "BBBC038v1"), "lvis-v0.5": ("coco",)}


def _register(kind: Kind) -> None:
    @catalogue.datasets.add(kind.name, kind.card.summary)
    def make(
        data: str | Path | None = None,
        images: str = kind.images,
        annotations: str = kind.annotations,
        sample: int | None = None,
        least_area: int = 0,
        most_side: int = 0,
        split: str | None = None,
        category: str | None = None,
    ) -> Listed:
        named = (kind.name, kind.title.replace(" ", "_"), *_ALIASES.get(kind.name, ()))
        parts = [part for part in dict.fromkeys((images, annotations)) if part != "."]
        folder = set_folder(kind.card, data, named, parts or ["."])
        read: Callable[..., dict[str, Item]] = getattr(mask_readers, kind.reader)
        items = read(folder / images, folder / annotations, **kind.options)
        if not items:
            raise NotFound(
                f"dataset '{kind.name}': no image with masks in '{folder}' ({kind.homepage})"
            )
        return Listed(kind.card, items, Selection(sample, least_area, most_side, split, category))


for _kind in SUITE:
    _register(_kind)

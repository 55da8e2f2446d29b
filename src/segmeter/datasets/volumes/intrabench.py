"""IntRaBench's data sets by name, and those of its successor, in nnU-Net's layout."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from segmeter.core import catalogue
from segmeter.core.errors import NotFound
from segmeter.core.scenes import DatasetCard
from segmeter.datasets.volumes.cases import options_of
from segmeter.datasets.volumes.labels import Labelling
from segmeter.datasets.volumes.layouts import recognise
from segmeter.datasets.volumes.volume_folder import VolumeSet

__all__ = ["SETS", "Published"]


@dataclass(frozen=True, slots=True)
class Published:
    """One data set: the number of its nnU-Net folder, and how its labels were prepared."""

    number: int
    labelling: Labelling
    modality: str
    card: DatasetCard

    @classmethod
    def read(cls, name: str, table: Mapping[str, Any]) -> Published:
        """A table of `intrabench.toml`."""
        rule = dict(table.get("labelling", {}))
        rule["names"] = {int(value): word for value, word in rule.get("names", {}).items()}
        labelling = Labelling(**rule)
        notes = (
            f"Put it as nnU-Net folder 'Dataset{table['number']:03d}_NAME' under the data folder. "
            f"{table['paper']} of IntRaBench. Preparation: {table['preparation']}."
        )
        if labelling.components:
            notes += (
                " A map with one value only is cut into components by that rule when it is read."
            )
        card = DatasetCard(
            name,
            table["summary"],
            "see its source",
            table["citation"],
            homepage=table["homepage"],
            notes=notes,
        )
        return cls(table["number"], labelling, table["modality"], card)


def _read_sets() -> tuple[Published, ...]:
    text = (files("segmeter.datasets.volumes") / "intrabench.toml").read_text("utf-8")
    return tuple(Published.read(name, table) for name, table in tomllib.loads(text).items())


SETS = _read_sets()
"""The data sets of the paper and its successor; those of one paper number share it."""


def _open(published: Published, data: str | Path | None, channel: int | str | None) -> VolumeSet:
    folder = _dataset_folder(published, data)
    layout = recognise(folder)
    rule = published.labelling
    options = options_of(f"'{folder}'", rule, channel, modality=published.modality)
    return VolumeSet(published.card, layout, options)


def _dataset_folder(published: Published, data: str | Path | None) -> Path:
    root = data if data is not None else os.environ.get("SEGMETER_DATA")
    pattern = f"Dataset{published.number:03d}_*"
    advice = f"{published.card.homepage}; prepared as 'segmeter list datasets' says"
    if root is None:
        raise NotFound(
            f"data set '{published.card.name}' needs the folder that holds '{pattern}':"
            f" give it with --data or SEGMETER_DATA ({advice})"
        )
    place = Path(root)
    own = [place] if place.match(pattern) else sorted(place.glob(pattern))
    if not own:
        raise NotFound(
            f"data set '{published.card.name}' is not in '{root}': no folder '{pattern}' ({advice})"
        )
    return own[0]


def _register(published: Published) -> None:
    @catalogue.datasets.add(published.card.name, summary=published.card.summary)
    def make(data: str | Path | None = None, channel: int | str | None = None) -> VolumeSet:
        return _open(published, data, channel)


for _set in SETS:
    _register(_set)

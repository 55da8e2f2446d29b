"""The data sets that a clicks file speaks of, opened by name or folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from segmeter.cli._options import dataset_spec

if TYPE_CHECKING:
    from segmeter.core.scenes import Dataset

__all__ = ["clicked_datasets"]


def clicked_datasets(texts: list[str], data: Path | None) -> dict[str, Dataset]:
    """Data sets by the names that the file has for them."""
    from segmeter.core import catalogue
    from segmeter.users.replay import NAMES

    opened: dict[str, Dataset] = {}
    for text in texts:
        spec = dataset_spec(text)
        options = dict(spec.options)
        if spec.name != "folder" and data is not None:
            options.setdefault("data", data)
        made = catalogue.datasets.make(spec.name, **options)
        opened[NAMES.get(made.card.name, made.card.name)] = made
    return opened

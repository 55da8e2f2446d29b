"""Averages over classes and data sets, as the paper's tables have them and as they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["DatasetDice", "TableRow", "corrected_row", "published_row"]

# Two folders of one data set: the liver, and the lesions in it.
_ONE_IN_THE_PAPER = {"D11": "D8", "D12": "D8"}


@dataclass(frozen=True, slots=True)
class DatasetDice:
    """Mean Dice over the cases of one class of one data set, 0 to 1."""

    dataset: str
    label: str
    value: float


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table in percent: one value per data set, NaN where there is none, and a mean.

    `complete` tells whether every data set of the table has a value.
    """

    values: Mapping[str, float]
    average: float
    complete: bool


def published_row(given: Sequence[DatasetDice], datasets: Sequence[str]) -> TableRow:
    """The paper's: the average skips data sets that are missing; rounded last, to two digits."""
    values = _of_datasets(given, datasets)
    there = [v for v in values.values() if not np.isnan(v)]
    average = round(float(np.mean(there)), 2) if there else float("nan")
    rounded = {name: round(v, 2) for name, v in values.items()}
    return TableRow(rounded, average, len(there) == len(values))


def corrected_row(given: Sequence[DatasetDice], datasets: Sequence[str]) -> TableRow:
    """The average only where every data set has a value, so that rows compare like with like."""
    values = _of_datasets(given, datasets)
    complete = not any(np.isnan(v) for v in values.values())
    average = float(np.mean(list(values.values()))) if complete and values else float("nan")
    return TableRow(values, average, complete)


def _of_datasets(given: Sequence[DatasetDice], datasets: Sequence[str]) -> dict[str, float]:
    """Percent of each data set: the plain mean over its classes."""
    wanted = dict.fromkeys(_ONE_IN_THE_PAPER.get(name, name) for name in datasets)
    found: dict[str, list[float]] = {name: [] for name in wanted}
    for one in given:
        name = _ONE_IN_THE_PAPER.get(one.dataset, one.dataset)
        if name in found and not np.isnan(one.value):
            found[name].append(one.value)
    return {n: 100 * float(np.mean(v)) if v else float("nan") for n, v in found.items()}

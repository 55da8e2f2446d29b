"""The paper's own tables, for comparison with ours.

Tables 2 to 6 of IntRaBench (2024), percent Dice on D1 to D8. Of Table 5 only rows that can be
read whole are kept. Tables 2, 3 and 5 were made with slice embeddings that were kept by slice
number and never cleared, so that most patients were segmented on another's features: they are
shown, and should not be chased.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from segmeter.benchmarks.report_parts import published_rows
from segmeter.users.volumes.intrabench_prompters import Prompter
from segmeter.users.volumes.intrabench_refiners import Refiner

PAPER_DATASETS = tuple(f"D{i}" for i in range(1, 9))
TITLES = {
    2: "Prompts in every slice (Table 2)",
    3: "Prompts in a few slices (Table 3)",
    4: "Prompts for the whole volume (Table 4)",
    5: "Refinement, slice by slice (Table 5)",
    6: "Refinement of the whole volume (Table 6)",
}
_STALE = (
    "The paper's rows of this table come from code that kept slice embeddings by slice number "
    "and never cleared them; it was mended in January 2025, after the paper. Do not chase them."
)
CAVEATS = {
    2: _STALE,
    3: _STALE,
    4: "",
    5: f"{_STALE} Its '3P Inter' is five-point interpolation.",
    6: "The paper's rows start from one centre point, though they are labelled 1 PPV.",
}


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One printed row; `values` are percent by data set, None where nothing is printed."""

    table: int
    iteration: int
    prompter: str
    model: str
    interactions: str
    values: tuple[float | None, ...]
    average: float | None


@cache
def paper_rows(table: int) -> tuple[PaperRow, ...]:
    """The rows of a table in print order.

    >>> paper_rows(3)[0].average
    4.83
    """
    rows = published_rows("volumes", "paper_tables.csv")
    return tuple(_row(row) for row in rows if int(row["table"]) == table)


def table_of(user: Prompter | Refiner) -> int:
    """Which of the paper's tables a prompter belongs to."""
    if isinstance(user, Refiner):
        return 6 if user.whole else 5
    if user.whole:
        return 4
    return 2 if "PS" in user.label or "Center P" in user.label else 3


def _row(row: dict[str, str]) -> PaperRow:
    return PaperRow(
        int(row["table"]),
        int(row["iteration"]),
        row["prompter"],
        row["model"],
        row["interactions"],
        tuple(_number(row[name]) for name in PAPER_DATASETS),
        _number(row["average"]),
    )


def _number(text: str) -> float | None:
    return float(text) if text else None


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

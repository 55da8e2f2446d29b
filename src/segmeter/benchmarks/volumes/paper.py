"""The paper's own tables, for comparison with ours.

Tables 2 to 6 of IntRaBench (2024), percent Dice on D1 to D8. Of Table 5 only rows that can be
read whole are kept. Tables 2, 3 and 5 were made with slice embeddings that were kept by slice
number and never cleared, so that most patients were segmented on another's features: they are
shown, and should not be chased.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from segmeter.benchmarks.published_tables import published_rows

__all__ = ["CAVEATS", "PAPER_DATASETS", "TITLES", "PaperRow", "paper_rows", "table_of"]

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


def table_of(label: str, whole: bool, refines: bool) -> int:
    """Which of the paper's tables a prompter belongs to.

    >>> table_of("3B Inter", whole=False, refines=False)
    3
    """
    if refines:
        return 6 if whole else 5
    if whole:
        return 4
    return 2 if "PS" in label or "Center P" in label else 3


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

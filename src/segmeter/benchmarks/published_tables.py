"""Published tables that ship with a benchmark, read from its folder."""

from __future__ import annotations

import csv
from importlib import resources

__all__ = ["published_rows"]


def published_rows(benchmark: str, file: str) -> list[dict[str, str]]:
    """Rows by column, as text.

    >>> published_rows("zeroshot.edges", "table5.csv")[0]["method"]
    'HED'
    """
    folder = resources.files(f"segmeter.benchmarks.{benchmark}")
    return list(csv.DictReader(folder.joinpath(file).read_text("utf-8").splitlines()))

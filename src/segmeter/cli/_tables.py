"""Tables on the terminal: the summary of a run in 80 columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from segmeter.core import catalogue
from segmeter.core.benchmarks import SummaryRow
from segmeter.core.errors import BadInput
from segmeter.engine.runner import Tally
from segmeter.store import Run

__all__ = ["print_summary", "summary_json", "summary_of"]

_SHOWN = ("noc@90", "nof@90", "auc", "iou@1", "seconds-to-90")


def summary_of(run: Run) -> list[SummaryRow]:
    """The benchmark's own summary of a run."""
    rows: list[SummaryRow] = catalogue.benchmarks.make(run.plan.benchmark).summary(run)
    return rows


def summary_json(rows: Sequence[SummaryRow]) -> str:
    return json.dumps({"rows": [asdict(row) for row in rows]}, indent=1, allow_nan=True)


def print_summary(out: Path, tally: Tally, as_json: bool) -> None:
    """What a run gave, then where to look further."""
    run = Run.open(out)
    try:
        rows = summary_of(run)
    except BadInput:
        rows = []  # every job failed: there is nothing to summarise
    if as_json:
        print(summary_json(rows))
        return
    console = Console(width=min(Console().width, 100))
    for table in _tables(rows):
        console.print(table)
    if tally.failed:
        console.print(f"{tally.failed} scenes failed; 'segmeter report {out}' names them")
    console.print(f"rows in {out}; next: segmeter report {out}", soft_wrap=True, markup=False)


def _tables(rows: Sequence[SummaryRow]) -> list[Table]:
    """One table a data set and user; models and readings down, measures across."""
    tables = []
    for dataset, user in dict.fromkeys((row.dataset, row.user) for row in rows):
        here = [row for row in rows if (row.dataset, row.user) == (dataset, user)]
        known = [row.measure for row in here]
        shown = [m for m in _SHOWN if m in known] or list(dict.fromkeys(known))[:5]
        table = Table("model", "reading", title=f"{dataset}, {user}" if user else dataset)
        for name in shown:
            table.add_column(name, justify="right")
        for model, reading in dict.fromkeys((row.model, row.reading) for row in here):
            values = {r.measure: r for r in here if (r.model, r.reading) == (model, reading)}
            cells = [_cell(values.get(name)) for name in shown]
            table.add_row(model, reading, *cells)
        tables.append(table)
    return tables


def _cell(row: SummaryRow | None) -> str:
    if row is None:
        return ""
    digits = 0 if row.measure.startswith("nof") else 2 if abs(row.value) >= 1 else 3
    return f"{row.value:.{digits}f}\n{row.low:.{digits}f}–{row.high:.{digits}f}"

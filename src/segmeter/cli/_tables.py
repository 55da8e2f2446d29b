"""Tables on the terminal: the summary of a run in 80 columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from segmeter.core.benchmarks import SummaryRow
from segmeter.core.errors import BadInput
from segmeter.engine.runner import Tally
from segmeter.store import Run

__all__ = ["print_summary", "summary_json"]

_SHOWN = ("noc@90", "nof@90", "auc", "iou@1", "seconds-to-90")


def summary_json(rows: Sequence[SummaryRow]) -> str:
    return json.dumps({"rows": [asdict(row) for row in rows]}, indent=1, allow_nan=True)


def print_summary(out: Path, tally: Tally, as_json: bool) -> None:
    """What a run gave, then where to look further."""
    run = Run.open(out)
    try:
        rows = run.summary()
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
        title = ", ".join(filter(None, (dataset, user, f"{here[0].targets} targets")))
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("model\nreading", no_wrap=True)
        for name in shown:
            table.add_column(name, justify="right", no_wrap=True)
        for model, reading in dict.fromkeys((row.model, row.reading) for row in here):
            values = {r.measure: r for r in here if (r.model, r.reading) == (model, reading)}
            table.add_row(f"{model}\n{reading}", *(_cell(values.get(name)) for name in shown))
        tables.append(table)
    return tables


def _cell(row: SummaryRow | None) -> str:
    """A value over its interval, in as few characters as tell it apart."""
    if row is None:
        return ""
    if row.measure.startswith("nof"):
        return f"{row.value:.0f}\n{row.low:.0f}–{row.high:.0f}"
    return f"{row.value:.2f}\n{row.low:.1f}–{row.high:.1f}"

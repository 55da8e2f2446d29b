"""Tables on the terminal: the summary of a run in 80 columns."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from segmeter.cli._words import printable
from segmeter.core import catalogue
from segmeter.core.benchmarks import StatisticCard, SummaryRow
from segmeter.core.capabilities import ChoosesUsers
from segmeter.core.dataset_names import display_names
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.wording import counted
from segmeter.engine.runner import Tally
from segmeter.store import Run
from segmeter.store.places import Address

__all__ = ["print_summary", "rows_json", "summary_json"]

_WIDTH = 5  # measures that fit
_LONG = 18  # characters of a model's name that fit beside them


def summary_json(rows: Sequence[SummaryRow]) -> str:
    return rows_json([asdict(row) for row in rows])


def rows_json(rows: Sequence[Mapping[str, object]]) -> str:
    """`{"rows": [...]}`; a number that is not known, as the limits of one scene, is null."""

    def known(value: object) -> object:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    plain = [{key: known(value) for key, value in row.items()} for row in rows]
    return json.dumps({"rows": plain}, indent=1, allow_nan=False)


def print_summary(out: Address, tally: Tally, as_json: bool, *, reported: bool = False) -> None:
    """What a run gave, then where to look further, unless its report is written anyway.

    Whoever has just played it trusts what it names.
    """
    run = Run.open(out, trust=True)
    try:
        rows = run.summary()
    except BadInput:
        rows = []  # every job failed: there is nothing to summarise
    except NotFound as error:
        print(error, file=sys.stderr)  # the run itself is done
        rows = []
    if as_json:
        print(summary_json(rows))
        return
    names = display_names(run.plan.datasets)  # a folder by its last part
    rows = [replace(row, dataset=names.get(row.dataset, row.dataset)) for row in rows]
    console = Console(width=min(Console().width, 100), markup=False)
    cards = {card.name: card for card in run.benchmark.statistics(run)} if rows else {}
    shown = [name for name in run.benchmark.headline if name in cards]
    unit = "scene" if run.plan.kind == "method" else "target"
    for table in _tables(rows, shown, cards, unit):
        console.print(table)
    benchmark = run.benchmark
    missing = benchmark.left_out(run) if rows and isinstance(benchmark, ChoosesUsers) else []
    for said in (*missing, *_closing(out, tally, reported)):
        console.print(printable(said), soft_wrap=True, markup=False, highlight=False)


def _closing(out: Address, tally: Tally, reported: bool) -> list[str]:
    """How many jobs failed, and where to look next; a run without rows has no report."""
    count = counted(tally.failed, "job")  # one model on one scene
    if tally.failed and not tally.done + tally.before:
        return [f"{count} failed and none was finished; their errors are in {out}/errors"]
    named = [f"{count} failed; 'segmeter report {out}' names them"] if tally.failed else []
    return [*named, f"rows in {out}" if reported else f"rows in {out}; next: segmeter report {out}"]


def _tables(
    rows: Sequence[SummaryRow],
    headline: Sequence[str],
    cards: Mapping[str, StatisticCard],
    unit: str,
) -> list[Table]:
    """One table per data set and user; models and protocols down, headline statistics across."""
    tables = []
    for dataset, user in dict.fromkeys((row.dataset, row.user) for row in rows):
        here = [row for row in rows if (row.dataset, row.user) == (dataset, user)]
        known = [row.measure for row in here if row.measure in cards]
        shown = [m for m in headline if m in known] or list(dict.fromkeys(known))[:_WIDTH]
        count = counted(here[0].targets, unit)
        title = printable(", ".join(filter(None, (dataset, user, count))))
        table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("model\nreading", overflow="fold", max_width=24)
        shown = _fitting(here, shown, cards)
        for name in shown:
            table.add_column(name, justify="right", no_wrap=True)
        for model, protocol in dict.fromkeys((row.model, row.protocol) for row in here):
            values = {r.measure: r for r in here if (r.model, r.protocol) == (model, protocol)}
            cells = (_cell(values.get(name), cards[name]) for name in shown)
            label = printable(f"{_in_lines(catalogue.short(model))}\n{protocol}")
            table.add_row(Text(label), *cells)
        tables.append(table)
    return tables


def _in_lines(model: str) -> str:
    """A long `file.py:name` breaks behind its colon, so that no word is broken.

    >>> _in_lines("mine.py:Net"), _in_lines("own_model.py:Lookalike")
    ('mine.py:Net', 'own_model.py:\\nLookalike')
    """
    return model.replace(".py:", ".py:\n") if len(model) > _LONG else model


def _fitting(
    rows: Sequence[SummaryRow], shown: Sequence[str], cards: Mapping[str, StatisticCard]
) -> list[str]:
    """As many measures as stand beside the models' names without breaking these."""
    left = min(Console().width, 100) - min(24, max(len(catalogue.short(r.model)) for r in rows)) - 2
    fitting: list[str] = []
    for name in shown:
        cells = [_cell(r, cards[name]) for r in rows if r.measure == name]
        lines = [line for cell in cells for line in cell.split("\n")]
        left -= max(map(len, (name, *lines))) + 2
        if left < 0 and fitting:
            break
        fitting.append(name)
    return fitting


def _cell(row: SummaryRow | None, card: StatisticCard) -> str:
    """A value over its interval, whose limits have one decimal less."""
    if row is None:
        return ""
    if not (math.isfinite(row.low) and math.isfinite(row.high)):
        return f"{row.value:.{card.digits}f}"  # one image says nothing about others
    return f"{row.value:.{card.digits}f}\n{_span(row, max(0, card.digits - 1))}"


def _span(row: SummaryRow, places: int) -> str:
    """An interval; in words where a dash would stand beside a minus."""
    low, high = f"{row.low:.{places}f}", f"{row.high:.{places}f}"
    if low == high:  # all alike: no width to tell
        return ""
    return f"{low} to {high}" if "-" in low + high else f"{low}–{high}"

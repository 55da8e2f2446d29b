"""`segmeter leaderboard`: many runs on one page, every protocol, best first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segmeter import __version__
from segmeter.cli._option_values import settings
from segmeter.cli._options import Cost, GoalChoice, Runs
from segmeter.cli.app import Exit, app
from segmeter.core.benchmarks import Difference, SummaryRow
from segmeter.core.dataset_names import dataset_label, dataset_names, display_names
from segmeter.core.sections import Block, Cell, Column, Section, Table, Value
from segmeter.core.wording import counted

if TYPE_CHECKING:
    from segmeter.report.page import Page
    from segmeter.store import Run

__all__ = ["board", "leaderboard"]

_WIDTH = 6
_SHARES = ("edges", "proposals", "seism")  # whose numbers are of 1, as their papers print them
_UNITS = (
    ("^nof@", "objects"),
    ("^noc@|^(base|sample|std)-noc$", "clicks"),
    ("^seconds-to|^seconds$|^waiting", "s per object"),
    ("^seconds", "s"),
    ("^interactions|^effort", "per object"),
    ("iou|auc|^dice|^nsd|^oracle|^never@|^area|ap|ar@|^d(sb|gr|hh)-|^nsr|^std@", "%"),
)

To = Annotated[Path, typer.Option("--to", "--out", "-o", help="The page to write.")]


@app.command()
def leaderboard(
    runs: Runs,
    to: To = Path("leaderboard.html"),
    cost: Cost = None,
    goal: GoalChoice = None,
) -> int:
    """Set the models of many runs side by side on one page, each protocol by itself.

    Example: `segmeter leaderboard runs/one runs/two`
    """
    from segmeter.report.page import render
    from segmeter.store import Run
    from segmeter.store.local import write_file

    results = Run.open(runs, settings=settings(cost, goal))
    write_file(to, render(board(results, len(runs))).encode())
    typer.echo(f"leaderboard: {to}")
    return Exit.DONE


def board(results: Run, runs: int) -> Page:
    """The page of so many runs, read as one."""
    from segmeter.core import catalogue
    from segmeter.report.page import Page

    plan = results.plan
    sections = sections_of(results)
    entry = catalogue.benchmarks.entry(plan.benchmark)
    names = ", ".join(display_names(plan.datasets).values())
    counts = [counted(len(plan.segmenters), plan.kind), counted(runs, "run")]
    counts += [counted(plan.rounds, "round")] if plan.users else []
    title = f"Leaderboard: {plan.benchmark} on {names}"
    facts = [", ".join(counts), f"segmeter {__version__}"]
    return Page(title, entry.summary, facts, sections, "ProtocolName")


def sections_of(run: Run) -> list[Section]:
    """One section per protocol, to be chosen from; the corrected one first."""
    from segmeter.report.wording import protocol_note

    names = dataset_names(run.plan.datasets)
    rows, found = run.summary(), run.differences()
    rows = [replace(r, dataset=names.get(r.dataset, r.dataset)) for r in rows]
    shown = list(getattr(run.benchmark, "headline", ()))
    shares = run.plan.benchmark in _SHARES
    protocols = sorted({r.protocol for r in rows}, key=lambda r: r != "corrected")
    return [
        Section(
            protocol,
            f"{protocol_note[protocol].capitalize()}. Strong: better than every other model, and "
            "that is significant. Best first, by the first column.",
            _tables([r for r in rows if r.protocol == protocol], found, shown, shares),
        )
        for protocol in protocols
    ]


def _tables(
    rows: Sequence[SummaryRow],
    found: Sequence[Difference],
    headline: Sequence[str],
    shares: bool,
) -> list[Block]:
    """One table per data set and user, ordered by its first statistic."""
    blocks: list[Block] = []
    for dataset, user in dict.fromkeys((r.dataset, r.user) for r in rows):
        here = [r for r in rows if (r.dataset, r.user) == (dataset, user)]
        known = list(dict.fromkeys(r.measure for r in here))
        shown = ([m for m in headline if m in known] or known)[:_WIDTH]
        values = {(r.model, r.measure): r for r in here}
        models = sorted({r.model for r in here}, key=lambda m: _place(values.get((m, shown[0]))))
        body: list[list[Cell]] = [
            [model, *(_value(values.get((model, m)), found, len(models)) for m in shown)]
            for model in models
        ]
        columns = [Column("model"), *(_column(m, shares) for m in shown)]
        where = ", ".join(filter(None, (dataset_label(dataset), user)))
        caption = f"{where}: n = {max(r.targets for r in here)}"
        blocks.append(Table(f"board-{len(blocks)}-{here[0].protocol}", columns, body, caption))
    return blocks


def _column(measure: str, shares: bool) -> Column:
    """A statistic's column: counts without decimals, shares of 1 with three, all else with two."""
    unit = next((unit for start, unit in _UNITS if re.search(start, measure)), "")
    if measure.startswith("nof@"):
        return Column(measure, unit, 0)
    return Column(measure, digits=3) if shares else Column(measure, unit, 2)


def _place(row: SummaryRow | None) -> float:
    """Where a model stands: the best has the smallest."""
    if row is None or row.value != row.value:
        return float("inf")
    return row.value if _less_is_better(row.measure) else -row.value


def _less_is_better(measure: str) -> bool:
    """Whether a benchmark's statistic counts what nobody wants.

    >>> [_less_is_better(m) for m in ("noc@90", "sample-noc", "iou-d", "iou-min", "dice")]
    [True, True, True, False, False]
    """
    losses = (
        "noc@",
        "nof@",
        "never@",
        "seconds",
        "waiting",
        "interactions",
        "dsb",
        "dgr",
        "dhh",
        "voi",
    )
    return measure.startswith(losses) or measure.endswith(("-noc", "-d", "-nsr"))


def _value(row: SummaryRow | None, found: Sequence[Difference], models: int) -> Value:
    if row is None:
        return Value(None)
    return Value(row.value, row.low, row.high, best=_stands_out(row, found, models))


def _stands_out(row: SummaryRow, found: Sequence[Difference], models: int) -> bool:
    """Whether a model differs from every other one on the good side, and that is significant."""
    here = [
        d
        for d in found
        if row.model in (d.first, d.second)
        and (d.dataset, d.user, d.protocol, d.measure)
        == (row.dataset, row.user, row.protocol, row.measure)
    ]
    less = _less_is_better(row.measure)
    ahead = [d.significant and ((d.value < 0) == (d.first == row.model)) == less for d in here]
    return models > 1 and len(ahead) == models - 1 and all(ahead)

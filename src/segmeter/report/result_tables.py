"""Result tables: models down, statistics across, as papers print them and as a leaderboard.

A number is bold only where its model is significantly better than every other one on that dataset
(paired permutation test, Holm). Where models were not scored on the same objects, each number of
objects is a column.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from segmeter import __version__
from segmeter.core import catalogue
from segmeter.core.benchmarks import Difference, PaperLayout, SummaryRow
from segmeter.core.catalogue import short
from segmeter.core.errors import BadInput, NotFound, check_choice, suggestion
from segmeter.core.grouping import grouped
from segmeter.core.plans import display_names
from segmeter.core.received_runs import received
from segmeter.core.sections import Block, Cell, Column, Note, Section, Table, Value
from segmeter.core.wording import counted
from segmeter.report.elements import protocol_note
from segmeter.report.page import Page
from segmeter.report.provenance import rounds_text, unfinished
from segmeter.stats.statistics import Statistic, standing_out
from segmeter.store import Run

_FEW = 6


@dataclass(frozen=True, slots=True)
class TableChoice:
    """Choices of a paper's author; empty fields leave the usual table."""

    columns: Sequence[str] = ()  # statistics in their order
    models: Sequence[str] = ()
    datasets: Sequence[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)  # as models and datasets are shown


def paper_table(run: Run, protocol: str, choice: TableChoice) -> Table:
    """A run's table as its papers print it: the benchmark's own columns for every dataset."""
    check_choice("protocol", protocol, ("published", "corrected"))
    labels = display_names(run.plan.datasets)
    rows = _chosen(run, protocol, choice, labels)
    known = {m: (m, short(m)) for m in map(str, run.plan.segmenters)}
    known |= {d: (d, n) for d, n in labels.items()}
    _places("model or dataset", list(choice.names), known)
    cards = {card.name: card for card in reversed(run.benchmark.statistics(run))}
    layout = run.benchmark.paper_table(run) or _headline(run, cards)
    if choice.columns:
        layout = replace(layout, caption=f"Results of {run.plan.benchmark}")
    shown = _shown(rows, layout, cards, choice.columns)
    rows = [row for row in rows if row.statistic in shown]
    names = {
        n: choice.names.get(n) or choice.names.get(label, label) for n, label in labels.items()
    }
    tested = [name for name in shown if cards[name].testable]
    sizes, best = _sizes(run), standing_out(rows, run.benchmark.differences(run, tested), cards)
    models = list(dict.fromkeys(row.model for row in rows))
    body: list[list[Cell]] = []
    for model in models:
        named = choice.names.get(model) or choice.names.get(short(model)) or short(model)
        body.append([named, *([sizes.get(model)] if sizes else [])])
    columns = [Column("method"), *([Column("Params (M)", digits=1)] if sizes else [])]
    places = grouped(rows, lambda row: (row.dataset, row.user))
    several = len({user for _, user in places}) > 1
    for (dataset, user), here in places.items():
        group = names.get(dataset, dataset) + (f", {user}" if several else "")
        heads = {n: Column(t, digits=cards[n].digits, group=group) for n, t in shown.items()}
        number = Column("n", digits=0, group=group)
        more, cells = _place_columns(here, models, heads, number, best)
        columns += more
        for line, own in zip(body, cells, strict=True):
            line += own
    caption = _caption(run, layout, places, names, protocol)
    return Table(f"{run.plan.benchmark}-{protocol}", columns, body, caption)


def _place_columns(
    rows: Sequence[SummaryRow],
    models: Sequence[str],
    columns: Mapping[str, Column],
    number: Column,
    best: Collection[Any],
) -> tuple[list[Column], list[list[Cell]]]:
    """Columns of one dataset and user, and the cells of each model; objects where they differ."""
    counts, values = _counts(rows), {(r.model, r.statistic): r for r in rows}
    uneven = len(set(counts.values())) > 1
    cells: list[list[Cell]] = []
    for model in models:
        found = [values.get((model, name)) for name in columns]
        shown = [Value.of(r, r is not None and (r.key, r.statistic) in best) for r in found]
        cells.append([*([counts.get(model, 0)] if uneven else []), *shown])
    return [*([number] if uneven else []), *columns.values()], cells


_model = attrgetter("model")
_AT_GOAL = re.compile(r"[@-][5-9]\d$")  # percent of a goal, as in noc@90; iou@10 is of a round


def _counts(rows: Sequence[SummaryRow]) -> dict[str, int]:
    """How many objects each model was scored on."""
    return {m: max(row.targets for row in own) for m, own in grouped(rows, _model).items()}


def _chosen(
    run: Run, protocol: str, choice: TableChoice, labels: Mapping[str, str]
) -> list[SummaryRow]:
    """Rows of the summary in the order of the plan, or in that of the choice."""
    rows = [row for row in run.summary() if row.protocol == protocol]
    if not rows:
        raise BadInput(f"the run has no protocol '{protocol}'")
    models = [str(spec) for spec in run.plan.segmenters]
    of_models = _places("model", choice.models, {m: (m, short(m)) for m in models})
    of_data = _places("dataset", choice.datasets, {d: (d, n) for d, n in labels.items()})
    kept = [row for row in rows if row.model in of_models and row.dataset in of_data]
    return sorted(kept, key=lambda row: (of_models[row.model], of_data[row.dataset]))


def _places(
    what: str, wanted: Sequence[str], known: Mapping[str, tuple[str, str]]
) -> dict[str, int]:
    """The place of each name; of all where none are wanted."""
    if not wanted:
        return {name: place for place, name in enumerate(known)}
    found = {}
    for place, word in enumerate(wanted):
        matches = [name for name, called in known.items() if word in called]
        if not matches:
            labels = [shown for _, shown in known.values()]
            hint = suggestion(word, labels)
            raise NotFound(f"the run has no {what} '{word}';{hint} it has {', '.join(labels)}")
        found[matches[0]] = place
    return found


def _shown(
    rows: Sequence[SummaryRow],
    layout: PaperLayout,
    cards: Mapping[str, Statistic],
    columns: Sequence[str],
) -> dict[str, str]:
    """Statistics of the columns with their headings: those of the layout, or as chosen."""
    known = list(dict.fromkeys(row.statistic for row in rows if row.statistic in cards))
    for name in columns:
        others = [one for one in known if _AT_GOAL.search(one) and one[:-2] == name[:-2]]
        if others and _AT_GOAL.search(name) and name not in known:
            has = ", ".join(others)
            goal = f"--goal {name[-2:]}"
            raise NotFound(f"no statistic '{name}' without {goal}; the run has {has}")
    _places("statistic", columns, {name: (name, name) for name in known})
    if columns:
        return {name: cards[name].title for name in columns}
    shown = {name: title for name, title in layout.columns.items() if name in known}
    if not shown:
        raise BadInput(f"the run has none of {', '.join(layout.columns)}")
    return shown


def _headline(run: Run, cards: Mapping[str, Statistic]) -> PaperLayout:
    """The columns of a benchmark without a table of its own: its headline, or what it has."""
    known = [row.statistic for row in run.summary() if row.statistic in cards]
    names = run.headline() or list(dict.fromkeys(known))[:_FEW]
    shown = {name: cards[name].title for name in names}
    return PaperLayout(shown, f"Results of {run.plan.benchmark}")


def _caption(
    run: Run,
    layout: PaperLayout,
    places: Mapping[tuple[str, str], Sequence[SummaryRow]],
    names: Mapping[str, str],
    protocol: str,
) -> str:
    scored = {place: set(_counts(rows).values()) for place, rows in places.items()}
    sizes = (f"{names.get(d, d)}: n = {max(n)}" for (d, _), n in scored.items())
    counts = ", ".join(dict.fromkeys(sizes))  # once for all users
    users = ", ".join(dict.fromkeys(user for _, user in places if user))
    ran = f"{rounds_text(run)} by {users}, " if users else ""
    warning = (
        " Models were not scored on the same objects (columns n): compare their paired "
        "differences, not these means."
        if any(len(n) > 1 for n in scored.values())
        else ""
    )
    return (
        f"{layout.caption}. {counts}; {ran}protocol {protocol}. Bold: significantly better than "
        f"every other model at 5 % (paired permutation test, Holm).{warning}"
        f"{''.join(f' {sentence}' for sentence in unfinished(run))}"
    )


def _sizes(run: Run) -> dict[str, float]:
    """Millions of parameters of each model, where its rows have them; classical ones have none."""
    known = run.provenance["segmenters"].items()
    counts = {name: str(facts.get("parameters", "")) for name, facts in known}
    return {n: int(t) / 1e6 for n, t in counts.items() if t.isdecimal() and int(t)}


_WIDTH = 6


def leaderboard_page(results: Run, runs: int = 1) -> Page:
    """The page of so many runs, read as one."""
    plan = results.plan
    sections = sections_of(results)
    with received(not results.trust):
        entry = catalogue.benchmarks.entry(plan.benchmark)
    names = ", ".join(display_names(plan.datasets).values())
    counts = [counted(len(plan.segmenters), plan.kind), counted(runs, "run")]
    counts += [rounds_text(results)] if plan.users else []
    title = f"Leaderboard: {plan.benchmark} on {names}"
    facts = [", ".join(counts), f"segmeter {__version__}"]
    return Page(title, entry.summary, facts, sections, "Protocol")


def sections_of(run: Run) -> list[Section]:
    """One section per protocol, to be chosen from; the corrected one first."""
    rows, titles = run.summary(), display_names(run.plan.datasets)
    cards = {card.name: card for card in reversed(run.benchmark.statistics(run))}
    headline = run.headline()
    found = run.benchmark.differences(run, [n for n in headline if cards[n].testable])
    warned: list[Block] = [Note(sentence, "warning") for sentence in unfinished(run)]
    protocols = sorted({r.protocol for r in rows}, key=lambda r: r != "corrected")
    return [
        Section(
            protocol,
            f"{protocol_note[protocol].capitalize()}. Bold: significantly better than every "
            "other model. Best first, by the first column.",
            warned
            + _tables([r for r in rows if r.protocol == protocol], found, headline, cards, titles),
        )
        for protocol in protocols
    ]


def _tables(
    rows: Sequence[SummaryRow],
    found: Sequence[Difference],
    headline: Sequence[str],
    cards: Mapping[str, Statistic],
    titles: Mapping[str, str],
) -> list[Block]:
    """One table per dataset and user, ordered by its first statistic."""
    blocks: list[Block] = []
    best = standing_out(rows, found, cards)
    for (dataset, user), here in grouped(rows, lambda row: (row.dataset, row.user)).items():
        known = list(dict.fromkeys(r.statistic for r in here if r.statistic in cards))
        shown = [cards[m] for m in ([m for m in headline if m in known] or known)[:_WIDTH]]
        if not shown:
            continue
        models, counts = _ranked(here, shown[0]), _counts(here)
        heads = {s.name: Column(s.title, s.unit, s.digits) for s in shown}
        columns, cells = _place_columns(here, models, heads, Column("n", "objects", 0), best)
        body = [[model, *own] for model, own in zip(models, cells, strict=True)]
        where = ", ".join(filter(None, (titles.get(dataset, dataset), user)))
        caption = f"{where}: n = {max(counts.values())}"
        if len(set(counts.values())) > 1:
            caption += "; some models lack objects (column n), so that means do not compare"
        name = f"board-{len(blocks)}-{here[0].protocol}"
        blocks.append(Table(name, [Column("model"), *columns], body, caption))
    return blocks


def _ranked(rows: Sequence[SummaryRow], card: Statistic) -> list[str]:
    """Models by a statistic, the best first; those that do not have it come last."""
    values = {row.model: row.value for row in rows if row.statistic == card.name}

    def place(model: str) -> float:
        value = values.get(model, float("nan"))
        if value != value:
            return float("inf")
        return value if card.better == "lower" else -value

    return sorted(dict.fromkeys(row.model for row in rows), key=place)

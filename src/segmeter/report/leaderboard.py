"""The leaderboard: models of one or many runs on one page, each protocol by itself, best first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from segmeter import __version__
from segmeter.core import catalogue
from segmeter.core.benchmarks import Difference, SummaryRow
from segmeter.core.plans import display_names
from segmeter.core.received_runs import received
from segmeter.core.sections import Block, Cell, Column, Note, Section, Table, Value
from segmeter.core.wording import counted
from segmeter.report.elements import protocol_note
from segmeter.report.page import Page
from segmeter.report.provenance import rounds_text, unfinished
from segmeter.stats.statistics import Statistic, standing_out
from segmeter.store import Run

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
    for dataset, user in dict.fromkeys((r.dataset, r.user) for r in rows):
        here = [r for r in rows if (r.dataset, r.user) == (dataset, user)]
        known = list(dict.fromkeys(r.statistic for r in here if r.statistic in cards))
        shown = [cards[m] for m in ([m for m in headline if m in known] or known)[:_WIDTH]]
        if not shown:
            continue
        values = {(r.model, r.statistic): r for r in here}
        models = _ranked(list(dict.fromkeys(r.model for r in here)), values, shown[0])
        scored = {m: max(r.targets for r in here if r.model == m) for m in models}
        uneven = len(set(scored.values())) > 1
        body: list[list[Cell]] = [
            [
                model,
                *([scored[model]] if uneven else []),
                *(
                    Value.of(row, row is not None and (row.key, row.statistic) in best)
                    for row in (values.get((model, s.name)) for s in shown)
                ),
            ]
            for model in models
        ]
        columns = [
            Column("model"),
            *([Column("n", "objects", 0)] if uneven else []),
            *(Column(s.title, s.unit, s.digits) for s in shown),
        ]
        where = ", ".join(filter(None, (titles.get(dataset, dataset), user)))
        caption = f"{where}: n = {max(scored.values())}"
        if uneven:
            caption += "; some models lack objects (column n), so that means do not compare"
        blocks.append(Table(f"board-{len(blocks)}-{here[0].protocol}", columns, body, caption))
    return blocks


def _ranked(
    models: Sequence[str], values: Mapping[tuple[str, str], SummaryRow], card: Statistic
) -> list[str]:
    """Models by a statistic, the best first; those that do not have it come last."""

    def place(model: str) -> float:
        row = values.get((model, card.name))
        if row is None or row.value != row.value:
            return float("inf")
        return row.value if card.better == "lower" else -row.value

    return sorted(models, key=place)

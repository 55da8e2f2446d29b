"""The leaderboard: all models, the cheapest first, and the first against every other one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from segmeter.benchmarks.difference_table import P_VALUE
from segmeter.benchmarks.noc.answer import drawn_by_hand
from segmeter.benchmarks.noc.comparison import Comparison
from segmeter.core.benchmarks import Difference
from segmeter.core.sections import Cell, Column, Table, Value
from segmeter.core.wording import counted
from segmeter.stats.rankings import first_shares
from segmeter.stats.statistics import resampling

__all__ = ["HARDEST", "comparison_table", "leaderboard"]

HARDEST = "hardest-objects"  # the section's anchor


def leaderboard(comparison: Comparison, name: str) -> Table:
    """All models of a comparison, the cheapest first."""
    goal, group = comparison.goals.lead, comparison.groups[0]
    shown = {
        comparison.seconds: Column(
            f"a person's time to {goal.text}", "seconds per object", 1, better="lower", plot=True
        ),
        comparison.clicks: Column(
            f"{comparison.prompts} to {goal.short}", f"NoC@{goal.tag}", 2, better="lower"
        ),
        comparison.never: Column("never reach it", f"of {len(group.keys)} objects", 0),
        "auc": Column("quality over all clicks", "IoU AuC, %", 1, better="higher"),
        "iou@1": Column("after one click", "IoU@1, %", 1, better="higher"),
    }
    measures = {m: c for m, c in shown.items() if (comparison.models[0], m) in comparison.rows}
    columns = [Column("model"), *measures.values()]
    firsts = _first_shares(comparison)
    if firsts:
        columns.append(Column("comes first", "% of resamples", 0, percent=True))
    rows: list[list[Cell]] = [
        [model, *(_cell(comparison, model, m) for m in measures), *firsts.get(model, [])]
        for model in comparison.models
    ]
    return Table(
        name,
        columns,
        rows,
        caption=f"{comparison.title}: {counted(len(group.keys), 'object')} in "
        f"{counted(len(set(group.clusters)), 'image')}, {counted(group.rounds, 'round')}, "
        f"protocol {comparison.protocol}",
        note="95 % intervals from resampling images. Strong: better than every other model, "
        "and that is significant. An object that never reaches the goal costs its rounds and "
        f"{drawn_by_hand(comparison.cost)} by hand.",
    )


def _cell(comparison: Comparison, model: str, measure: str) -> Value:
    """A number of the leaderboard; failures lead to the objects behind them."""
    value = replace(comparison.value(model, measure), best=comparison.stands_out(model, measure))
    return replace(value, link=HARDEST) if measure == comparison.never and value.value else value


def _first_shares(comparison: Comparison) -> dict[str, list[Value]]:
    """How often each model costs least under resampling.

    Empty when models cannot be paired, when there is but one image to draw, and when
    the first fails on more than half: a place among failures is no merit.
    """
    groups = comparison.groups
    if len(groups) < 2 or any(g.keys != groups[0].keys for g in groups):
        return {}
    if len(set(groups[0].clusters)) < 2 or any(map(comparison.fails_most, comparison.models)):
        return {}
    values = np.stack([comparison.per_object(g, comparison.seconds) for g in groups])
    shares = first_shares(values, resampling(groups[0]), "lower")
    return {g.model: [Value(float(s))] for g, s in zip(groups, shares, strict=True)}


def comparison_table(comparison: Comparison, name: str) -> Table | None:
    """The first model against every other one, as far as it is significant."""
    best = comparison.models[0]
    found = [
        d
        for other in comparison.models[1:]
        for measure in comparison.tested
        if (d := comparison.behind(other, best, measure)) is not None
    ]
    if not found:
        return None
    pairs = len(comparison.models) * (len(comparison.models) - 1) // 2
    better = {name: card.better for name, card in comparison.statistics.items()}
    return Table.of(
        name,
        found,
        {
            Column("first"): lambda d: d.first,
            Column("second"): lambda d: d.second,
            Column("statistic"): lambda d: _named(d.measure, comparison),
            Column("difference", "first − second", 2): Value.of,
            P_VALUE: lambda d: d.p_holm,
            Column("conclusion"): lambda d: _conclusion(d, pairs, better[d.measure]),
        },
        caption=comparison.title,
        note="Paired on the same objects, with 95 % intervals from resampling images; p by "
        "exchanging the two models within images, corrected for the number of pairs.",
    )


def _named(measure: str, comparison: Comparison) -> str:
    goal = comparison.goals.lead
    names = {
        comparison.seconds: f"a person's seconds to {goal.short}",
        comparison.clicks: f"{comparison.prompts} to {goal.short}",
        "auc": "IoU AuC, % points",
        "iou@1": "IoU after one click, % points",
    }
    return names.get(measure, measure)


def _conclusion(d: Difference, pairs: int, direction: str) -> str:
    if not d.significant:
        return f"not significant{_at_odds(d, pairs)}"
    if not direction:
        return f"significant: they differ{_at_odds(d, pairs)}"
    lower = d.first if d.value < 0 else d.second
    higher = d.second if lower == d.first else d.first
    better = lower if direction == "lower" else higher
    return f"significant: {better} is better{_at_odds(d, pairs)}"


def _at_odds(d: Difference, pairs: int) -> str:
    """Why interval and p value seem to disagree, where they do."""
    apart = d.low > 0 or d.high < 0
    if apart and not d.significant:
        if d.p < 0.05:
            return (
                f" (the interval leaves out 0 but is for this pair alone; p is for {pairs} pairs)"
            )
        return (
            " (the interval leaves out 0; the exchange test, exact for few images, does not"
            " reach 5 %)"
        )
    if d.significant and not apart and np.isfinite(d.low):
        return (
            " (the interval touches 0: it is wider than the exchange test where values are skewed)"
        )
    return ""

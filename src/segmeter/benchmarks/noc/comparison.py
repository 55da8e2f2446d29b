"""Models compared on the same data with the same user: leaderboard and differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.noc import statistics as noc
from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.core.grouping import grouped
from segmeter.core.plans import display_names
from segmeter.core.sections import Cell, Column, Table, Value
from segmeter.core.wording import counted
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.comparisons import first_shares
from segmeter.stats.goals import Goals, area_under
from segmeter.stats.intervals import Floats
from segmeter.stats.statistics import Statistic, resampling, standing_out


def _name_at_lead(factory: Callable[..., Statistic]) -> Any:
    """The name of a statistic at the leading goal, as a property."""
    return property(lambda comparison: factory(comparison.goals.lead).name)


@dataclass(frozen=True)
class Comparison:
    """Models that were run on the same data by the same user, in one protocol.

    `title` says where, as short as the run allows; `groups` come cheapest first.
    """

    findings: parts.Findings
    title: str
    groups: Sequence[noc.ClickSessions]

    seconds = _name_at_lead(noc.seconds_until)  # orders the models
    clicks = _name_at_lead(noc.clicks_to)
    never = _name_at_lead(noc.never_reached)
    waiting = _name_at_lead(noc.waiting_until)
    pay = _name_at_lead(noc.clicks_that_pay)  # before correcting by hand does, where measured

    @cached_property
    def goals(self) -> Goals:
        return noc.goals_of(self.findings.run)

    @cached_property
    def rows(self) -> dict[tuple[str, str], SummaryRow]:
        """The summary's rows by model and statistic."""
        keys = {group.key for group in self.groups}
        return {(r.model, r.statistic): r for r in self.findings.rows if r.key in keys}

    @cached_property
    def differences(self) -> list[Difference]:
        where, found = self.groups[0].comparison, tested_differences(self.findings)
        return [d for d in found if (d.dataset, d.user, d.protocol) == where]

    @cached_property
    def best(self) -> set[tuple[tuple[str, str, str, str], str]]:
        """Groups and statistics to set bold."""
        return standing_out(self.rows.values(), self.differences, self.findings.cards)

    @property
    def cost(self) -> CostModel:
        return self.groups[0].cost

    @property
    def models(self) -> list[str]:
        return [group.model for group in self.groups]

    @property
    def prompts(self) -> str:
        """Word for the prompts: clicks, or prompts where some are of another kind."""
        return "clicks" if all(group.only_clicks for group in self.groups) else "prompts"

    def by_hand(self) -> str:
        """The sentence on what is drawn or corrected by hand."""
        drawing = drawn_by_hand(self.cost)
        pays = self.value(self.models[0], self.pay).value
        if pays is None or np.isinf(self.cost.touch_up):
            return f"Objects that miss the goal are drawn by hand ({drawing})"
        return (
            f"With {self.models[0]}, clicking pays for {pays:.1f} {self.prompts} per object: then "
            f"the goal is reached or correcting by hand is faster. Drawing by hand takes {drawing}"
        )

    def value(self, model: str, measure: str) -> Value:
        return Value.of(self.rows.get((model, measure)))

    def per_object(self, group: noc.ClickSessions, measure: str) -> Floats:
        """One value per object, whose mean is the statistic of that name."""
        found = self.findings.cards[measure].compared(group)
        assert found is not None  # all groups are of click sessions
        return found

    def fails_most(self, model: str) -> bool:
        """Whether a model leaves more than half of the objects short of the goal."""
        row = self.rows[model, self.never]
        return 2 * row.value > row.targets

    def behind(self, first: str, second: str, measure: str) -> Difference | None:
        """`first - second`, whichever way round the comparison was made."""
        for d in self.differences:
            if d.statistic == measure and {d.first, d.second} == {first, second}:
                return d if d.first == first else d.turned
        return None


def tested_differences(findings: parts.Findings) -> list[Difference]:
    """Differences of the run in every statistic that can be tested."""
    names = [name for name, card in findings.cards.items() if card.testable]
    return findings.run.benchmark.differences(findings.run, names)


def comparisons(run: Results) -> list[Comparison]:
    """The run's models set against each other, by dataset and user, in its leading protocol.

    Datasets come in the plan's order, the cheapest model first.
    """
    findings, titles = parts.Findings(run), display_names(run.plan.datasets)
    leading = findings.groups(noc.ClickSessions, findings.lead)
    places = grouped(leading, lambda group: (group.dataset, group.user))
    one_user = len({user for _, user in places}) == 1
    made, goals = [], noc.goals_of(run)
    order = {str(spec): place for place, spec in enumerate(run.plan.datasets)}
    for (dataset, user), members in sorted(places.items(), key=lambda p: order.get(p[0][0], 0)):
        where = titles.get(dataset, dataset)
        title = where if one_user else f"{where}, {user}"
        made.append(Comparison(findings, title, _ranked(members, goals)))
    return made


def _ranked(members: Sequence[noc.ClickSessions], goals: Goals) -> list[noc.ClickSessions]:
    """Groups by a person's mean seconds on the objects that all have, the least first.

    Equal seconds are ordered by the area under IoU, the larger first, then by name.
    """
    common = set.intersection(*(set(g.keys) for g in members))

    def rank(group: noc.ClickSessions) -> tuple[float, float, str]:
        here = [i for i, key in enumerate(group.keys) if key in common or not common]
        seconds = noc.with_touch_up(group, goals.lead)[0][here]
        area = np.nan_to_num(area_under(group.iou[here]))
        return round(float(seconds.mean()), 9), -float(area.mean()), group.model

    return sorted(members, key=rank)


TIED = "\N{NO-BREAK SPACE}"  # between a number and its unit
HARDEST = "hardest-objects"  # the section's anchor


def leaderboard(comparison: Comparison, name: str) -> Table:
    """All models of a comparison, the cheapest first."""
    goal, group = comparison.goals.lead, comparison.groups[0]
    shown = {
        comparison.seconds: Column(
            f"annotation time to {goal.text}", "seconds per object", 1, better="lower", plot=True
        ),
        comparison.clicks: Column(
            f"{comparison.prompts} to {goal.short}", f"NoC@{goal.tag}", 2, better="lower"
        ),
        comparison.never: Column("never reach it", f"of {len(group.keys)} objects", 0),
        "auc": Column("quality over all clicks", "IoU AuC, %", 1, better="higher"),
        "iou@1": Column("after one click", "IoU@1, %", 1, better="higher"),
    }

    def cell(measure: str) -> Callable[[str], Cell]:
        def of(model: str) -> Cell:
            row = comparison.rows[model, measure]
            # Failures lead to the objects behind them.
            link = HARDEST if measure == comparison.never and row.value else ""
            return replace(Value.of(row, (row.key, measure) in comparison.best), link=link)

        return of

    columns: dict[Column, Callable[[str], Cell]] = {
        Column("model"): str,
        **{c: cell(m) for m, c in shown.items() if (comparison.models[0], m) in comparison.rows},
    }
    firsts = _first_shares(comparison)
    if firsts:
        columns[Column("comes first", "% of resamples", 0, percent=True)] = firsts.__getitem__
    capped, short = "", [model for model in comparison.models if comparison.fails_most(model)]
    if short:
        capped = (
            f" NoC counts all {counted(group.rounds, 'round')} where the goal is never reached: "
            f"that of {', '.join(short)} is mostly this cap, not clicks that led to the goal."
        )
    return Table.of(
        name,
        comparison.models,
        columns,
        caption=f"{comparison.title}: {counted(len(group.keys), 'object')} in "
        f"{counted(len(set(group.clusters)), 'image')}, {counted(group.rounds, 'round')}, "
        f"protocol {group.protocol}",
        note=f"{parts.INTERVALS} Bold: significantly better than every other model. "
        f"{comparison.by_hand()}.{capped}",
    )


def _first_shares(comparison: Comparison) -> dict[str, float]:
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
    return {g.model: float(s) for g, s in zip(groups, shares, strict=True)}


def common(run: Results) -> Results:
    """The run on the objects that all of its models have."""
    return parts.on_common_objects(run, parts.Findings(run).groups(noc.ClickSessions))


def drawn_by_hand(cost: CostModel) -> str:
    length = f" and {cost.by_hand_px:g}{TIED}s per pixel of outline" if cost.by_hand_px else ""
    return f"{cost.by_hand:g}{TIED}s per object{length}"

"""Models compared on the same data with the same user: leaderboard, differences, project costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.noc import Noc
from segmeter.benchmarks.noc import statistics as noc
from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.core.plans import display_names
from segmeter.core.sections import Cell, Column, Section, Table, Value
from segmeter.core.wording import counted
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.comparisons import first_shares
from segmeter.stats.goals import Goals, area_under
from segmeter.stats.intervals import Floats
from segmeter.stats.statistics import Statistic, cards_by_name, resampling, standing_out


@dataclass(frozen=True, slots=True)
class Comparison:
    """Models that were run on the same data by the same user, in one protocol.

    `title` says where, as short as the run allows; `rows` are the summary's rows by model
    and measure; `groups` come cheapest first; `best` are groups and statistics to set bold. The
    five before `busy` name the statistics of the leading goal: `seconds` orders the models, `pay`
    are the clicks that pay before correcting by hand does, of runs that measured it. `busy` says
    that waiting was measured on a busy machine.
    """

    title: str
    groups: Sequence[noc.ClickSessions]
    rows: dict[tuple[str, str], SummaryRow]
    differences: Sequence[Difference]
    cost: CostModel
    goals: Goals
    statistics: Mapping[str, Statistic]
    best: Collection[tuple[tuple[str, ...], str]]
    seconds: str
    clicks: str
    never: str
    waiting: str
    pay: str
    busy: str

    @property
    def models(self) -> list[str]:
        return [group.model for group in self.groups]

    @property
    def protocol(self) -> str:
        return self.groups[0].protocol

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
        found = self.statistics[measure].compared(group)
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


def comparisons(run: Results) -> list[Comparison]:
    """The run's models set against each other, by dataset and user, in its leading protocol.

    Datasets come in the plan's order, the cheapest model first.
    """
    lead = run.plan.leading_protocol
    found = [
        g for g in Noc().groups(run) if isinstance(g, noc.ClickSessions) and g.protocol == lead
    ]
    places: dict[tuple[str, str], list[noc.ClickSessions]] = {}
    for group in found:
        places.setdefault((group.dataset, group.user), []).append(group)
    one_user = len({user for _, user in places}) == 1
    made, titles = [], display_names(run.plan.datasets)
    order = {str(spec): place for place, spec in enumerate(run.plan.datasets)}
    for (dataset, user), members in sorted(places.items(), key=lambda p: order.get(p[0][0], 0)):
        where = titles.get(dataset, dataset)
        made.append(_comparison(run, where if one_user else f"{where}, {user}", members))
    return made


def _comparison(run: Results, title: str, members: Sequence[noc.ClickSessions]) -> Comparison:
    numbers, keys = Noc().numbers(run), {group.key for group in members}
    rows = {(row.model, name): row for (key, name), row in numbers.items() if key in keys}
    cards = cards_by_name(Noc().statistics(run))
    tested = [name for name, card in cards.items() if card.testable]
    where = members[0].comparison
    apart = [d for d in Noc().differences(run, tested) if (d.dataset, d.user, d.protocol) == where]
    cost, goals = parts.cost_of(run), noc.goals_of(run)
    ranked = _ranked(members, goals)
    best = standing_out(rows.values(), apart, cards)
    seconds, clicks, never, waiting, pay = (
        factory(goals.lead).name
        for factory in (noc.seconds_until, noc.clicks_to, noc.never_reached, noc.waiting_until,
                        noc.clicks_that_pay)
    )  # fmt: skip
    return Comparison(
        title, ranked, rows, apart, cost, goals, cards, best,
        seconds, clicks, never, waiting, pay, parts.busy(run),
    )  # fmt: skip


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
        note=f"{parts.INTERVALS} Bold: significantly better than every other model. "
        f"{comparison.by_hand()}.{capped(comparison)}",
    )


def capped(comparison: Comparison) -> str:
    """A sentence on clicks that are mostly the number of rounds; empty without any."""
    short = [model for model in comparison.models if comparison.fails_most(model)]
    if not short:
        return ""
    rounds = counted(comparison.groups[0].rounds, "round")
    return (
        f" NoC counts all {rounds} where the goal is never reached: that of {', '.join(short)} "
        "is mostly this cap, not clicks that led to the goal."
    )


def _cell(comparison: Comparison, model: str, measure: str) -> Value:
    """A number of the leaderboard; failures lead to the objects behind them."""
    row = comparison.rows[model, measure]
    link = HARDEST if measure == comparison.never and row.value else ""
    return replace(Value.of(row, (row.key, measure) in comparison.best), link=link)


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
    best, *others = comparison.models
    tested = [name for name, card in comparison.statistics.items() if card.tested == "yes"]
    # First and second as in `run.compare()`: one sign everywhere.
    pairs = {(d.statistic, frozenset((d.first, d.second))): d for d in comparison.differences}
    wanted = [(name, frozenset((best, other))) for other in others for name in tested]
    found = [pairs[pair] for pair in wanted if pair in pairs]
    if not found:
        return None
    return parts.difference_table(found, comparison.statistics, name=name, caption=comparison.title)


def project_section(run: Results, objects: int, rate: float | None = None) -> Section:
    """Hours, and money at a rate per hour, for so many objects like those of the run."""
    found = comparisons(common(run))
    tables = {c.title: [_way(c, group) for group in c.groups] for c in found}
    cost = found[0].cost
    source = ", the time of a polygon in COCO (Lin et al. 2014)" if cost == CostModel() else ""
    assumed = (
        f"Goal: {found[0].goals.lead.text}. Assumed for drawing by hand: {drawn_by_hand(cost)}"
        f"{source}, and {cost.per_object:g}{TIED}s to find and review it. {parts.machines(run)}"
    )
    return parts.cost_section(
        tables, objects, rate, "images", assumed.strip(), loaded=parts.busy(run)
    )


def common(run: Results) -> Results:
    """The run on the objects that all of its models have."""
    return parts.on_common_objects(
        run, [g for g in Noc().groups(run) if isinstance(g, noc.ClickSessions)]
    )


def _way(comparison: Comparison, group: noc.ClickSessions) -> parts.Way:
    lead, waiting = (comparison.statistics[n] for n in (comparison.seconds, comparison.waiting))
    seconds = comparison.per_object(group, lead.name)
    waited = comparison.per_object(group, waiting.name)
    hand = comparison.cost.per_object + comparison.cost.drawing(group.contour_px) + 0 * seconds
    mean, wait = (comparison.value(group.model, card.name) for card in (lead, waiting))
    total = Value.of(lead.interval(group, seconds + waited))
    return parts.Way(group.model, group, mean, wait, total, seconds, waited, hand)


def drawn_by_hand(cost: CostModel) -> str:
    length = f" and {cost.by_hand_px:g}{TIED}s per pixel of outline" if cost.by_hand_px else ""
    return f"{cost.by_hand:g}{TIED}s per object{length}"

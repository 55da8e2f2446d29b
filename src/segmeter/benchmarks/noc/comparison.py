"""Models compared: played on the same data by the same user, with their statistics at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from segmeter.benchmarks.grouping import cost_of
from segmeter.benchmarks.noc import Noc
from segmeter.benchmarks.noc.statistics import (
    ClickSessions,
    clicks_to,
    goals_of,
    never_reached,
    seconds_until,
    waiting_until,
)
from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.core.dataset_names import dataset_label
from segmeter.core.sections import Value
from segmeter.stats.effort import CostModel
from segmeter.stats.goals import Goals
from segmeter.stats.intervals import Floats
from segmeter.stats.rounds import area_under
from segmeter.stats.statistics import Statistic, cards_by_name

__all__ = ["Comparison", "comparisons", "comparisons_in"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Models that were played on the same data by the same user, in one protocol.

    `title` says where, as short as the run allows; `rows` are the summary's rows by model
    and measure; `groups` come cheapest first.
    """

    title: str
    groups: Sequence[ClickSessions]
    rows: dict[tuple[str, str], SummaryRow]
    differences: Sequence[Difference]
    cost: CostModel
    goals: Goals
    statistics: Mapping[str, Statistic]

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

    @property
    def seconds(self) -> str:
        """The statistic that models are ordered by."""
        return seconds_until(self.goals.lead).name

    @property
    def clicks(self) -> str:
        return clicks_to(self.goals.lead).name

    @property
    def never(self) -> str:
        return never_reached(self.goals.lead).name

    @property
    def waiting(self) -> str:
        return waiting_until(self.goals.lead).name

    def value(self, model: str, measure: str) -> Value:
        row = self.rows.get((model, measure))
        return Value.of(row)

    def per_object(self, group: ClickSessions, measure: str) -> Floats:
        """One value per object, whose mean is the statistic of that name."""
        found = self.statistics[measure].compared(group)
        assert found is not None  # all groups are of click sessions
        return found

    @property
    def tested(self) -> list[str]:
        """Tested statistics: seconds and clicks to the goal, areas, the first click."""
        return [name for name, card in self.statistics.items() if card.tested == "yes"]

    def fails_most(self, model: str) -> bool:
        """Whether a model leaves more than half of the objects short of the goal."""
        row = self.rows[model, self.never]
        return 2 * row.value > row.targets

    def behind(self, first: str, second: str, measure: str) -> Difference | None:
        """`first - second`, whichever way round the comparison was made."""
        for d in self.differences:
            if d.measure == measure and {d.first, d.second} == {first, second}:
                return d if d.first == first else d.turned
        return None

    def stands_out(self, model: str, measure: str) -> bool:
        """Whether a model is better than every other one, and that is significant."""
        found = [self.behind(model, other, measure) for other in self.models if other != model]
        sign = 1 if self.statistics[measure].better == "higher" else -1
        return bool(found) and all(
            d is not None and d.significant and sign * d.value > 0 for d in found
        )


def comparisons(run: Results) -> list[Comparison]:
    """The run's models set against each other, by data set and user, in its leading protocol."""
    return comparisons_in(run, run.plan.leading_protocol)


def comparisons_in(run: Results, protocol: str) -> list[Comparison]:
    """One comparison per data set and user, in the plan's order; the cheapest model first."""
    found = [
        g for g in Noc().groups(run) if isinstance(g, ClickSessions) and g.protocol == protocol
    ]
    places: dict[tuple[str, str], list[ClickSessions]] = {}
    for group in found:
        places.setdefault((group.dataset, group.user), []).append(group)
    one_user = len({user for _, user in places}) == 1
    made = []
    order = [str(spec) for spec in run.plan.datasets]
    by_plan = sorted(places.items(), key=lambda item: order.index(item[0][0]))
    for (dataset, user), members in by_plan:
        where = dataset_label(dataset)
        made.append(_comparison(run, where if one_user else f"{where}, {user}", members))
    return made


def _comparison(run: Results, title: str, members: Sequence[ClickSessions]) -> Comparison:
    numbers, keys = Noc().numbers(run), {group.key for group in members}
    rows = {(row.model, name): row for (key, name), row in numbers.items() if key in keys}
    cards = cards_by_name(Noc().statistics(run))
    tested = [name for name, card in cards.items() if card.testable]
    where = members[0].comparison
    apart = [d for d in Noc().differences(run, tested) if (d.dataset, d.user, d.protocol) == where]
    cost, goals = cost_of(run), goals_of(run)
    ranked = _ranked(members, goals)
    return Comparison(title, ranked, rows, apart, cost, goals, cards)


def _ranked(members: Sequence[ClickSessions], goals: Goals) -> list[ClickSessions]:
    """Groups by a person's mean seconds on the objects that all have, the least first.

    Equal seconds are ordered by the area under IoU, the larger first, then by name.
    """
    common = set.intersection(*(set(g.keys) for g in members))
    lead = seconds_until(goals.lead)
    assert lead.values is not None

    def rank(group: ClickSessions) -> tuple[float, float, str]:
        here = [i for i, key in enumerate(group.keys) if key in common or not common]
        seconds = lead.values(group)[here] if lead.values else np.zeros(0)
        area = np.nan_to_num(area_under(group.iou[here]))
        return round(float(seconds.mean()), 9), -float(area.mean()), group.model

    return sorted(members, key=rank)

"""Models compared: played on the same data by the same user, with their statistics at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from segmeter.benchmarks.grouping import cost_of
from segmeter.benchmarks.noc.statistics import (
    ClickSessions,
    better_of,
    differences_of,
    goals_of,
    groups,
    rows_of,
    targets_of,
)
from segmeter.core.benchmarks import Difference, Results, SummaryRow
from segmeter.core.dataset_names import dataset_label
from segmeter.core.sections import Value
from segmeter.stats.effort import CostModel
from segmeter.stats.goals import Goals
from segmeter.stats.rounds import area_under

__all__ = ["Comparison", "comparison_of", "comparisons"]


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

    @property
    def models(self) -> list[str]:
        return [group.model for group in self.groups]

    @property
    def protocol(self) -> str:
        return self.groups[0].protocol

    @property
    def prompts(self) -> str:
        """What the person gives: clicks, or prompts where some are of another kind."""
        return "clicks" if all(group.only_clicks for group in self.groups) else "prompts"

    @property
    def seconds(self) -> str:
        """The statistic that models are ordered by."""
        return f"seconds-to-{self.goals.lead.tag}"

    @property
    def clicks(self) -> str:
        return f"noc@{self.goals.lead.tag}"

    @property
    def never(self) -> str:
        return f"never@{self.goals.lead.tag}"

    @property
    def waiting(self) -> str:
        return f"waiting-to-{self.goals.lead.tag}"

    def value(self, model: str, measure: str) -> Value:
        row = self.rows.get((model, measure))
        return Value.of(row)

    def fails_most(self, model: str) -> bool:
        """Whether a model leaves more than half of the objects short of the goal."""
        row = self.rows[model, self.never]
        return 2 * row.value > row.targets

    def behind(self, first: str, second: str, measure: str) -> Difference | None:
        """`first - second`, whichever way round the comparison was made."""
        for d in self.differences:
            if d.measure == measure and {d.first, d.second} == {first, second}:
                return d if d.first == first else _turned(d)
        return None

    def stands_out(self, model: str, measure: str) -> bool:
        """Whether a model is better than every other one, and that is significant."""
        found = [self.behind(model, other, measure) for other in self.models if other != model]
        sign = 1 if better_of(measure) == "higher" else -1
        return bool(found) and all(
            d is not None and d.significant and sign * d.value > 0 for d in found
        )


def comparisons(run: Results, found: Sequence[ClickSessions] | None = None) -> list[Comparison]:
    """The run's models set against each other, by data set and user, in its leading protocol."""
    cost = cost_of(run)
    lead = run.plan.leading_protocol
    return _comparisons(groups(run, cost) if found is None else found, lead, cost, goals_of(run))


def _comparisons(
    found: Sequence[ClickSessions], protocol: str, cost: CostModel, goals: Goals
) -> list[Comparison]:
    """One comparison a data set and user, the cheapest model first in each."""
    places: dict[tuple[str, str], list[ClickSessions]] = {}
    for group in found:
        if group.protocol == protocol:
            places.setdefault((group.dataset, group.user), []).append(group)
    one_user = len({user for _, user in places}) == 1
    return [
        comparison_of(
            dataset_label(dataset) if one_user else f"{dataset_label(dataset)}, {user}",
            members,
            cost,
            goals,
        )
        for (dataset, user), members in places.items()
    ]


def comparison_of(
    title: str, members: Sequence[ClickSessions], cost: CostModel, goals: Goals
) -> Comparison:
    rows = {(r.model, r.measure): r for g in members for r in rows_of(g, cost, goals)}
    apart = differences_of(members, cost, goals)
    return Comparison(title, _ranked(members, cost, goals), rows, apart, cost, goals)


def _ranked(members: Sequence[ClickSessions], cost: CostModel, goals: Goals) -> list[ClickSessions]:
    """Groups by a person's mean seconds on the objects that all have, the least first.

    Equal seconds are ordered by the area under IoU, the larger first, then by name.
    """
    common = set.intersection(*(set(g.keys) for g in members))

    def rank(group: ClickSessions) -> tuple[float, float, str]:
        here = [i for i, key in enumerate(group.keys) if key in common or not common]
        seconds = targets_of(group, f"seconds-to-{goals.lead.tag}", cost)[here]
        area = np.nan_to_num(area_under(group.iou[here]))
        return round(float(seconds.mean()), 9), -float(area.mean()), group.model

    return sorted(members, key=rank)


def _turned(d: Difference) -> Difference:
    return replace(d, first=d.second, second=d.first, value=-d.value, low=-d.high, high=-d.low)

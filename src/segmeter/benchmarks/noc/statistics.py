"""Statistics of the click benchmark: clicks and seconds to quality, failures, areas.

Numbers stand in the units in which papers print them: clicks, counts, seconds, and percent
for IoU and the areas under its curve.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from segmeter.core.benchmarks import Curves, Difference, Results, SummaryRow
from segmeter.stats.effort import CostModel, seconds_after, seconds_to
from segmeter.stats.intervals import Floats, Interval, Resampling, share_interval
from segmeter.stats.pairwise import PairedValues, Where, pairwise_differences
from segmeter.stats.rounds import area_under, at_round, failed, reached, rounds_to

__all__ = [
    "COMPARED",
    "Group",
    "cost_of",
    "differences",
    "differences_of",
    "groups",
    "rows_of",
    "summary",
    "targets_of",
]

GOALS = (80, 85, 90, 95)
ROUNDS = (1, 2, 3, 5, 10, 20)
Better = Literal["higher", "lower"]

# What is compared between models, and which direction is good.
COMPARED: dict[str, Better] = {
    "seconds-to-90": "lower",
    "noc@90": "lower",
    "auc": "higher",
    "iou@1": "higher",
}


@dataclass(frozen=True, slots=True)
class Group:
    """All sessions of one model, data set, user and reading, target by target.

    `iou` and `boundary` (where it was measured) hold the curves, `(targets, rounds)`;
    `spent` are seconds by the end of each round under the cost model and `spoken` its price
    of each round's prompt (zero where nothing was said); `look` (each target's share),
    `answer` and `user` are measured seconds; `only_clicks` tells that no other prompt was given.
    """

    iou: Curves
    boundary: Floats | None
    spent: Floats
    look: Floats
    answer: Floats
    user: Floats
    spoken: Floats
    only_clicks: bool = True

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.iou.model, self.iou.dataset, self.iou.user, self.iou.reading

    @property
    def comparison(self) -> tuple[str, str, str]:
        """What models are compared within: data set, user, reading."""
        return self.key[1:]


def groups(run: Results, cost: CostModel) -> list[Group]:
    """The run's sessions, grouped, with their seconds under a cost model."""
    boundaries = {}
    if "boundary-iou" in run.plan.measures:
        boundaries = {_key(c): c.values for c in run.curves("boundary-iou")}
    times = _times(run)
    made = []
    for curves in run.curves("iou"):
        kinds, look, answer, user = times[_key(curves)]
        spoken = np.array([[cost.of(k) if k else 0.0 for k in row] for row in kinds])
        made.append(
            Group(
                curves,
                boundaries.get(_key(curves)),
                seconds_after(cost, kinds, answer, look),
                look,
                answer,
                user,
                spoken,
                all(kind in ("click", "") for row in kinds for kind in row),
            )
        )
    return made


def cost_of(run: Results) -> CostModel:
    """The cost model that whoever reads the run asked for, else the default."""
    path = run.settings.get("cost")
    return CostModel() if path is None else CostModel.read(Path(path))


def summary(run: Results) -> list[SummaryRow]:
    """Every statistic of every group, with its interval."""
    cost = cost_of(run)
    return [row for group in groups(run, cost) for row in rows_of(group, cost)]


def differences(run: Results) -> list[Difference]:
    """Every pair of models on the targets they share, by data set, user and reading."""
    cost = cost_of(run)
    comparisons: dict[tuple[str, str, str], list[Group]] = {}
    for group in groups(run, cost):
        comparisons.setdefault(group.comparison, []).append(group)
    return [d for members in comparisons.values() for d in differences_of(members, cost)]


def differences_of(members: Sequence[Group], cost: CostModel) -> list[Difference]:
    """All pairs of one comparison; the pairs of a measure are corrected together (Holm)."""
    return [
        found
        for measure in COMPARED
        for found in pairwise_differences(
            Where(*members[0].comparison, measure),
            [
                PairedValues(g.key[0], g.iou.keys, g.iou.clusters, targets_of(g, measure, cost))
                for g in members
            ],
        )
    ]


def targets_of(group: Group, measure: str, cost: CostModel | None = None) -> Floats:
    """One value a target, whose mean is the statistic of that name."""
    name, _, at = measure.partition("@")
    curves, goal = group.iou.values, int(at or 0) / 100
    if measure.startswith("seconds-to-"):
        goal = int(measure.removeprefix("seconds-to-")) / 100
        return seconds_to(cost or CostModel(), curves, group.spent, goal)
    match name:
        case "noc":
            return rounds_to(curves, goal)
        case "auc":
            return 100 * area_under(curves)
        case "iou":
            return 100 * at_round(curves, int(at))
    raise KeyError(measure)


def rows_of(group: Group, cost: CostModel) -> Iterator[SummaryRow]:
    """Every statistic of one group."""
    model, dataset, user, reading = group.key
    targets = len(group.iou.keys)
    drawn = Resampling(group.iou.clusters, seed=dataset)
    for measure, interval in _measures(group, drawn, cost):
        yield SummaryRow(
            model,
            dataset,
            user,
            reading,
            measure,
            interval.value,
            interval.low,
            interval.high,
            targets,
        )


def _measures(group: Group, drawn: Resampling, cost: CostModel) -> Iterator[tuple[str, Interval]]:
    curves, clusters, reading = group.iou.values, group.iou.clusters, group.iou.reading
    many, rounds = curves.shape
    for goal in GOALS:
        yield f"noc@{goal}", drawn.interval(rounds_to(curves, goal / 100))
        fails = failed(curves, goal / 100, reading)
        yield f"nof@{goal}", _counted(share_interval(fails, clusters), many)
        never = ~reached(curves, goal / 100)
        yield f"never@{goal}", _counted(share_interval(never, clusters), many)
    yield "auc", drawn.interval(100 * area_under(curves))
    for k in ROUNDS:
        if k <= rounds:
            yield f"iou@{k}", drawn.interval(100 * at_round(curves, k))
    if group.boundary is not None:
        yield "boundary-auc", drawn.interval(100 * area_under(group.boundary))
        yield "boundary-iou@1", drawn.interval(100 * at_round(group.boundary, 1))
    for goal in (80, 90):
        yield f"seconds-to-{goal}", drawn.interval(targets_of(group, f"seconds-to-{goal}", cost))
    yield "seconds-look", drawn.interval(group.look)
    yield "seconds-answer", drawn.interval(_mean_spoken(group.answer, group.spoken))
    yield "seconds-user", drawn.interval(_mean_spoken(group.user, group.spoken))


def _mean_spoken(seconds: Floats, spoken: Floats) -> Floats:
    """Mean seconds a round of each target, over the rounds in which something was said."""
    counts = np.maximum((spoken > 0).sum(axis=1), 1)
    return np.asarray(seconds.sum(axis=1) / counts)


def _counted(share: Interval, targets: int) -> Interval:
    """A share of targets as a number of them."""
    return Interval(round(share.value * targets), share.low * targets, share.high * targets)


def _key(curves: Curves) -> tuple[str, str, str, str]:
    return curves.model, curves.dataset, curves.user, curves.reading


Times = tuple[list[list[str]], Floats, Floats, Floats]


def _times(run: Results) -> dict[tuple[str, str, str, str], Times]:
    """Kinds of prompts and measured seconds of each group, in the order of its curves.

    A look counts as the model's median over scenes, since the first one of a worker also
    pays for loading, and is shared by the targets of a scene.
    """
    table = run.sql("""
        with shares as (
            select model, dataset, scene, "user", reading, count(distinct target) as sharing
            from rows group by all),
        looks as (
            select model, dataset, median(seconds_look) as typical
            from (select distinct model, dataset, scene, seconds_look from rows) group by all)
        select model, dataset, "user", reading, scene, target,
               list(prompt order by round) as prompts,
               any_value(typical) / any_value(sharing) as look,
               list(seconds_answer order by round) as answer,
               list(seconds_user order by round) as busy
        from rows join shares using (model, dataset, scene, "user", reading)
                  join looks using (model, dataset)
        group by model, dataset, "user", reading, scene, target
        order by model, dataset, "user", reading, scene, target
    """)
    found: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        key = (row["model"], row["dataset"], row["user"], row["reading"])
        found.setdefault(key, []).append(row)
    return {key: _table(rows) for key, rows in found.items()}


def _table(rows: Sequence[dict[str, Any]]) -> Times:
    kinds = [[_kind(text) for text in row["prompts"]] for row in rows]
    look, answer, user = (np.array([row[c] for row in rows]) for c in ("look", "answer", "busy"))
    return kinds, look, answer, user


def _kind(prompt: str | None) -> str:
    """`click`, `box`, `scribble`...: the first key of a prompt's JSON; empty for none."""
    return "" if prompt is None else str(next(iter(json.loads(prompt))))

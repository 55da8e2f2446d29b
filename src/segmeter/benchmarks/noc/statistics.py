"""Statistics of the click benchmark: clicks and seconds to quality, failures, areas.

Numbers stand in the units in which papers print them: clicks, counts, seconds, and percent
for IoU and the areas under its curve.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from segmeter.benchmarks.grouping import (
    comparisons,
    cost_of,
    paired,
    resampling,
    summary_row,
)
from segmeter.core import catalogue
from segmeter.core.benchmarks import Difference, Group, Results, SummaryRow
from segmeter.core.curves import clusters_of, groups_in, keys_of, matrix, spread
from segmeter.core.dataset_names import dataset_names
from segmeter.core.errors import BadInput, suggestion
from segmeter.core.measures import Measure
from segmeter.core.models import ProtocolName
from segmeter.core.rows import SESSION_FACTS, SESSION_ROWS
from segmeter.stats.effort import CostModel, seconds_to, waiting_to
from segmeter.stats.goals import Goal, Goals
from segmeter.stats.intervals import Floats, Interval, Resampling, share_interval
from segmeter.stats.pairwise import Where, pairwise_tables
from segmeter.stats.rounds import area_under, at_round, failed, reached, rounds_to

__all__ = [
    "ClickSessions",
    "better_of",
    "compared",
    "differences",
    "differences_of",
    "goals_of",
    "groups",
    "measures_of",
    "rows_of",
    "summary",
    "targets_of",
]

ROUNDS = (1, 2, 3, 5, 10, 20)
Better = Literal["higher", "lower", ""]

# Columns of rows that are no measure, among them those of earlier versions.
_NO_MEASURE = {*SESSION_ROWS.names, *SESSION_FACTS, "height", "width", "error", "detail"}


@dataclass(frozen=True, slots=True)
class ClickSessions(Group):
    """All sessions of a group, target by target.

    `iou` holds the curves, `(targets, rounds)`, and `others` those of every further measure;
    `spent` are a person's seconds by the end of each round under the cost model and `spoken`
    its price of each round's prompts (zero where nothing was said); `encode` (each target's
    share), `answer` and `busy` (the
    simulated user's own) are measured seconds; `outline_px` is the length of each
    target's outline where the run kept it; `only_clicks` tells that no other prompt was given.
    """

    iou: Floats
    others: Mapping[str, Floats]
    spent: Floats
    encode: Floats
    answer: Floats
    busy: Floats
    spoken: Floats
    outline_px: Floats | None = None
    only_clicks: bool = True

    @property
    def rounds(self) -> int:
        return int(self.iou.shape[1])

    def curves(self, measure: str) -> Floats:
        """The curves of a measure."""
        if measure == "iou":
            return self.iou
        if measure not in self.others:
            known = ["iou", *self.others]
            raise BadInput(
                f"this run has no measure '{measure}';{suggestion(measure, known)} it has "
                f"{', '.join(known)}, and 'segmeter score' adds more"
            )
        return self.others[measure]

    def towards(self, goal: Goal) -> tuple[Floats, float]:
        """Curves and a limit from which more is better."""
        return goal.signed(self.curves(goal.measure))


def groups(run: Results, cost: CostModel) -> list[ClickSessions]:
    """The run's sessions, grouped, with their seconds under a cost model."""
    measures = ["iou", *measures_of(run)]
    names = dataset_names(run.plan.datasets)
    return [
        _group((key[0], names.get(key[1], key[1]), *key[2:]), rows, measures, run.plan.rounds, cost)
        for key, rows in groups_in(_sessions(run, measures))
    ]


def _group(
    key: tuple[str, str, str, str],
    rows: Any,
    measures: Sequence[str],
    rounds: int,
    cost: CostModel,
) -> ClickSessions:
    """One row per target; a session that was stopped early says and costs nothing any more."""
    iou, *others = (matrix(rows[f"m{k}"], np.nan, rounds) for k in range(len(measures)))
    answer, busy = (matrix(rows[column], 0.0, rounds) for column in ("answer", "busy"))
    kinds, spent = _spent(rows["kinds"].combine_chunks(), rounds, cost)
    lengths = rows["outline"]
    model, dataset, user, protocol = key
    return ClickSessions(
        model,
        dataset,
        user,
        cast(ProtocolName, protocol),
        keys_of(rows),
        clusters_of(rows),
        iou,
        dict(zip(measures[1:], others, strict=True)),
        spent,
        rows["encode"].to_numpy().astype(float),
        answer,
        busy,
        np.diff(spent, axis=1, prepend=cost.per_object),
        None if lengths.null_count else lengths.to_numpy().astype(float),
        kinds <= {"click", ""},
    )


def _spent(lists: Any, rounds: int, cost: CostModel) -> tuple[set[str], Floats]:
    """All kinds of prompts, and a person's seconds by the end of each round."""
    coded = lists.flatten().fill_null("").dictionary_encode()
    names = coded.dictionary.to_pylist()
    prices = np.array([cost.of_round(name) for name in names], dtype=float)
    spoken = spread(lists, prices[np.asarray(coded.indices)], 0.0, rounds)
    return set(names), np.asarray(np.cumsum(spoken, axis=1) + cost.per_object)


def measures_of(run: Results) -> list[str]:
    """Measures beside IoU that the rows hold, played or scored later, by their names."""
    table = run.sql("select * from sessions limit 0")
    found = [f.name.replace("_", "-") for f in table.schema if f.name not in _NO_MEASURE]
    return [name for name in found if name != "iou"]


def goals_of(run: Results) -> Goals:
    """The goals that whoever reads the run asked for, else the usual ones."""
    return Goals.of(run.settings.get("goal"))


def summary(run: Results) -> list[SummaryRow]:
    """Every statistic of every group, with its interval."""
    cost, goals = cost_of(run), goals_of(run)
    return [row for group in groups(run, cost) for row in rows_of(group, cost, goals)]


def differences(run: Results, measures: Sequence[str] | None = None) -> list[Difference]:
    """Every pair of models on the targets they share, by data set, user and reading.

    `measures` are those of `compared` unless given; one that a group lacks is left out.
    """
    cost, goals = cost_of(run), goals_of(run)
    return [
        d
        for members in comparisons(groups(run, cost))
        for d in differences_of(members, cost, goals, _testable(members, measures))
    ]


def _testable(members: Sequence[ClickSessions], measures: Sequence[str] | None) -> list[str] | None:
    if measures is None:
        return None
    taken = set(members[0].others)
    known = [m for m in measures if m != "boundary-auc" or "boundary-iou" in taken]
    return [m for m in known if all(_known(g, m) for g in members)]


def compared(members: Sequence[ClickSessions], goals: Goals) -> list[str]:
    """What models are compared in: seconds and clicks to the goal, areas, the first click."""
    own = [f"{name}-auc" for name in members[0].others if name != "boundary-iou"]
    names = [f"seconds-to-{goals.lead.tag}", f"noc@{goals.lead.tag}", "auc", "iou@1", *own]
    return [n for n in names if all(_known(g, n) for g in members)]


def differences_of(
    members: Sequence[ClickSessions],
    cost: CostModel,
    goals: Goals,
    measures: Sequence[str] | None = None,
) -> list[Difference]:
    """All pairs of one comparison; the pairs of a measure are corrected together (Holm).

    Only what models and people do is compared: no number here holds a machine's seconds.
    """
    names = compared(members, goals) if measures is None else measures
    if len(members) < 2 or not names:
        return []
    return pairwise_tables(
        [Where(*members[0].comparison, name) for name in names],
        [
            paired(g, np.stack([targets_of(g, name, cost) for name in names], axis=1))
            for g in members
        ],
    )


def better_of(measure: str) -> Better:
    """Which direction of a statistic is good; empty where nobody has said."""
    if measure.startswith(("seconds-", "waiting-", "noc@", "nof@", "never@")):
        return "lower"
    if measure.startswith(("auc", "iou@", "boundary-")):
        return "higher"
    card = _card(measure.removesuffix("-auc").partition("@")[0])
    return "" if card is None else card.better


def targets_of(group: ClickSessions, measure: str, cost: CostModel | None = None) -> Floats:
    """One value per target, whose mean is the statistic of that name."""
    if measure.startswith("seconds-to-"):
        goal = _goal(measure.removeprefix("seconds-to-"))
        curves, limit = group.towards(goal)
        return seconds_to(cost or CostModel(), curves, group.spent, limit, group.outline_px)
    if measure.startswith("waiting-to-"):
        curves, limit = group.towards(_goal(measure.removeprefix("waiting-to-")))
        return waiting_to(curves, group.answer, group.encode, limit)
    name, _, at = measure.partition("@")
    if name in ("noc", "nof", "never"):
        return _counts(group, name, _goal(at))
    if name == "auc":
        return 100 * area_under(group.iou)
    if name == "boundary-auc":
        return 100 * area_under(group.curves("boundary-iou"))
    if name.endswith("-auc"):
        own = name.removesuffix("-auc")
        return _scale(own) * area_under(group.curves(own))
    return _scale(name) * at_round(group.curves(name), int(at))


def _counts(group: ClickSessions, name: str, goal: Goal) -> Floats:
    curves, limit = group.towards(goal)
    if name == "noc":
        return rounds_to(curves, limit)
    if name == "nof":
        return failed(curves, limit, group.protocol).astype(float)
    return (~reached(curves, limit)).astype(float)


def _goal(tag: str) -> Goal:
    """The goal behind a statistic's name."""
    return Goal.parse(tag)


def _scale(measure: str) -> float:
    """Percent for shares, a measure's own unit for all others."""
    card = _card(measure)
    shares = measure in ("iou", "boundary-iou") or (card is not None and card.range == (0, 1))
    return 100.0 if shares else 1.0


def _card(measure: str) -> Measure[Any] | None:
    """The card of a measure that is installed; one of somebody's own file is not loaded."""
    if measure not in catalogue.measures.names():
        return None
    found = catalogue.measures.make(measure)
    return found if isinstance(found, Measure) else None


def _known(group: ClickSessions, measure: str) -> bool:
    """Whether every target has a value: a session that was stopped early has no area."""
    return not np.isnan(targets_of(group, measure)).any()


def rows_of(group: ClickSessions, cost: CostModel, goals: Goals) -> Iterator[SummaryRow]:
    """Every statistic of one group; those that are not known of any target are left out."""
    drawn = resampling(group)
    for measure in _measures(group, goals):
        values = targets_of(group, measure, cost)
        known = ~np.isnan(values)
        if measure.startswith(("nof@", "never@")):
            share = share_interval(values, group.clusters)
            yield summary_row(group, measure, _counted(share, len(values)), len(values))
        elif known.all():
            yield summary_row(group, measure, drawn.interval(values), len(values))
        elif known.any() and measure not in ("auc", "boundary-auc"):
            clusters = [c for c, k in zip(group.clusters, known, strict=True) if k]
            part = Resampling(clusters, seed=group.dataset).interval(values[known])
            yield summary_row(group, measure, part, int(known.sum()))
    for name, seconds in (("predict", group.answer), ("user", group.busy)):
        mean = drawn.interval(_mean_spoken(seconds, group.spoken))
        yield summary_row(group, f"seconds-{name}", mean, len(group.encode))
    yield summary_row(group, "seconds-encode", drawn.interval(group.encode), len(group.encode))


def _measures(group: ClickSessions, goals: Goals) -> Iterator[str]:
    """The names of all statistics of a group, in the order in which they are told."""
    for goal in goals.all:
        yield from (f"{name}@{goal.tag}" for name in ("noc", "nof", "never"))
    rounds = [k for k in ROUNDS if k <= group.rounds]
    yield "auc"
    yield from (f"iou@{k}" for k in rounds)
    for name in group.others:
        yield "boundary-auc" if name == "boundary-iou" else f"{name}-auc"
        yield from (f"{name}@{k}" for k in rounds)
    for goal in goals.all:
        yield f"seconds-to-{goal.tag}"
    yield f"waiting-to-{goals.lead.tag}"


def _mean_spoken(seconds: Floats, spoken: Floats) -> Floats:
    """Mean seconds per round of each target, over the rounds in which something was said."""
    counts = np.maximum((spoken > 0).sum(axis=1), 1)
    return np.asarray(seconds.sum(axis=1) / counts)


def _counted(share: Interval, targets: int) -> Interval:
    """A share of targets as a number of them."""
    return Interval(round(share.value * targets), share.low * targets, share.high * targets)


def _sessions(run: Results, measures: Sequence[str]) -> Any:
    """Every session with its prompts, seconds and measures, group after group.

    A look counts as the model's median over scenes, since the first one of a worker also
    pays for loading, and is shared by the targets of a scene.
    """
    columns = [_quoted(name.replace("-", "_")) for name in measures]
    chosen = ", ".join(f"{column} as m{k}" for k, column in enumerate(columns))
    return run.sql(f"""
        with shares as (
            select model, dataset, scene, "user", protocol, count(*) as sharing
            from sessions group by all),
        looks as (
            select model, dataset, median(encode) as typical
            from (select distinct model, dataset, scene, unnest(seconds_encode) as encode
                  from sessions) group by all)
        select model, dataset, "user", protocol, scene, target, cluster, kinds_ as kinds,
               typical / sharing as encode, seconds_predict as answer, seconds_user as busy,
               outline_px as outline, {chosen}
        from sessions join shares using (model, dataset, scene, "user", protocol)
                      join looks using (model, dataset)
        order by model, dataset, "user", protocol desc, scene, target
    """)


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'

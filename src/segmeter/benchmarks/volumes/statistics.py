"""Statistics of volumes: quality, what it cost, and quality at equal cost.

Numbers are averaged as the paper does: over the instances of a case, then over cases; so
intervals resample cases, which are patients. Dice and NSD stand in percent, effort in
interactions (a point 1, a box 2, a 3D box 3, a scribble 3, a named slice 1) unless a name
says seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from segmeter.benchmarks.grouping import cost_of, differences_in, measured, summary_row
from segmeter.benchmarks.volumes.judging import MEASURES
from segmeter.benchmarks.volumes.repeats import merged_repeats
from segmeter.core.benchmarks import Difference, Group, Results, SummaryRow
from segmeter.core.effort import Effort
from segmeter.stats.effort import CostModel
from segmeter.stats.effort_curves import area_to, effort_to, never_reached, quality_at
from segmeter.stats.intervals import Floats, Interval, Resampling, share_interval

__all__ = [
    "AREA",
    "BUDGETS",
    "GOALS",
    "VolumeSessions",
    "differences",
    "groups",
    "per_case",
    "rows_of",
    "summary",
    "targets_of",
]

BUDGETS = (5, 10, 20, 50)
GOALS = (80, 90)
AREA = 50
_CHALLENGE_DICE = 0.2
COMPARED = ("dice", "dice@10", "area", "effort-to-80")
Better = Literal["higher", "lower"]
Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class VolumeSessions(Group):
    """All sessions of a group, target by target.

    Tables are `(targets, rounds)`: Dice, interactions, degrees of freedom and seconds spent
    by the end of each round, the original's Dice of the target's case, and other measures.
    """

    dice: Floats
    labels: tuple[str, ...]
    paper_interactions: str
    interactions: Floats
    degrees_of_freedom: Floats
    seconds: Floats
    published: Floats
    others: dict[str, Floats]
    repeats: tuple[VolumeSessions, ...] = ()

    @property
    def rounds(self) -> int:
        return int(self.dice.shape[1])


def groups(run: Results, cost: CostModel) -> list[VolumeSessions]:
    """The run's sessions, grouped, with their seconds under a cost model."""
    others = measures_besides_dice(run)
    beside = ("interactions", "degrees_of_freedom", "case_dice_published")
    facts = _facts(run, cost)
    made = []
    for curves, tables in measured(run, "dice", *beside, *others):
        labels, paper_interactions, seconds = facts[curves.key]
        interactions, degrees_of_freedom, published = (tables[name] for name in beside)
        made.append(
            VolumeSessions(
                *curves.key,
                curves.keys,
                curves.clusters,
                curves.values,
                labels,
                paper_interactions,
                interactions,
                degrees_of_freedom,
                seconds,
                published,
                {name: tables[name] for name in others},
            )
        )
    return merged_repeats(made)


def measures_besides_dice(run: Results) -> list[str]:
    """Measures of the plan, then those that were added later for every row."""
    held = run.sql("select * from rows limit 0").column_names
    later = [m for m in MEASURES if m not in run.plan.measures and m.replace("-", "_") in held]
    whole = [m for m in later if not _lacking(run, m.replace("-", "_"))]
    return [m for m in (*run.plan.measures, *whole) if m != "dice"]


def _lacking(run: Results, column: str) -> bool:
    found = run.sql(f'select 1 from rows where "{column}" is null limit 1')
    return bool(found.num_rows)


def summary(run: Results) -> list[SummaryRow]:
    """Every statistic of every group, with its interval."""
    return [row for group in groups(run, cost_of(run)) for row in rows_of(group)]


def differences(run: Results) -> list[Difference]:
    """Every pair of models on the targets they share, by data set, user and reading."""
    return differences_in(COMPARED, groups(run, cost_of(run)), targets_of)


def targets_of(group: VolumeSessions, measure: str) -> Floats:
    """One value per target, whose mean over cases is the statistic of that name.

    Where the user draws at random, it is the mean over the draws.
    """
    if group.repeats:
        return np.asarray(np.mean([targets_of(one, measure) for one in group.repeats], axis=0))
    dice, spent = group.dice, group.interactions
    name, _, at = measure.partition("@")
    if measure.startswith(("effort-to-", "seconds-to-")):
        what, _, goal = measure.rpartition("-to-")
        table = spent if what == "effort" else group.seconds
        return effort_to(dice, table, int(goal) / 100)
    match name, at:
        case "dice", "":
            return 100 * dice[:, -1]
        case "dice", _:
            return 100 * quality_at(dice, spent, float(at))
        case "dice-first", "":
            return 100 * dice[:, 0]
        case "area", "":
            return 100 * area_to(dice, spent, AREA)
        case "interactions", "":
            return spent[:, -1]
        case "dof", "":
            return group.degrees_of_freedom[:, -1]
        case "seconds", "":
            return group.seconds[:, -1]
        case "dice-published", "":
            return 100 * group.published[:, -1]
    if measure.startswith(("dsc-", "nsd-")):
        return _challenge_values(group, measure)
    if measure in group.others:
        scale = 100 if measure in ("nsd", "iou", "precision", "recall") else 1
        return scale * group.others[measure][:, -1]
    raise KeyError(measure)


def per_case(group: VolumeSessions, values: Floats) -> tuple[Floats, list[str]]:
    """The mean of each case, and the patient that each case is of.

    A case with several classes counts each class once, whatever number of instances it has.
    """
    found: dict[str, dict[str, list[float]]] = {}
    patients: dict[str, str] = {}
    for (scene, _), patient, label, value in zip(
        group.keys, group.clusters, group.labels, values, strict=True
    ):
        found.setdefault(scene, {}).setdefault(label, []).append(float(value))
        patients[scene] = patient
    means = [np.mean([np.mean(v) for v in by_label.values()]) for by_label in found.values()]
    return np.array(means), [patients[scene] for scene in found]


def rows_of(group: VolumeSessions) -> Iterator[SummaryRow]:
    """Every statistic of one group."""
    for measure, interval in _measures(group):
        yield summary_row(group, measure, interval)


def _measures(group: VolumeSessions) -> Iterator[tuple[str, Interval]]:
    _, cases = per_case(group, group.dice[:, 0])
    drawn = Resampling(cases, seed=group.dataset)

    def of(measure: str) -> tuple[str, Interval]:
        values, _ = per_case(group, targets_of(group, measure))
        return measure, _interval(drawn, values)

    yield of("dice")
    if group.rounds > 1:
        yield of("dice-first")
    for measure in group.others:
        yield of(measure)
    for measure in ("interactions", "dof", "seconds"):
        yield of(measure)
    for budget in BUDGETS:
        yield of(f"dice@{budget}")
    yield of("area")
    for goal in GOALS:
        yield of(f"effort-to-{goal}")
        yield of(f"seconds-to-{goal}")
        each = group.repeats or (group,)
        never = np.concatenate([never_reached(one.dice, goal / 100) for one in each])
        share = share_interval(never, group.clusters * len(each))
        yield f"never@{goal}", share.times(100)
    yield of("dice-published")
    if group.user.startswith("cvpr25-clicks"):
        for measure in _challenge(group):
            yield of(measure)


def _challenge(group: VolumeSessions) -> list[str]:
    """The CVPR 2025 challenge's scores; NSD where it was measured."""
    return ["dsc-auc", "dsc-final"] + (["nsd-auc", "nsd-final"] if "nsd" in group.others else [])


def _challenge_values(group: VolumeSessions, measure: str) -> Floats:
    """Fractions, as the challenge prints them; NSD counts 0 unless Dice is above 0.2.

    The area is by trapezoids over the clicks, the box's round left out.
    """
    kind, _, what = measure.partition("-")
    table = group.dice
    if kind == "nsd":
        table = np.where(table > _CHALLENGE_DICE, group.others["nsd"], 0.0)
    if what == "final":
        return table[:, -1]
    clicks = table if "box=false" in group.user else table[:, 1:]
    return np.asarray(((clicks[:, 1:] + clicks[:, :-1]) / 2).sum(axis=1))


def _interval(drawn: Resampling, values: Floats) -> Interval:
    """The mean with its interval; none where a case is infinitely far, as an empty mask is."""
    if not np.isfinite(values).all():
        return Interval(float(np.mean(values)), float("nan"), float("nan"))
    return drawn.interval(values)


Facts = tuple[tuple[str, ...], str, Floats]


def _facts(run: Results, cost: CostModel) -> dict[Key, Facts]:
    """Labels, nominal interactions and seconds of each group, in the order of its curves.

    Seconds are a person's work under the cost model; no machine's waiting is among them.
    """
    table = run.sql("""
        select model, dataset, "user", protocol, scene, target,
               min(label) as label, min(paper_interactions) as paper_interactions,
               list(effort order by round) as efforts
        from rows group by model, dataset, "user", protocol, scene, target
        order by model, dataset, "user", protocol desc, scene, target
    """)
    found: dict[Key, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        key = (row["model"], row["dataset"], row["user"], row["protocol"])
        found.setdefault(key, []).append(row)
    return {key: _fact(rows, cost) for key, rows in found.items()}


def _fact(rows: Sequence[dict[str, Any]], cost: CostModel) -> Facts:
    longest = max(len(row["efforts"]) for row in rows)
    seconds = np.full((len(rows), longest), np.nan)
    for i, row in enumerate(rows):
        worked = [cost.of_effort(Effort(**json.loads(text))) for text in row["efforts"]]
        seconds[i, : len(worked)] = cost.per_object + np.array(worked)
    return tuple(row["label"] or "" for row in rows), rows[0]["paper_interactions"] or "", seconds

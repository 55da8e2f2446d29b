"""Statistics of volumes: quality, what it cost, and quality at equal cost.

Numbers are averaged as the paper does: over the instances of a case, then over cases; so
intervals resample cases, which are patients. Dice and NSD stand in percent, effort in
interactions (a point 1, a box 2, a 3D box 3, a scribble 3, a named slice 1) unless a name
says seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from segmeter.benchmarks.grouping import cost_of
from segmeter.benchmarks.volumes.judging import MEASURES
from segmeter.benchmarks.volumes.repeats import merged_repeats
from segmeter.core import catalogue
from segmeter.core.benchmarks import Group, Results
from segmeter.core.effort import Effort
from segmeter.core.tables import Tables, columns_in, load_tables
from segmeter.stats.effort import CostModel
from segmeter.stats.effort_curves import area_to, effort_to, never_reached, quality_at
from segmeter.stats.intervals import Floats, Interval, Resampling, share_interval
from segmeter.stats.statistics import Better, Statistic

__all__ = [
    "AREA",
    "BUDGETS",
    "GOALS",
    "VolumeSessions",
    "dice_within",
    "groups",
    "measures_besides_dice",
    "per_case",
    "seconds_until",
    "statistics",
]

BUDGETS = (5, 10, 20, 50)
GOALS = (80, 90)
AREA = 50
_CHALLENGE_DICE = 0.2
_CHALLENGE_USER = "cvpr25-clicks"


@dataclass(frozen=True, slots=True)
class VolumeSessions(Group):
    """All sessions of a group, object by object.

    Tables are `(objects, rounds)`: Dice, interactions, degrees of freedom and seconds spent
    by the end of each round, the original's Dice of the object's case, and other measures.
    """

    dice: Floats
    labels: tuple[str, ...]
    paper_interactions: str
    interactions: Floats
    degrees_of_freedom: Floats
    seconds: Floats
    published: Floats
    others: Mapping[str, Floats]
    repeats: tuple[VolumeSessions, ...] = ()

    @property
    def rounds(self) -> int:
        return int(self.dice.shape[1])

    @property
    def in_challenge(self) -> bool:
        """Whether the user clicks as the CVPR 2025 challenge does, which has its own scores."""
        return self.user.partition("?")[0] == _CHALLENGE_USER


def groups(run: Results) -> list[VolumeSessions]:
    """The run's sessions, grouped, with their seconds under the cost model in use."""
    others = {name: name.replace("-", "_") for name in measures_besides_dice(run)}
    columns = ["dice", "interactions", "degrees_of_freedom", "case_dice_published", "effort"]
    found = load_tables(run, [*columns, *others.values()], facts=["label", "paper_interactions"])
    cost = cost_of(run)
    return merged_repeats([_group(tables, others, cost) for tables in found])


def _group(tables: Tables, others: Mapping[str, str], cost: CostModel) -> VolumeSessions:
    return VolumeSessions(
        *tables.key,
        tables.keys,
        tables.clusters,
        tables.table("dice"),
        tuple(label or "" for label in tables.fact("label")),
        tables.fact("paper_interactions")[0] or "",
        tables.table("interactions"),
        tables.table("degrees_of_freedom"),
        _seconds(tables.lists("effort").to_pylist(), cost),
        tables.table("case_dice_published"),
        {name: tables.table(column) for name, column in others.items()},
    )


def _seconds(efforts: Sequence[Sequence[str]], cost: CostModel) -> Floats:
    """A person's work under the cost model; no machine's waiting is in it."""
    seconds = np.full((len(efforts), max(map(len, efforts))), np.nan)
    for i, texts in enumerate(efforts):
        worked = [cost.of_effort(Effort(**json.loads(text))) for text in texts]
        seconds[i, : len(worked)] = cost.per_object + np.array(worked)
    return seconds


def measures_besides_dice(run: Results) -> list[str]:
    """Measures of the plan, then those that were added later for every row."""
    held = columns_in(run)
    later = [m for m in MEASURES if m not in run.plan.measures and m.replace("-", "_") in held]
    whole = [m for m in later if not _lacking(run, m.replace("-", "_"))]
    return [m for m in (*run.plan.measures, *whole) if m != "dice"]


def _lacking(run: Results, column: str) -> bool:
    found = run.sql(f'select 1 from rows where "{column}" is null limit 1')
    return bool(found.num_rows)


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


def _mean_over_cases(group: VolumeSessions, values: Floats) -> Interval | None:
    """The mean over cases, patients resampled; no limits where a case is infinitely far."""
    if np.isnan(values).all():
        return None
    means, patients = per_case(group, values)
    if not np.isfinite(means).all():
        return Interval(float(np.mean(means)), float("nan"), float("nan"))
    return Resampling(patients, seed=group.dataset).interval(means)


def statistics(run: Results) -> list[Statistic]:
    """All statistics of a run, in the order in which they are listed."""
    others = measures_besides_dice(run)
    made = [
        _dice("dice", "Dice", lambda g: g.dice[:, -1], "%, last round", tested=True),
        _dice("dice-first", "Dice, first round", _first_of_several, "%"),
        *map(_other, others),
        _mean("interactions", "interactions", "per object", lambda g: g.interactions[:, -1]),
        _mean("dof", "degrees of freedom", "per object", lambda g: g.degrees_of_freedom[:, -1], 0),
        _mean("seconds", "seconds", "per object", lambda g: g.seconds[:, -1], 0),
        *(dice_within(budget, tested=budget == 10) for budget in BUDGETS),
        _dice("area", f"area to {AREA}", lambda g: area_to(g.dice, g.interactions, AREA), "%",
              tested=True),
    ]  # fmt: skip
    for goal in GOALS:
        made += [_effort_to(goal, tested=goal == GOALS[0]), seconds_until(goal), _never(goal)]
    made.append(_dice("dice-published", "Dice, matched anew", lambda g: g.published[:, -1], "%"))
    kinds = ("dsc", "nsd") if "nsd" in others else ("dsc",)
    return [*made, *(_challenge(kind, final=f) for kind in kinds for f in (False, True))]


def _mean(
    name: str,
    title: str,
    unit: str,
    values: Callable[[Any], Floats],
    digits: int = 1,
    better: Better = "lower",
    *,
    tested: bool = False,
    percent: bool = False,
) -> Statistic:
    def of_repeats(group: VolumeSessions) -> Floats:
        each = [values(one) for one in group.repeats or (group,)]
        return np.asarray(np.mean(each, axis=0))

    return Statistic(
        name, title, unit, digits, better, percent, of_repeats, _mean_over_cases,
        of=VolumeSessions, tested="yes" if tested else "on request",
    )  # fmt: skip


def _dice(
    name: str, title: str, values: Callable[[Any], Floats], unit: str, *, tested: bool = False
) -> Statistic:
    return _mean(name, title, unit, values, 1, "higher", tested=tested, percent=True)


def _first_of_several(group: VolumeSessions) -> Floats:
    return group.dice[:, 0] if group.rounds > 1 else np.full(group.size, np.nan)


def _other(measure: str) -> Statistic:
    """The last round of a further measure: shares in percent, distances in millimetres."""
    card = catalogue.measures.make(measure)
    share = card.range == (0, 1)
    title, unit = {"nsd": ("NSD", "%, at 2 mm")}.get(measure, (measure, "%" if share else "mm"))
    return _mean(
        measure, title, unit, lambda g: g.others[measure][:, -1], 1, card.better, percent=share
    )


def dice_within(budget: int, *, tested: bool = False) -> Statistic:
    """Dice of the last prediction that so many interactions pay for."""
    title, unit = f"Dice within {budget}", f"%, for {budget} interactions"
    return _dice(
        f"dice@{budget}", title, lambda g: quality_at(g.dice, g.interactions, budget), unit,
        tested=tested,
    )  # fmt: skip


def _effort_to(goal: int, *, tested: bool = False) -> Statistic:
    """Interactions until a Dice is reached; all that were made where it never is."""
    return _mean(
        f"effort-to-{goal}", f"to {goal} %", "interactions",
        lambda g: effort_to(g.dice, g.interactions, goal / 100), tested=tested,
    )  # fmt: skip


def seconds_until(goal: int) -> Statistic:
    """A person's seconds until a Dice is reached."""
    return _mean(
        f"seconds-to-{goal}", f"to {goal} %", "seconds",
        lambda g: effort_to(g.dice, g.seconds, goal / 100), 0,
    )  # fmt: skip


def _never(goal: int) -> Statistic:
    """The share of objects, in all draws of the user, that never reach a Dice."""

    def flags(group: VolumeSessions) -> list[Floats]:
        each = group.repeats or (group,)
        return [never_reached(one.dice, goal / 100).astype(float) for one in each]

    def interval(group: VolumeSessions, _: Floats) -> Interval:
        found = flags(group)
        return share_interval(np.concatenate(found), group.clusters * len(found))

    return Statistic(
        f"never@{goal}",
        f"never {goal} %",
        "% of objects",
        0,
        "lower",
        percent=True,
        values=lambda g: np.asarray(np.mean(flags(g), axis=0)),
        interval=interval,
        of=VolumeSessions,
    )


def _challenge(kind: str, *, final: bool) -> Statistic:
    """A score of the CVPR 2025 challenge, as it prints them; none for other users."""
    what = "final" if final else "AuC"

    def values(group: VolumeSessions) -> Floats:
        if not group.in_challenge:
            return np.full(group.size, np.nan)
        return _challenge_values(group, kind == "nsd", final)

    return _mean(f"{kind}-{what.lower()}", f"{kind.upper()} {what}", "", values, 3, "higher")


def _challenge_values(group: VolumeSessions, surface: bool, final: bool) -> Floats:
    """Fractions, as the challenge prints them; NSD counts 0 unless Dice is above 0.2.

    The area is by trapezoids over the clicks, the box's round left out.
    """
    table = group.dice
    if surface:
        table = np.where(table > _CHALLENGE_DICE, group.others["nsd"], 0.0)
    if final:
        return table[:, -1]
    clicks = table if "box=false" in group.user else table[:, 1:]
    return np.asarray(((clicks[:, 1:] + clicks[:, :-1]) / 2).sum(axis=1))

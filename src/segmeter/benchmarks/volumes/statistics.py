"""Statistics of volumes: quality, effort, and quality at equal effort.

Numbers are averaged as the paper does: over the instances of a case, then over cases; intervals
resample patients where the data names them, scans otherwise, and there are none below five. Dice
and NSD are in percent, effort in interactions (a point 1, a box 2, a 3D box 3, a scribble 3, a
named slice 1) unless a name says seconds. An object that never reaches a goal needs infinitely
many interactions for it, and the seconds of drawing it by hand on top of those spent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.analysis.costs import cost_of, means_over_targets
from segmeter.analysis.responses import STATISTICS as RESPONSES
from segmeter.analysis.responses import Responses, response_groups
from segmeter.benchmarks.volumes import MEASURES
from segmeter.core import catalogue
from segmeter.core.action_counts import Effort
from segmeter.core.benchmarks import FEWEST_PAIRS, FEWEST_PATIENTS, Group, Results
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped
from segmeter.core.masks import Bits
from segmeter.core.scores_by_step import Tables
from segmeter.measures.challenges import GATE
from segmeter.stats import annotation_time
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.comparisons import Paired, difference_of, paired_permutation_tests
from segmeter.stats.goals import Goal, reached
from segmeter.stats.intervals import Floats, Interval, Resampling, codes, share_interval
from segmeter.stats.statistics import Better, Statistic

BUDGETS = (5, 10, 20, 50)
GOALS = (80.0, 90.0)
_RESAMPLED = 15
"""Patients or scans from which an interval is a bootstrap. Below, where resamples hold the true
mean in 92 % (five), it is Student's t with one degree of freedom less than usual, because Dice is
skewed (docs/statistics.md)."""
AREA = 50
_CHALLENGE_USER = "cvpr25-clicks"
Places = npt.NDArray[np.intp]
_TABLES = {
    name: name
    for name in ("dice", "interactions", "degrees_of_freedom", "volume_ml", "predicted_ml")
} | {"published": "case_dice_published", "waited": "seconds_predict"}
"""Columns of the tables of sessions."""
_PROMPTER = ("prompter", "prompter_label", "paper_table", "paper_interactions")


def unit_of(group: Group) -> str:
    """The unit of resampling: patients where their names are not those of scans, else scans."""
    return "scan" if group.clusters == group.scenes else "patient"


@dataclass(frozen=True, slots=True)
class VolumeSessions(Group):
    """All sessions of a group, object by object.

    Tables are `(objects, rounds)`: Dice, interactions, degrees of freedom and seconds spent
    by the end of each round, the original's Dice of the object's case, and other measures.
    """

    dice: Floats
    labels: tuple[str, ...]
    prompter: str
    prompter_label: str
    paper_table: int
    paper_interactions: str
    interactions: Floats
    degrees_of_freedom: Floats
    seconds: Floats
    published: Floats
    others: Mapping[str, Floats]
    volume_ml: Floats
    predicted_ml: Floats
    by_hand: Floats
    waited: Floats
    repeats: tuple[VolumeSessions, ...] = ()
    start: Floats | None = None
    outline_mm: Floats | None = None
    cost: CostModel = field(default_factory=CostModel)
    typical: tuple[float, float] = (np.nan, np.nan)
    """The mean outline of all objects of the dataset, and the mean seconds to draw one by hand."""

    @property
    def rounds(self) -> int:
        return int(self.dice.shape[1])

    def unless_met(self, goal: float, values: Floats, at_start: float = 0.0) -> Floats:
        """Values of objects, `at_start` where the starting mask has the Dice of the goal."""
        if self.start is None:
            return values
        return np.where(2 * self.start / (1 + self.start) >= goal / 100, at_start, values)


def groups(run: Results) -> list[Group]:
    """Sessions of every prompter, and responses of models to its prompts."""
    return [*sessions(run), *responses(run)]


def sessions(run: Results) -> list[VolumeSessions]:
    """The run's sessions, grouped, with their seconds under the cost model in use."""
    others = {name: name.replace("-", "_") for name in measures_besides_dice(run)}
    columns = [*_TABLES.values(), "target_slices", "start_mask_iou", "outline_mm"]
    columns += [*(f"effort_{f.name}" for f in fields(Effort)), *others.values()]
    found, cost = Tables.load(run, columns, facts=["label", *_PROMPTER]), cost_of(run)
    values = ("outline_mm[1]", "coalesce(target_slices[1], 1)")
    means = means_over_targets(run, *values) if "outline_mm" in run.columns() else {}
    typical = {name: (mm, cost.by_hand * slices) for name, (mm, slices) in means.items()}
    made = [
        replace(_group(t, others, cost), typical=typical.get(t.dataset, (np.nan, np.nan)))
        for t in found
    ]
    draws = grouped(made, lambda g: (g.model, g.dataset, g.prompter, g.protocol))
    return [_merged(members) if len(members) > 1 else members[0] for members in draws.values()]


def responses(run: Results) -> list[Responses]:
    """How models obey prompts; the draws of a prompter are reported together."""
    found = run.sql('select distinct "user", prompter from sessions order by all').to_pylist()
    names = {row["user"]: row["prompter"] for row in found}
    every = response_groups(run, lambda user: names.get(user) or user)
    return [replace(group, unit=unit_of(group)) for group in every]


def _group(tables: Tables, others: Mapping[str, str], cost: CostModel) -> VolumeSessions:
    prompter, label, table, count = (tables.fact(name)[0] for name in _PROMPTER)
    start, outlines = (tables.table(c)[:, 0] for c in ("start_mask_iou", "outline_mm"))
    # Efforts are priced by sums and products, which hold for tables of counts as well.
    counts: Any = {f.name: tables.table(f"effort_{f.name}") for f in fields(Effort)}
    found: dict[str, Any] = {name: tables.table(column) for name, column in _TABLES.items()}
    return VolumeSessions(
        *tables.key,
        tables.keys,
        tables.clusters,
        unit=unit_of(tables),
        labels=tuple(label or "" for label in tables.fact("label")),
        prompter=prompter or tables.user,
        prompter_label=label or tables.user,
        paper_table=table or 0,
        paper_interactions=count or "",
        seconds=np.asarray(cost.per_object + cost.of_effort(Effort(**counts))),
        others={name: tables.table(column) for name, column in others.items()},
        by_hand=cost.by_hand * np.nan_to_num(tables.table("target_slices")[:, 0], nan=1.0),
        start=None if np.isnan(start).any() else start,
        outline_mm=None if np.isnan(outlines).any() else outlines,
        cost=cost,
        **found | {"waited": np.nan_to_num(found["waited"])},
    )


def measures_besides_dice(run: Results) -> list[str]:
    """Measures of the plan, then those that were added later for every row."""
    held = run.columns()
    later = [m for m in MEASURES if m not in run.plan.measures and m.replace("-", "_") in held]
    lacking = 'select 1 from sessions where list_count("{0}") < len("{0}") limit 1'
    whole = [m for m in later if not run.sql(lacking.format(m.replace("-", "_"))).num_rows]
    return [m for m in (*run.plan.measures, *whole) if m != "dice"]


@lru_cache(maxsize=256)
def cases_of(
    keys: Sequence[tuple[str, str]], clusters: Sequence[str], labels: Sequence[str]
) -> tuple[list[str], Places, Places]:
    """The patient of each case, the case of each class of a case, and the class of each object."""
    scenes = [scene for scene, _ in keys]
    place = codes(zip(scenes, labels, strict=True))
    _, first = np.unique(place, return_index=True)
    patients = dict(zip(scenes, clusters, strict=True))
    return list(patients.values()), codes(scenes)[first], place


def means_at(places: Places, values: Floats) -> tuple[Floats, Places]:
    """The mean of the values at each place that has any, and these places.

    >>> means_at(np.array([0, 2, 2]), np.array([1.0, 2.0, 4.0]))
    (array([1., 3.]), array([0, 2]))
    """
    number = np.bincount(places)
    there = np.flatnonzero(number)
    return np.bincount(places, values)[there] / number[there], there


def per_case(
    group: VolumeSessions, values: Floats, known: Bits | None = None
) -> tuple[Floats, list[str]]:
    """The mean of each case over its `known` objects, and the patient that each case is of.

    A case with several classes counts each class once, whatever number of instances it has.
    """
    patients, case_of, place = cases_of(group.keys, group.clusters, group.labels)
    chosen = slice(None) if known is None else known
    means, classes = means_at(place[chosen], values[chosen])
    found, cases = means_at(case_of[classes], means)
    return found, [patients[case] for case in cases]


def _mean_over_cases(group: VolumeSessions, values: Floats) -> Interval | None:
    """The mean over cases with limits by patients; none below five patients."""
    if np.isnan(values).all():
        return None
    means, patients = per_case(group, values)
    if len(set(patients)) < FEWEST_PATIENTS or not np.isfinite(means).all():
        return _alone(float(np.mean(means)))
    return limits_of(means, patients, group.dataset)


def limits_of(means: Floats, patients: Sequence[str], seed: object = 0) -> Interval:
    """The mean of cases with 95 % limits by patients, of whom there are at least five."""
    if len(set(patients)) < _RESAMPLED:
        return _student(means, patients)
    return Resampling(patients, seed=seed).interval(means)


def _paired(
    first: VolumeSessions, second: VolumeSessions, values: Callable[[VolumeSessions], Floats]
) -> Paired | None:
    """First minus second on the objects of both, averaged as each is; limits from six patients."""
    theirs = dict(zip(second.keys, values(second), strict=True))
    gaps = difference_of(values(first), np.array([theirs.get(k, np.nan) for k in first.keys]))
    known = ~np.isnan(gaps)
    if not known.any():
        return None
    means, patients = per_case(first, gaps, known)
    many, objects = len(set(patients)), int(known.sum())
    if many < FEWEST_PAIRS:
        return Paired(_alone(float(means.mean())), 1.0, objects, many)
    sums = Resampling(patients, resamples=1).sums(means)
    p = float(paired_permutation_tests(sums, seed=first.dataset)[0])
    return Paired(limits_of(means, patients, first.dataset), p, objects, many)


def _student(means: Floats, patients: Sequence[str]) -> Interval:
    """The mean with limits by Student's t and the jackknife over patients.

    Degrees of freedom follow from the effective number of patients, which is smaller where some
    have more cases than others.
    """
    from scipy import special

    names, place = np.unique(patients, return_inverse=True)
    mean, count, sizes = float(means.mean()), len(names), np.bincount(place)
    left = (means.sum() - np.bincount(place, means)) / (len(means) - sizes)
    error = np.sqrt((count - 1) / count * ((left - mean) ** 2).sum())
    effective = len(means) ** 2 / (sizes**2).sum()
    reach = float(special.stdtrit(max(1.0, effective - 2), 0.975) * error)
    return Interval(mean, mean - reach, mean + reach)


def _over_objects(reduced: Callable[[Floats], Any]) -> Callable[[Any, Floats], Interval | None]:
    """A number over objects without limits; none unless every object has a value."""
    return lambda _, values: None if np.isnan(values).any() else _alone(float(reduced(values)))


_median = _over_objects(np.median)
"""Infinite values included: a goal that is never reached, or an empty mask, counts as the worst
and does not make the number infinite."""


def _alone(value: float) -> Interval:
    return Interval(value, float("nan"), float("nan"))


def goals_of(run: Results) -> tuple[float, ...]:
    """Goals of Dice in percent: those given, or 80 and 90."""
    asked = run.settings.get("goal")
    if asked is None:
        return GOALS
    goal = Goal.parse(str(asked))
    if goal.below or not (goal.measure == "dice" or str(asked).strip() == goal.tag):
        raise BadInput(f"goals of volumes are Dice, as 90 or 'dice>=0.9', not '{asked}'")
    return (round(100 * goal.value, 6),)


def statistics(run: Results) -> list[Statistic]:
    """All statistics of a run, in the order in which they are listed."""
    others = measures_besides_dice(run)
    made = [
        _dice("dice", "final Dice", "%", lambda g: g.dice[:, -1], tested="yes"),
        _dice("dice-first", "Dice, first round", "%",
              lambda g: g.dice[:, 0] if g.rounds > 1 else np.full(g.size, np.nan)),
        _dice("dice-median", "Dice, median", "%", lambda g: g.dice[:, -1], interval=_median),
        _mean("empty", "empty masks", "of all objects", lambda g: np.where(
            np.isnan(g.predicted_ml[:, -1]), np.nan, g.predicted_ml[:, -1] == 0
        ), 0, interval=_over_objects(np.sum)),
        *map(_other, others),
        _mean("volume-error", "volume error", "%",
              lambda g: (g.predicted_ml - g.volume_ml)[:, -1] / g.volume_ml[:, -1], 1, "",
              percent=True),
        _mean("interactions", "interactions", "per object", lambda g: g.interactions[:, -1],
              better="", effort="clicks"),
        _mean("dof", "degrees of freedom", "per object", lambda g: g.degrees_of_freedom[:, -1], 0,
              ""),
        _mean("seconds", "seconds", "per object", lambda g: g.seconds[:, -1], 0, ""),
        *map(dice_within, BUDGETS),
        _dice("area", f"area to {AREA}", "%",
              lambda g: annotation_time.area_to(g.dice, g.interactions, AREA), tested="yes"),
    ]  # fmt: skip
    *_, lead = goals = goals_of(run)
    for goal in goals:
        pays = [rounds_that_pay(goal)] if "redrawn-path" in others else []
        made += [effort_until(goal), seconds_until(goal, lead=goal == lead), *pays, never(goal)]
    made.append(_dice("dice-published", "Dice, re-matched", "%", lambda g: g.published[:, -1]))
    kinds = ("dsc", "nsd") if "nsd" in others else ("dsc",)
    made += [_challenge(kind, final=f) for kind in kinds for f in (False, True)]
    return [*made, *(replace(s, fewest=FEWEST_PATIENTS) for s in RESPONSES)]


def _mean(
    name: str,
    title: str,
    unit: str,
    values: Callable[[Any], Floats],
    digits: int = 1,
    better: Better = "lower",
    interval: Callable[[Any, Floats], Interval | None] = _mean_over_cases,
    **more: Any,
) -> Statistic:
    def of_repeats(group: VolumeSessions) -> Floats:
        each = [values(one) for one in group.repeats or (group,)]
        return np.asarray(np.mean(each, axis=0))

    return Statistic(
        name, title, unit, digits, better, values=of_repeats, interval=interval,
        of=VolumeSessions, fewest=FEWEST_PATIENTS,
        pair=lambda first, second: _paired(first, second, of_repeats), **more,
    )  # fmt: skip


_dice = partial(_mean, better="higher", percent=True)


def _other(measure: str) -> Statistic:
    """The last round of a further measure: shares in percent, others in their unit.

    A distance is a median: one empty mask is infinitely far and would make any mean infinite.
    """
    card = catalogue.measures.make(measure)
    share = card.range == (0, 1)
    title = {"nsd": "NSD", "hd95": "HD95"}.get(measure, measure)
    unit = "%" if share else ", ".join(filter(None, (card.units[1], "median")))
    return _mean(
        measure, title, unit, lambda g: g.others[measure][:, -1], 1, card.better, percent=share,
        interval=_mean_over_cases if share else _median,
    )  # fmt: skip


def dice_within(budget: int) -> Statistic:
    """Dice of the last prediction that so many interactions pay for."""
    return _dice(
        f"dice@{budget}", f"Dice within {budget} interactions", "%",
        lambda g: annotation_time.quality_at(g.dice, g.interactions, budget),
        tested="yes" if budget == 10 else "on request",
    )  # fmt: skip


def effort_until(goal: float) -> Statistic:
    """Interactions until a Dice is reached, the median over objects; infinite for `never`."""

    def values(group: VolumeSessions) -> Floats:
        spent = annotation_time.effort_to(group.dice, group.interactions, goal / 100)
        return group.unless_met(goal, np.where(reached(group.dice, goal / 100), spent, np.inf))

    return _mean(
        f"effort-to-{goal:g}", f"to {goal:g} %", "interactions, median", values, interval=_median
    )


def seconds_until(goal: float, *, lead: bool = True) -> Statistic:
    """A person's seconds until a Dice is reached, corrected by hand as soon as that is cheaper;
    with drawing by hand where it never is. `--by` shows costs to the leading goal."""

    def waiting(group: VolumeSessions) -> Floats:
        encode = np.zeros(group.size)  # slices are encoded at their first prompt
        waited = annotation_time.waiting_to(group.dice, group.waited, encode, goal / 100)
        return group.unless_met(goal, waited)

    return _mean(
        f"seconds-to-{goal:g}", f"annotation time to {goal:g} % Dice", "s per object",
        lambda g: _with_touch_up(g, goal)[0], 0, effort="seconds" if lead else "", waiting=waiting,
    )  # fmt: skip


def rounds_that_pay(goal: float) -> Statistic:
    """Rounds after which correcting by hand, or the goal itself, is cheapest."""
    return _mean(
        f"rounds-before-touch-up-to-{goal:g}", f"before correcting by hand, {goal:g} %", "rounds",
        lambda g: _with_touch_up(g, goal)[1], 1, "",
    )  # fmt: skip


def _with_touch_up(group: VolumeSessions, goal: float) -> tuple[Floats, Floats]:
    """Least seconds, and after how many rounds; by prompts alone without `redrawn-path`."""
    cost, missing = group.cost, group.outline_mm is None or "redrawn-path" not in group.others
    seconds, rounds = annotation_time.seconds_with_touch_up(
        replace(cost, touch_up=float("inf")) if missing else cost, group.dice, group.seconds,
        goal / 100, group.others.get("redrawn-path", 0.0),
        1.0 if group.outline_mm is None else group.outline_mm, group.by_hand, group.typical,
    )  # fmt: skip
    # A prompter that prompts once has one round, whatever number of rows repeat its mask.
    made = 1 + (np.diff(group.interactions, axis=1) > 0).sum(axis=1)
    rounds = np.minimum(rounds, made)
    return group.unless_met(goal, seconds, cost.per_object), group.unless_met(goal, rounds)


def never(goal: float) -> Statistic:
    """The share of objects, in all draws of the user, that never reach a Dice."""

    def missed(group: VolumeSessions) -> Floats:
        return group.unless_met(goal, (~reached(group.dice, goal / 100)).astype(float))

    def interval(group: VolumeSessions, _: Floats) -> Interval:
        found = [missed(one) for one in group.repeats or (group,)]
        return share_interval(np.concatenate(found), group.clusters * len(found))

    return _mean(
        f"never@{goal:g}", f"never {goal:g} %", "% of objects", missed, 0, percent=True,
        interval=interval,
    )  # fmt: skip


def _challenge(kind: str, *, final: bool) -> Statistic:
    """A score of the CVPR 2025 challenge, as it prints them; none for other users."""
    what = "final" if final else "AuC"

    def values(group: VolumeSessions) -> Floats:
        """Fractions; the area is by trapezoids over the clicks, the box's round left out."""
        if group.user.partition("?")[0] != _CHALLENGE_USER:
            return np.full(group.size, np.nan)
        table = group.dice
        if kind == "nsd":
            table = np.where(_gated(group), 0.0, group.others["nsd"])
        if final:
            return table[:, -1]
        clicks = table if "box=false" in group.user else table[:, 1:]
        return np.asarray(((clicks[:, 1:] + clicks[:, :-1]) / 2).sum(axis=1))

    return _mean(f"{kind}-{what.lower()}", f"{kind.upper()} {what}", "", values, 3, "higher")


def _gated(group: VolumeSessions) -> Bits:
    """Whether the challenge's script leaves NSD at 0: where the case's mean Dice is at most 0.2."""
    if group.protocol == "corrected":
        return np.zeros(group.dice.shape, bool)
    cases = Resampling(group.scenes, resamples=1)
    means = cases.sums(group.dice) / np.bincount(cases.cluster)[:, None]
    return np.asarray((means <= GATE)[cases.cluster])


def _merged(members: Sequence[VolumeSessions]) -> VolumeSessions:
    """One group for all draws of a user; its tables are the means over the draws.

    A statistic is computed for each draw in `repeats` and averaged, so that an object counts
    once whatever the number of draws, and how much draws vary is part of its variance.
    """
    first = min(members, key=lambda group: (len(group.user), group.user))
    same = tuple(group for group in members if group.keys == first.keys)
    tables: dict[str, Any] = {
        f.name: np.mean([getattr(group, f.name) for group in same], axis=0)
        for f in fields(first)
        if isinstance(getattr(first, f.name), np.ndarray)
    }
    others = {n: np.mean([group.others[n] for group in same], axis=0) for n in first.others}
    return replace(first, **tables, others=others, repeats=same, user=first.prompter)

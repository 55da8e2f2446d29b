"""Power of a study by simulation: how often its analysis would find an effect of a given size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import sqlalchemy as sa

from segmeter.core.errors import BadInput
from segmeter.core.seeds import generator
from segmeter.stats.mask_ratings import Ratings, fit_ratings
from segmeter.study.analyses.clicking import centre_distances
from segmeter.study.exports import counted_rows
from segmeter.study.interactions import interactions
from segmeter.study.plan import Plan
from segmeter.study.stimuli import Stimuli


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations between participants and targets, of their interactions with the
    condition, and of the rest."""

    person: float
    target: float
    person_condition: float
    target_condition: float
    rest: float

    def with_values(self, given: Sequence[str]) -> Spread:
        """Some of them replaced: `person=0.5`.

        >>> ASSUMED["rate"].with_values(["rest=2"]).rest
        2.0
        """
        values = asdict(self)
        for text in given:
            name, _, value = text.partition("=")
            if name not in values:
                raise BadInput(f"--sd {text}: one of {', '.join(values)}, such as person=0.5")
            try:
                values[name] = float(value)
            except ValueError:
                values[name] = math.nan
            if not 0 <= values[name] < math.inf:
                raise BadInput(f"--sd {text}: '{value}' is not a standard deviation")
        return Spread(**values)

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:.3g}" for name, value in asdict(self).items())


ASSUMED = {
    "rate": Spread(0.7, 1.2, 0.2, 0.8, 0.9),
    "clicks": Spread(0.03, 0.06, 0.01, 0.03, 0.08),
    "clicks-round2": Spread(0.03, 0.06, 0.01, 0.03, 0.08),
    "interact": Spread(0.30, 0.40, 0.05, 0.20, 0.35),
}
"""Assumptions by kind: scores of 1 to 10, distance in diagonals of the target, log seconds."""
_FACTORS = {
    "person": "rater",
    "target": "target",
    "person_condition": "rater:model",
    "target_condition": "target:model",
}


def measured_spread(connection: sa.Connection, plan: Plan, stimuli: Stimuli) -> Spread:
    """The standard deviations in a study that has answers, by the mixed-effects model."""
    rows = counted_rows(connection, plan)
    if plan.clicks:
        values = centre_distances(rows, stimuli)
    elif plan.kind == "rate":
        rows = [row for row in rows if row["role"] == "person"]
        values = [float(row["score"]) for row in rows]
    else:
        found = [each for each in interactions(connection, plan) if each.steps]
        rows = [{**asdict(each), "condition": each.model} for each in found]
        values = [math.log(max(each.seconds, 0.001)) for each in found]
    targets = [f"{row['scene']}/{row['target']}" for row in rows]
    names = [[row[key] for row in rows] for key in ("condition", "scene", "person")]
    fitted = fit_ratings(Ratings(names[0], targets, names[1], names[2], values)).fitted
    variances = {name: fitted.variances.get(key, 0.0) for name, key in _FACTORS.items()}
    return Spread(**{n: math.sqrt(v) for n, v in variances.items()}, rest=fitted.residual**0.5)


@dataclass(frozen=True, slots=True)
class Power:
    """The share of simulated studies with p < `alpha`, its 95 % interval, and answers in each."""

    answers: int
    share: float
    low: float
    high: float


def simulated_answers(
    plan: Plan, people: int, targets: int, effect: float, spread: Spread, seed: object
) -> Ratings:
    """One simulated study with two conditions that differ by `effect`."""
    rng = generator("power", plan.seed, seed)
    each = plan.design.batch * max(1, plan.design.batches_per_person)
    person = rng.normal(0, spread.person, people)
    target = rng.normal(0, spread.target, targets)
    person_condition = rng.normal(0, spread.person_condition, (people, 2))
    target_condition = rng.normal(0, spread.target_condition, (targets, 2))
    rows: list[tuple[int, int, int, float]] = []
    for p in range(people):
        shown = rng.permutation(targets)[: min(each, targets)]
        for k, t in enumerate(shown.tolist()):
            condition = p % 2 if plan.fixed else (p + k) % 2
            value = effect * (condition - 0.5) + person[p] + target[t]
            value += person_condition[p, condition] + target_condition[t, condition]
            rows.append((condition, t, p, float(value + rng.normal(0, spread.rest))))
    scores = [value for *_, value in rows]
    if plan.kind == "rate":
        scores = [float(np.clip(np.rint(6.5 + value), 1, 10)) for value in scores]
    names = [f"t{t}" for _, t, _, _ in rows]
    return Ratings(
        [f"c{c}" for c, *_ in rows], names, names, [f"p{p}" for *_, p, _ in rows], scores
    )


def power_of(
    plan: Plan,
    people: int,
    targets: int,
    effect: float,
    spread: Spread,
    *,
    alpha: float = 0.05,
    studies: int = 200,
    comparisons: int = 1,
) -> Power:
    """Simulate studies of the plan's design and analyse each with the mixed-effects model.

    `comparisons` divides `alpha`, for as many pairs of conditions as are tested.
    """
    from scipy import stats

    if people < 4 or targets < 2:
        raise BadInput("a simulated study needs at least 4 participants and 2 targets")
    found: list[bool] = []
    answers = 0
    for number in range(studies):
        drawn = simulated_answers(plan, people, targets, effect, spread, number)
        contrast = fit_ratings(drawn).contrast("c1", "c0")
        found.append(bool(contrast.p < alpha / comparisons))
        answers = len(drawn.scores)
    interval = stats.binomtest(sum(found), studies).proportion_ci(method="wilson")
    return Power(answers, sum(found) / studies, float(interval.low), float(interval.high))

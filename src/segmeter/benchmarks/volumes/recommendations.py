"""Recommendations: which model, prompted how, is good enough for the fewest interactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from segmeter.benchmarks.volumes.statistics import FEWEST_PAIRS, VolumeSessions
from segmeter.benchmarks.volumes.tables import typed
from segmeter.core.benchmarks import Difference, Results
from segmeter.core.sections import Answer, phrase
from segmeter.stats.statistics import Statistic, corrected_together, differences_of

__all__ = ["against_best", "recommendation", "seen_as"]

_WANTED = 0.9
"""Share of objects that must reach the goal."""


def recommendation(groups: Sequence[VolumeSessions], dataset: str, goal: float) -> Answer:
    """Fewest interactions that reach a Dice in nine of ten objects, over all and by organ."""
    text = f"{dataset}: {_sentence(groups, goal)}"
    organs = sorted({label for group in groups for label in group.labels if label})
    by_organ = [f"{organ}: {_sentence(groups, goal, organ)}" for organ in organs]
    return Answer(phrase(text), " ".join(by_organ[:12]) if len(organs) > 1 else "")


def _sentence(groups: Sequence[VolumeSessions], goal: float, organ: str | None = None) -> str:
    found = [(*_reached(group, goal, organ), group) for group in groups]
    enough = [one for one in found if one[0] >= _WANTED]
    if not enough:
        share, spent, best = max(found, key=lambda one: (one[0], -one[1], one[2].key))
        if share == 0:
            return f"no prompter reaches Dice {goal:g} % in any object."
        return (
            f"no prompter reaches Dice {goal:g} % in 90 % of objects; closest is {_named(best)} "
            f"with {100 * share:.0f} % for {spent:.1f} interactions per object."
        )
    share, spent, best = min(enough, key=lambda one: (one[1], -one[0], one[2].key))
    return (
        f"fewest interactions that reach Dice {goal:g} % in 90 % of objects: {_named(best)}, "
        f"{spent:.1f} per object, {100 * share:.0f} % of objects."
    )


def _named(group: VolumeSessions) -> str:
    return f"{group.model} with --user '{typed(group.user)}'"


def _reached(group: VolumeSessions, goal: float, organ: str | None) -> tuple[float, float]:
    """Share of objects whose last mask reaches a Dice, and interactions spent on each."""
    mine = np.array([organ is None or label == organ for label in group.labels])
    if not mine.any():
        return 0.0, float("inf")
    draws = group.repeats or (group,)
    share = np.mean([(one.dice[mine, -1] >= goal / 100).mean() for one in draws])
    return float(share), float(group.interactions[mine, -1].mean())


def against_best(
    groups: Sequence[VolumeSessions], statistics: Sequence[Statistic]
) -> list[Difference]:
    """Each model's prompter with the highest Dice against its others, paired on objects."""
    found: list[Difference] = []
    for model in dict.fromkeys(group.model for group in groups):
        mine = [group for group in groups if group.model == model]
        best = max(mine, key=lambda group: (float(group.dice[:, -1].mean()), group.user))
        swapped = [replace(group, model=group.user, user=model) for group in mine]
        pairs = differences_of(swapped, statistics)
        found += [_first(d, best.user) for d in pairs if best.user in (d.first, d.second)]
    few = len({c for group in groups for c in group.clusters}) < FEWEST_PAIRS
    return [without_limits(d) if few else d for d in corrected_together(found)]


def _first(difference: Difference, user: str) -> Difference:
    """The difference with a user named first."""
    if difference.first == user:
        return difference
    d = difference
    names = d.second, d.first
    return replace(d, first=names[0], second=names[1], value=-d.value, low=-d.high, high=-d.low)


def without_limits(difference: Difference) -> Difference:
    """A difference of too few patients: neither limits nor a p value."""
    nan = float("nan")
    return replace(difference, low=nan, high=nan, p=1.0, p_holm=1.0)


def seen_as(run: Results) -> str:
    """Modality, window and orientation of what networks for slices saw."""
    rows = run.sql(
        "select distinct dataset, protocol, modality, window_low, window_high from rows"
        " where window_low is not null order by all"
    ).to_pylist()
    windows = sorted(
        {
            f"{row['modality'] or 'unknown modality'} from {row['window_low']:g} to"
            f" {row['window_high']:g}"
            for row in rows
            if row["protocol"] == run.plan.leading_protocol
        }
    )
    shown = windows[0] if len(windows) == 1 else f"{len(windows)} windows, one per volume"
    upright = "upright, the patient's right on the left"
    turned = "rotated by 180 degrees, as in the paper"
    way = turned if run.plan.leading_protocol == "published" else upright
    return f"Networks for slices saw {shown}; slices were shown {way}." if windows else ""

"""Screening: flags of participants, by rules that never look at the condition.

Rules use checks with known answers, times, flags of answers, and agreement with other raters.
The limits are in the plan's `[validity]`; `exclude_people` lists the flags that exclude.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.study.plan import Plan

Rows = Sequence[Mapping[str, Any]]
_LEAST_ANSWERS = 5
_LEAST_RATINGS = 10
_LEAST_CHECKS = 2
_STANDARD_ERRORS = 2.5


@dataclass(frozen=True, slots=True)
class Screened:
    """Findings of the rules about one participant."""

    flags: tuple[str, ...]
    excluded: bool
    checks: int
    checks_right: int
    agreement: float | None


def excluded_people(plan: Plan, rows: Rows) -> set[str]:
    """Participants whose answers are left out of analyses."""
    return {person for person, found in screen_people(plan, rows).items() if found.excluded}


def screen_people(plan: Plan, rows: Rows) -> dict[str, Screened]:
    """Apply the plan's rules about participants to all trials of an export."""
    answered = [r for r in rows if r["answered"] is not None and not r["training"]]
    by_person: dict[str, list[Mapping[str, Any]]] = {}
    for row in answered:
        by_person.setdefault(row["person"], []).append(row)
    speeds = {person: _seconds(own) for person, own in by_person.items()}
    usual = float(np.median(list(speeds.values()))) if speeds else 0.0
    agreement = _agreement(answered) if plan.kind == "rate" else {}
    outliers = _outliers(agreement, plan.validity.least_agreement)
    found = {}
    for person, own in by_person.items():
        checks = [bool(r["flag_right"]) for r in own if r["check"]]
        main = [r for r in own if not r["check"]]
        raised = {
            "flagged": _flagged(plan, main),
            "checks": len(checks) >= _LEAST_CHECKS
            and sum(checks) < plan.validity.checks * len(checks),
            "straight_lining": plan.kind == "rate" and _straight(plan, main),
            "speeding": len(own) >= _LEAST_ANSWERS
            and speeds[person] < plan.validity.speed_share * usual,
            "disagrees": person in outliers,
        }
        flags = tuple(name for name, value in raised.items() if value)
        excluded = bool(set(flags) & set(plan.validity.exclude_people))
        r = agreement.get(person, (None, 0))[0]
        found[person] = Screened(flags, excluded, len(checks), sum(checks), r)
    return found


def _seconds(rows: Rows) -> float:
    """Median seconds of an answer; for clicks after the screens, else by the server's clock."""
    times = [
        r["latency_ms"] / 1000 if r.get("latency_ms") is not None else r["server_total_ms"] / 1000
        for r in rows
    ]
    return float(np.median(times))


def _flagged(plan: Plan, rows: Rows) -> bool:
    """More than `flagged_share` of the answers have a flag or lie off their target."""
    bad = [
        bool(set(r["flag_bad"]) & set(plan.validity.exclude)) or r.get("flag_near") is False
        for r in rows
    ]
    return len(bad) >= _LEAST_ANSWERS and float(np.mean(bad)) > plan.validity.flagged_share


def _straight(plan: Plan, rows: Rows) -> bool:
    """Nearly all scores are the same."""
    scores = [r["score"] for r in rows]
    if len(scores) < _LEAST_RATINGS:
        return False
    most = int(np.unique(scores, return_counts=True)[1].max())
    return most >= plan.validity.straight_share * len(scores)


def _agreement(rows: Rows) -> dict[str, tuple[float, int]]:
    """Each rater's correlation with what others gave the same mask, or else the same object."""
    by_mask: dict[Any, list[tuple[str, float]]] = {}
    by_object: dict[Any, list[tuple[str, float]]] = {}
    for r in rows:
        mask = (r["scene"], r["target"], r["source"])
        by_mask.setdefault(mask, []).append((r["person"], r["score"]))
        by_object.setdefault(mask[:2], []).append((r["person"], r["score"]))
    pairs: dict[str, list[tuple[float, float]]] = {}
    for r in rows:
        mask = (r["scene"], r["target"], r["source"])
        others = [s for p, s in by_mask[mask] if p != r["person"]]
        others = others or [s for p, s in by_object[mask[:2]] if p != r["person"]]
        if others:
            pairs.setdefault(r["person"], []).append((r["score"], float(np.mean(others))))
    return {
        person: (_correlation(np.array(given)), len(given))
        for person, given in pairs.items()
        if len(given) >= _LEAST_RATINGS
    }


def _correlation(pairs: npt.NDArray[np.float64]) -> float:
    if np.ptp(pairs[:, 0]) == 0 or np.ptp(pairs[:, 1]) == 0:
        return 0.0
    return float(np.corrcoef(pairs[:, 0], pairs[:, 1])[0, 1])


def _outliers(agreement: Mapping[str, tuple[float, int]], least: float) -> set[str]:
    """Raters below `least` who are also far below the usual agreement of the study.

    Both are needed: where masks are hard to tell apart all raters agree little, and none of them
    is careless.
    """
    if len(agreement) < 3:
        return set()
    deviates = {p: float(np.arctanh(np.clip(r, -0.99, 0.99))) for p, (r, _) in agreement.items()}
    usual = float(np.median(list(deviates.values())))
    return {
        person
        for person, (r, many) in agreement.items()
        if r < least and deviates[person] < usual - _STANDARD_ERRORS / np.sqrt(many - 3)
    }

"""Validity: which answers and participants count, by the plan's rules; nothing is ever deleted.

An answer is stored with what the browser sent (`given`) and what the server observed (`server`):
`ms` since the last answer or step in the batch, `total_ms` since the last answer, whether an image
of the trial was never fetched, how often the trial was shown again after a reload, the declared
device. Flags are computed from both, and again when the rules of the plan change.

Participants get flags by rules that never look at the condition: checks with known answers, times,
flags of answers, agreement with other raters. The limits are in the plan's `[validity]`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from segmeter.core.grouping import grouped_pairs
from segmeter.core.masks import Mask
from segmeter.study.plan import Plan
from segmeter.study.stimuli import Stimuli

Flags = dict[str, Any]
Task = Mapping[str, Any] | sa.RowMapping
CLOCK_SLACK_MS = 1500.0
"""How far the browser's clock may run ahead of the server's: network and rounding."""
_SCREEN_SLACK_MS = 250.0


def distance_to(mask: Mask, y: float, x: float) -> float:
    """Distance in pixels from a point to the nearest pixel centre of a mask; 0 on the mask.

    Points are measured from the corner of the image: pixel `(0, 0)` is the square from 0 to 1.

    >>> distance_to(Mask.box((9, 9), (0, 0), (2, 2)), 0.5, 4.5)
    3.0
    """
    row, column = int(np.floor(y)), int(np.floor(x))
    height, width = mask.shape
    if 0 <= row < height and 0 <= column < width and mask[row, column]:
        return 0.0
    rows, columns = np.nonzero(mask.bits)
    if not rows.size:
        return float("inf")
    down = rows + (mask.low[0] + 0.5 - y)
    across = columns + (mask.low[1] + 0.5 - x)
    return float(np.sqrt((down * down + across * across).min()))


def answer_flags(plan: Plan, stimuli: Stimuli, task: Task, body: Mapping[str, Any]) -> Flags:
    """The result of the rules for one answer; `bad` lists the flags that are raised."""
    given, server = body["given"], body["server"]
    found: Flags = {}
    if "x" in given:
        mask = stimuli.mask(task["scene"], task["target"], task["part"], task["source"])
        away = distance_to(mask, given["y"], given["x"])
        radius = plan.validity.radius * math.hypot(*mask.shape)
        found |= {"inside": away == 0.0, "near": away <= radius, "distance_px": round(away, 3)}
    screens = given.get("screens", [])
    worst = max((abs(s["true_ms"] - s["planned_ms"]) for s in screens), default=0.0)
    found["worst_ms"] = round(worst, 3)
    raised = {
        "late": worst > plan.validity.late_ms,
        "left_page": bool(given["focus_lost"]),
        "too_fast": _too_fast(plan, task, given, server),
        "clock": server["clock"] or _impossible(given, server),
        "unseen": bool(server["unseen"]),
        "wrong_device": server["device"] in _NOT_WITH.get(given.get("pointer", ""), ()),
        "shown_again": bool(server["shown_again"]) and plan.kind != "rate",
        "no_click": plan.kind == "interact" and not server["steps"],
    }
    found["bad"] = [name for name, value in raised.items() if value]
    right = _right(plan, task, given, found)
    return found if right is None else {**found, "right": right}


_NOT_WITH = {"touch": ("pc",), "mouse": ("mobile",)}
"""Pointers that contradict a declared device; a pen goes with both."""


def _impossible(given: Mapping[str, Any], server: Mapping[str, Any]) -> bool:
    """Whether the browser claims more time than passed on the server."""
    shown = sum(screen["true_ms"] for screen in given.get("screens", []))
    last = given.get("review_ms", 1000 * given.get("seconds", 0.0))
    if "latency_ms" in given:
        last = given["latency_ms"] + shown
    allowed = server["ms"] + CLOCK_SLACK_MS
    return bool(last > allowed or shown > server["total_ms"] + CLOCK_SLACK_MS)


def _too_fast(plan: Plan, task: Task, given: Mapping[str, Any], server: Mapping[str, Any]) -> bool:
    if server["ms"] < 1000 * plan.least_seconds:
        return True
    if plan.kind == "rate":
        return False
    if given.get("latency_ms", math.inf) < plan.validity.least_latency_ms:
        return True
    screens = 1000 * plan.mode_of(task["condition"]).seconds
    return bool(server["total_ms"] < screens - _SCREEN_SLACK_MS)


def _right(plan: Plan, task: Task, given: Mapping[str, Any], found: Flags) -> bool | None:
    """Whether a practice or check trial was answered right; None for all other trials."""
    if task["task_role"] == "main":
        return None
    if "score" in given:
        known = plan.rating.training if task["task_role"] == "training" else plan.rating.gold
        return bool(known[task["task_place"]].passes(given["score"]))
    return bool(found["inside"]) if "inside" in found else "no_click" not in found["bad"]


def counts(plan: Plan, flags: Flags | None) -> bool:
    """Whether a single answer counts, before the rules about batches."""
    if flags is None or "right" in flags:
        return False
    return flags.get("near", True) and not set(flags["bad"]) & set(plan.validity.exclude)


def conclude(
    plan: Plan, roles: Sequence[str], flags: Sequence[Flags | None], returned: bool = False
) -> tuple[str, str, list[int]]:
    """Apply the rules about batches: state, reason, and for each trial 1 if it counts.

    A batch that was given back is judged like any other. A batch of clicks needs `batch_minimum`
    clicks on their targets (without the radius). A batch with checks needs the share
    `validity.checks` of them right; one whose check was never answered does not count.
    """
    known = [each for each, role in zip(flags, roles, strict=True) if role == "gold"]
    right = sum(bool(each and each["right"]) for each in known)
    main = [each for each, role in zip(flags, roles, strict=True) if role == "main"]
    inside = sum(bool(each and each["inside"]) for each in main) if plan.clicks else 0
    failed = ""
    if known and right < plan.validity.checks * len(known):
        failed = f"{right} of {len(known)} checks right"
    elif plan.clicks and inside < min(plan.batch_minimum, len(main)):
        failed = f"{inside} of {len(main)} clicks on the target"
    if failed:
        return "returned" if returned else "dropped", failed, [0] * len(flags)
    state, reason = ("returned", "timed out") if returned else ("done", "")
    return state, reason, [int(counts(plan, each)) for each in flags]


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
    """Apply the plan's rules about participants to all trials of an export.

    `flagged`: more than `flagged_share` of the answers have a flag or lie off their target;
    `straight_lining`: nearly all scores are the same.
    """
    answered = [r for r in rows if r["answered"] is not None and not r["training"]]
    by_person = grouped_pairs((row["person"], row) for row in answered)
    speeds = {person: _seconds(own) for person, own in by_person.items()}
    usual = float(np.median(list(speeds.values()))) if speeds else 0.0
    agreement = _agreement(answered) if plan.kind == "rate" else {}
    outliers = _outliers(agreement, plan.validity.least_agreement)
    found, rules = {}, plan.validity
    for person, own in by_person.items():
        checks = [bool(r["flag_right"]) for r in own if r["check"]]
        main = [r for r in own if not r["check"]]
        bad = [
            r for r in main if {*r["flag_bad"]} & {*rules.exclude} or r.get("flag_near") is False
        ]
        same = max(Counter(r.get("score") for r in main).values(), default=0)
        raised = {
            "flagged": len(main) >= _LEAST_ANSWERS and len(bad) > rules.flagged_share * len(main),
            "checks": len(checks) >= _LEAST_CHECKS and sum(checks) < rules.checks * len(checks),
            "straight_lining": plan.kind == "rate"
            and len(main) >= _LEAST_RATINGS
            and same >= rules.straight_share * len(main),
            "speeding": len(own) >= _LEAST_ANSWERS and speeds[person] < rules.speed_share * usual,
            "disagrees": person in outliers,
        }
        flags = tuple(name for name, value in raised.items() if value)
        excluded = bool(set(flags) & set(rules.exclude_people))
        r = agreement.get(person, (None, 0))[0]
        found[person] = Screened(flags, excluded, len(checks), sum(checks), r)
    return found


def _seconds(rows: Rows) -> float:
    """Median seconds of an answer; for clicks after the screens, else by the server's clock."""
    late = [r.get("latency_ms") for r in rows]
    times = [r["server_total_ms"] if ms is None else ms for r, ms in zip(rows, late, strict=True)]
    return float(np.median([ms / 1000 for ms in times]))


def _agreement(rows: Rows) -> dict[str, tuple[float, int]]:
    """Each rater's correlation with what others gave the same mask, or else the same object."""
    rated = [((r["scene"], r["target"], r["source"]), r["person"], r["score"]) for r in rows]
    by_mask = grouped_pairs((mask, (who, score)) for mask, who, score in rated)
    by_target = grouped_pairs((mask[:2], (who, score)) for mask, who, score in rated)
    pairs = []
    for mask, person, score in rated:
        others = [s for who, s in by_mask[mask] if who != person]
        others = others or [s for who, s in by_target[mask[:2]] if who != person]
        pairs += [(person, (score, float(np.mean(others))))] if others else []
    found = {}
    for person, own in grouped_pairs(pairs).items():
        if len(own) >= _LEAST_RATINGS:
            scores = np.array(own)
            varies = bool(np.ptp(scores, axis=0).all())
            found[person] = float(np.corrcoef(scores.T)[0, 1]) if varies else 0.0, len(own)
    return found


def _outliers(agreement: Mapping[str, tuple[float, int]], least: float) -> set[str]:
    """Raters below `least` who are also far below the usual agreement of the study.

    Both are needed: if masks hardly differ all raters agree little, and none of them is careless.
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

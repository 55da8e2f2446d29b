"""Validity: which answers count, by the plan's rules; nothing is ever deleted for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from segmeter.core.masks import Mask
from segmeter.study.plan import Plan
from segmeter.study.plan_parts import Validity

__all__ = ["batch_verdict", "click_flags", "distance_to", "timing_flags"]

Flags = dict[str, Any]


def distance_to(mask: Mask, y: float, x: float) -> float:
    """How far a point of the image lies from a mask's nearest pixel centre; 0 on the mask.

    Points are measured from the image's corner, so that pixel `(0, 0)` is the square from
    0 to 1 and its centre is `(0.5, 0.5)`.

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


def click_flags(mask: Mask, y: float, x: float, rules: Validity) -> Flags:
    """Whether a click lies on its target, and if not, whether within the radius of it."""
    away = distance_to(mask, y, x)
    radius = rules.radius * math.hypot(*mask.shape)
    return {"inside": away == 0.0, "near": away <= radius, "distance_px": round(away, 3)}


def timing_flags(answer: Mapping[str, Any], rules: Validity) -> Flags:
    """Whether a screen missed its time, or the page lost the focus."""
    late = max((abs(s["true_ms"] - s["planned_ms"]) for s in answer["screens"]), default=0.0)
    return {
        "late": late > rules.late_ms,
        "unfocused": bool(answer["focus_lost"]) and rules.focus,
        "worst_ms": round(late, 3),
    }


def batch_verdict(plan: Plan, flags: Sequence[Flags | None]) -> tuple[str, str, list[int]]:
    """State, reason, and which trials count, of a batch whose trials have these flags.

    The rule of a batch asks for clicks on the target itself, that of one click allows the
    radius. Ratings of masks with a known answer (`right`) never count themselves.
    """
    if not plan.clicks:
        return _rated_verdict(plan.validity, flags)
    inside = sum(bool(each and each["inside"]) for each in flags)
    if inside < min(plan.validity.batch_minimum, len(flags)):
        reason = f"{inside} of {len(flags)} clicks on the target"
        return "dropped", reason, [0] * len(flags)
    return "done", "", [int(_counts(each)) for each in flags]


def _rated_verdict(rules: Validity, flags: Sequence[Flags | None]) -> tuple[str, str, list[int]]:
    known = [bool(each["right"]) for each in flags if each and "right" in each]
    if known and sum(known) < rules.gold * len(known):
        reason = f"{sum(known)} of {len(known)} known masks rated right"
        return "dropped", reason, [0] * len(flags)
    return "done", "", [int(each is not None and "right" not in each) for each in flags]


def _counts(flags: Flags | None) -> bool:
    if flags is None:
        return False
    return bool(flags["near"]) and not flags["late"] and not flags["unfocused"]

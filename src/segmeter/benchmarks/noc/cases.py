"""The cases behind the numbers: hardest objects as images, chosen sessions replayed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.noc.comparison import Comparison
from segmeter.benchmarks.noc.statistics import ClickSessions
from segmeter.core.benchmarks import Results
from segmeter.core.sections import Gallery, Note, Replay
from segmeter.core.wording import counted
from segmeter.stats.goals import Goal, area_under, first_round

_GALLERY, _REPLAYED, _MODELS = 8, 5, 3


def cases_of(run: Results, comparison: Comparison) -> tuple[list[parts.Case], str]:
    """The targets to show, the hardest first, then a middling and a disputed one.

    Hard is what costs most over all models, then what ends low; the models differ most on the
    disputed one. With them comes the reason why there are none, where the data is not available.
    """
    area = _by_key(comparison, _areas)
    clicks = _by_key(comparison, lambda g: comparison.per_object(g, comparison.clicks))
    cost = {key: np.mean(np.subtract(clicks[key], np.divide(area[key], 1000))) for key in area}
    order = sorted(cost, key=lambda key: (-float(cost[key]), key))
    disputed = max(sorted(area), key=lambda key: max(area[key]) - min(area[key]))
    chosen = [*order[:_GALLERY], order[len(order) // 2], disputed]
    dataset = comparison.groups[0].dataset
    return parts.available_cases(run, [(dataset, key) for key in dict.fromkeys(chosen)])


def hardest(run: Results, comparison: Comparison, cases: Sequence[parts.Case]) -> Gallery | Note:
    """The objects that cost most over all models, with the best model's clicks."""
    best, goal, images = comparison.groups[0], comparison.goals.lead, []
    shown = replay_keys(comparison, cases)
    for case in cases[:_GALLERY]:
        frames = parts.session_frames(run, best, case, (best.user,))
        if not frames:
            return parts.NO_MASKS
        seen = frames[: _reached(best, case.key, goal) or len(frames)]
        outcomes = [f"**{case.title}**"]
        for group in comparison.groups:
            if case.key in group.keys:
                curve = group.iou[group.keys.index(case.key)]
                never = f"never, ends at {100 * curve[~np.isnan(curve)][-1]:.0f} %"
                outcomes.append(f"{group.model}: {_reached(group, case.key, goal) or never}")
        images.append(
            case.drawn(
                "\n".join(outcomes),
                f"{case.title} with the ground truth, the mask of {best.model} and its clicks",
                mask=seen[-1].mask,
                name=best.model,
                prompts=[prompt for frame in seen for prompt in frame.prompts],
                link=shown.get((case.key, best.model), ""),
            )
        )
    return Gallery(
        images,
        f"Dashed: the ground truth. Filled: the mask of {best.model} when it reached {goal.text}, "
        "or its last one. Discs with a plus are clicks on the object, squares with a minus off it. "
        "An image with a link leads to its replay.",
    )


def replays(run: Results, comparison: Comparison, cases: Sequence[parts.Case]) -> list[Replay]:
    """Chosen sessions of the first models, click by click."""
    goal, made = comparison.goals.lead, []
    wanted = replay_keys(comparison, cases)
    for case in cases:
        for group in comparison.groups:
            key = wanted.get((case.key, group.model))
            frames = parts.session_frames(run, group, case, (group.user,)) if key else []
            if key and frames:
                reached = _reached(group, case.key, goal)
                outcome = f"not {goal.short} in {len(frames)} rounds"
                if reached:
                    outcome = f"{goal.short} after {counted(reached, 'click')}"
                caption = f"{case.scene.name}, user {group.user}, protocol {group.protocol}"
                shown = goal.value if goal.measure == "iou" else None
                outcomes = f"{group.model}: {outcome}"
                made.append(case.replay(key, outcomes, frames, shown, caption))
    return made


def replay_keys(
    comparison: Comparison, cases: Sequence[parts.Case]
) -> dict[tuple[parts.Key, str], str]:
    """Which sessions are replayed, and under which anchors."""
    chosen = [*cases[: _REPLAYED - 2], *cases[-2:]]
    place = re.sub(r"\W+", "-", comparison.title)
    return {
        (case.key, model): f"replay-{place}-{i}-{k}"
        for i, case in enumerate({c.key: c for c in chosen}.values())
        for k, model in enumerate(comparison.models[:_MODELS])
    }


def _reached(group: ClickSessions, key: parts.Key, goal: Goal) -> int:
    """The round in which a target reaches the goal; 0 where it never does."""
    curves, limit = group.towards(goal)
    return int(first_round(curves[group.keys.index(key)][None], limit)[0])


def _by_key(
    comparison: Comparison, values: Callable[[ClickSessions], Any]
) -> dict[parts.Key, list[float]]:
    """The values of every target, one for each model that has it."""
    found: dict[parts.Key, list[float]] = {}
    for group in comparison.groups:
        for key, value in zip(group.keys, values(group), strict=True):
            found.setdefault(key, []).append(float(value))
    return found


def _areas(group: ClickSessions) -> Any:
    """Area under IoU of each target; of a session stopped early, its last quality."""
    values = group.iou
    known = np.where(np.isnan(values), -np.inf, values).max(axis=1)
    return np.where(np.isnan(values).any(axis=1), 100 * known, 100 * area_under(values))

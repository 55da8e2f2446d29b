"""The cases behind the numbers: hardest objects as images, chosen sessions replayed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.noc.comparison import Comparison
from segmeter.benchmarks.noc.statistics import ClickSessions
from segmeter.core.benchmarks import Results
from segmeter.core.errors import BadInput
from segmeter.core.sections import Frame, Gallery, Note, Replay
from segmeter.core.wording import counted
from segmeter.stats.goals import Goal, area_under, first_round

_GALLERY, _REPLAYED, _MODELS = 8, 5, 3


def cases_of(run: Results, comparison: Comparison) -> tuple[list[parts.Case], str]:
    """The targets to show, the hardest first, then a middling and a disputed one.

    With them comes the reason why there are none, where the data is not available.
    """
    order = _by_hardness(comparison)
    chosen = [*order[:_GALLERY], order[len(order) // 2], _disputed(comparison)]
    dataset = comparison.groups[0].dataset
    return parts.available_cases(run, [(dataset, key) for key in dict.fromkeys(chosen)])


def hardest(run: Results, comparison: Comparison, cases: Sequence[parts.Case]) -> Gallery | Note:
    """The objects that cost most over all models, with the best model's clicks."""
    best = comparison.models[0]
    images = []
    shown = replay_keys(comparison, cases)
    for case in cases[:_GALLERY]:
        frames = _frames(run, comparison.groups[0], case)
        if not frames:
            return parts.NO_MASKS
        reached = _reached(comparison.groups[0], case.key, comparison.goals.lead)
        upto = reached or len(frames)
        said = [prompt for frame in frames[:upto] for prompt in frame.prompts]
        images.append(
            case.drawn(
                _caption(comparison, case),
                f"{case.title} with the ground truth, the mask of {best} and its clicks",
                mask=frames[upto - 1].mask,
                name=best,
                prompts=said,
                link=shown.get((case.key, best), ""),
            )
        )
    return Gallery(
        images,
        f"Dashed: the ground truth. Filled: the mask of {best} when it reached "
        f"{comparison.goals.lead.text}, or its last one. "
        "Discs with a plus are clicks on the object, squares with a minus off it. An image "
        "with a link leads to its replay.",
    )


def replays(run: Results, comparison: Comparison, cases: Sequence[parts.Case]) -> list[Replay]:
    """Chosen sessions of the first models, click by click."""
    made = []
    wanted = replay_keys(comparison, cases)
    for case in cases:
        for group in comparison.groups:
            key = wanted.get((case.key, group.model))
            frames = _frames(run, group, case) if key else []
            if key and frames:
                made.append(_replay(key, case, group, frames, comparison.goals.lead))
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


def _replay(
    key: str, case: parts.Case, group: ClickSessions, frames: Sequence[Frame], goal: Goal
) -> Replay:
    model, _, user, protocol = group.key
    reached = _reached(group, case.key, goal)
    outcome = f"not {goal.short} in {len(frames)} rounds"
    if reached:
        outcome = f"{goal.short} after {counted(reached, 'click')}"
    shown = goal.value if goal.measure == "iou" else None
    caption = f"{case.scene.name}, user {user}, protocol {protocol}"
    return case.replay(key, f"{model}: {outcome}", frames, shown, caption)


def _reached(group: ClickSessions, key: parts.Key, goal: Goal) -> int:
    """The round in which a target reaches the goal; 0 where it never does."""
    curves, limit = group.towards(goal)
    return int(first_round(curves[group.keys.index(key)][None], limit)[0])


def _frames(run: Results, group: ClickSessions, case: parts.Case) -> list[Frame]:
    """The rounds of one session; none when masks were not kept."""
    rows = parts.session_rows(run, group, case.key, (group.user,))
    if any(row["mask"] is None for row in rows):
        return []
    try:
        return [parts.frame_of(row, case.scene.shape) for row in rows]
    except BadInput:  # a run that was damaged or made up
        return []


def _by_hardness(comparison: Comparison) -> list[parts.Key]:
    """Targets by what they cost over all models, then by the quality they reach."""
    cost: dict[parts.Key, list[float]] = {}
    for group in comparison.groups:
        clicks = comparison.per_object(group, comparison.clicks)
        area = _areas(group)
        for key, c, a in zip(group.keys, clicks, area, strict=True):
            cost.setdefault(key, []).append(float(c - a / 1000))
    return sorted(cost, key=lambda key: (-float(np.mean(cost[key])), key))


def _disputed(comparison: Comparison) -> parts.Key:
    """The target on which the models differ most."""
    area: dict[parts.Key, list[float]] = {}
    for group in comparison.groups:
        for key, a in zip(group.keys, _areas(group), strict=True):
            area.setdefault(key, []).append(float(a))
    return max(sorted(area), key=lambda key: max(area[key]) - min(area[key]))


def _areas(group: ClickSessions) -> Any:
    """Area under IoU of each target; of a session stopped early, its last quality."""
    values = group.iou
    known = np.where(np.isnan(values), -np.inf, values).max(axis=1)
    return np.where(np.isnan(values).any(axis=1), 100 * known, 100 * area_under(values))


def _caption(comparison: Comparison, case: parts.Case) -> str:
    """The object, and what it costs with each model."""
    told = []
    for group in comparison.groups:
        if case.key in group.keys:
            curve = group.iou[group.keys.index(case.key)]
            reached = _reached(group, case.key, comparison.goals.lead)
            never = f"never, ends at {100 * curve[~np.isnan(curve)][-1]:.0f} %"
            told.append(f"{group.model}: {reached or never}")
    return "\n".join([f"**{case.title}**", *told])

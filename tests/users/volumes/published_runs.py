"""The original's prompter classes, made of the pure functions, and its refinement loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from fakes import Bits, Case, Fake, stacked

from segmeter.core.masks import Mask
from segmeter.core.prompts import Prompt
from segmeter.users.volumes.initial_prompts import (
    Answers,
    Draws,
    PublishedDraws,
    alternating_points_per_slice,
    box_3d,
    box_per_slice,
    box_propagation,
    boxes_from_3d_box,
    centre_point_per_slice,
    centre_points_per_volume,
    centroid,
    interpolated_boxes,
    interpolated_points,
    point_propagation,
    points_per_slice,
    points_per_volume,
)
from segmeter.users.volumes.refinement_prompts import (
    Correction,
    near,
    point_per_wrong_slice,
    point_per_wrong_volume,
    scribble_correction,
    scribble_correction_3d,
)

Start = Callable[[Mask, Draws, Answers], Sequence[Prompt]]
COUNTS = {"One": 1, "Two": 2, "Three": 3, "Five": 5, "Ten": 10}


def _starts() -> dict[str, Start]:
    found: dict[str, Start] = {
        "CenterPointPrompter": lambda t, d, a: centre_point_per_slice(t),
        "PointPropagationPrompter": lambda t, d, a: point_propagation(t, a, d, "published"),
        "BoxPropagationPrompter": lambda t, d, a: box_propagation(t, a, "published"),
        "BoxPer2DSlicePrompter": lambda t, d, a: box_per_slice(t),
        "BoxPer2dSliceFrom3DBoxPrompter": lambda t, d, a: boxes_from_3d_box(t),
        "CentroidPoint3DVolumePrompter": lambda t, d, a: centroid(t),
        "Box3DVolumePrompter": lambda t, d, a: [box_3d(t)],
    }
    for word, n in COUNTS.items():
        found |= {
            f"{word}FGPointsPer2DSlicePrompter": _with(
                n, lambda n, t, d: points_per_slice(t, n, d)
            ),
            f"Alternating{n}PointsPer2DSlicePrompter": _with(
                n, lambda n, t, d: alternating_points_per_slice(t, n, d)
            ),
            f"{word}PointInterpolationPrompter": _with(
                n, lambda n, t, d: interpolated_points(t, n, "published")
            ),
            f"{word}BoxInterpolationPrompter": _with(
                n, lambda n, t, d: interpolated_boxes(t, n, "published")
            ),
            f"{word}Points3DVolumePrompter": _with(n, lambda n, t, d: points_per_volume(t, n, d)),
            f"{word}PointsFromCenterCropped3DVolumePrompter": _with(
                n, lambda n, t, d: centre_points_per_volume(t, n, "published")
            ),
        }
    for k in (3, 5):
        found[f"ThreeBoxInterpolationPrompter_nonperfect{k}"] = _with(
            k, lambda k, t, d: interpolated_boxes(t, 3, "published", k, d)
        )
    return found


def _with(n: int, make: Callable[[int, Mask, Draws], Sequence[Prompt]]) -> Start:
    return lambda target, draws, answers: make(n, target, draws)


STARTS = _starts()
REFINED = {
    "twoD1PointUnrealistic": "OneFGPointsPer2DSlicePrompter",
    "OnePointPer2DSlice": "OneFGPointsPer2DSlicePrompter",
    "PointInterpolation": "FivePointInterpolationPrompter",
    "BoxInterpolation": "ThreeBoxInterpolationPrompter",
    "PointPropagation": "PointPropagationPrompter",
    "threeDCroppedFromCenter": "OnePointsFromCenterCropped3DVolumePrompter",
    "threeDCroppedInteractive": "OnePoints3DVolumePrompter",
}


def whole(name: str) -> bool:
    """Whether a prompter is for models that see the whole volume."""
    return "3D" in name or name.startswith("threeD") if "2dSlice" not in name else False


@dataclass
class Asked:
    """Answers of a fake model while a prompter propagates, and how many it gave."""

    case: Case
    fake: Fake
    calls: int = 0

    def __call__(self, sets: Sequence[tuple[Prompt, ...]]) -> list[Mask]:
        self.calls += len(sets)
        shape = self.case.target.shape
        return [Mask.of(stacked(shape, self.fake.slices(self.case, s))) for s in sets]


@dataclass
class Step:
    prompts: list[Prompt]
    mask: Bits
    correction: Correction | None = None


def refined(name: str, case: Case, fake: Fake) -> list[Step | None]:
    """Six steps of an interactive prompter; None where it was content."""
    draws, target = PublishedDraws(), case.target
    start = next(s for key, s in REFINED.items() if name.startswith(key))
    given = list(STARTS[start](target, draws, Asked(case, fake)))
    steps: list[Step | None] = [_step(name, case, fake, given, None, {})]
    hints = _slices(name, case, fake, given, {})
    for _ in range(5):
        last = next(s for s in reversed(steps) if s is not None)
        new, correction = _next(name, case, last, steps[0], draws)
        if not new:
            steps.append(None)
            continue
        given = [*new, *last.prompts] if "WithPrev" in name else list(new)
        step = _step(name, case, fake, given, last.mask, hints)
        hints = _slices(name, case, fake, given, hints)
        step.correction = correction
        steps.append(step)
    return steps


def _slices(
    name: str, case: Case, fake: Fake, given: list[Prompt], hints: dict[int, Bits]
) -> dict[int, Bits]:
    return {} if whole(name) else fake.slices(case, given, hints)


def _step(
    name: str,
    case: Case,
    fake: Fake,
    given: list[Prompt],
    before: Bits | None,
    hints: dict[int, Bits],
) -> Step:
    if whole(name):
        return Step(given, fake.volume(case, given, None if "WithPrev" in name else before))
    answered = fake.slices(case, given, hints)
    return Step(given, stacked(case.target.shape, answered, before))


def _next(
    name: str, case: Case, last: Step, first: Step | None, draws: Draws
) -> tuple[Sequence[Prompt], Correction | None]:
    target, prediction = case.target, Mask.of(np.ascontiguousarray(last.mask))
    if "Unrealistic" in name:
        return point_per_wrong_slice(target, prediction, draws), None
    if not whole(name):
        found = scribble_correction(target, prediction, draws, "published")
        return (found.clicks if found else ()), found
    assert first is not None
    where = first.prompts[0].point  # type: ignore[union-attr]  # a click
    target, prediction = near(target, where), near(prediction, where)
    if "2dAlgo" in name:
        found = scribble_correction_3d(target, prediction, draws, "published")
        return (found.clicks if found else ()), found
    return point_per_wrong_volume(target, prediction, draws, "published"), None

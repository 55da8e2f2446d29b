"""Boxes in the manner of TETRIS: sensitivity to the exact position of a box.

The worst and the best box within human-like jitter and the tight one, as Min, Base, Max
and D of IoU and Boundary IoU, and a map over shifts of the whole box.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.sessions import run_sessions, timed_encode
from segmeter.benchmarks.tetris import Attacked
from segmeter.core import catalogue
from segmeter.core.benchmarks import Results, Row
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import Bound, SimulatedSession
from segmeter.core.models import EncodedScene, Model
from segmeter.core.plans import Plan
from segmeter.core.prompts import Box, Prompt
from segmeter.core.scenes import Scene, Target
from segmeter.core.sections import Section
from segmeter.users.box_prompts import jitter_reach, tight_box

STEPS = 11


@dataclass(frozen=True, slots=True)
class ShiftMap:
    """IoU of the tight box moved as a whole, `(down, across)`, by so many pixels each."""

    iou: npt.NDArray[np.float64]
    down_px: npt.NDArray[np.float64]
    across_px: npt.NDArray[np.float64]


def shift_map(
    encoded: EncodedScene,
    target: Target,
    steps: int = STEPS,
    progress: Callable[[int, int], None] | None = None,
) -> ShiftMap:
    """Try the tight box at a lattice of shifts within jitter; zero is in the middle."""
    from segmeter.benchmarks.tetris.click_response import score_prompts

    down, across = (np.linspace(-reach, reach, steps) for reach in jitter_reach(target))
    tight = tight_box(target)
    last = np.array(target.mask.shape) - 1.0
    boxes: list[Prompt] = []
    for dy in down:
        for dx in across:
            low, high = (
                np.clip(np.add(corner, (dy, dx)), 0, last) for corner in (tight.low, tight.high)
            )
            boxes.append(Box(tuple(low.tolist()), tuple(high.tolist())))
    scores = score_prompts(encoded, target, boxes, progress)[:, 0]
    return ShiftMap(scores.reshape(steps, steps), down, across)


@catalogue.benchmarks.add(
    "tetris-boxes", summary="sensitivity to the box (IoU and BIoU Min, Max, D)"
)
@dataclass(frozen=True, slots=True)
class TetrisBoxes(Attacked):
    """The tight, the worst and the best box of one round."""

    name: str = "tetris-boxes"
    users = ("box", "worst-box", "best-box")
    headline = ("iou-min", "iou-base", "iou-max", "iou-d", "biou-d")

    def plan(self, plan: Plan) -> Plan:
        if plan.users and tuple(map(str, plan.users)) != self.users:
            raise BadInput("benchmark 'tetris-boxes' brings its own users; drop --user")
        filled = self.filled(plan)
        if filled.measures != self.measures:
            raise BadInput("benchmark 'tetris-boxes' measures IoU and Boundary IoU; drop --measure")
        return filled

    def work(self, segmenter: Model, scene: Scene, plan: Plan) -> list[Row]:
        from segmeter.benchmarks.tetris.simulation import attacked_rows

        if "box" not in segmenter.card.abilities:
            raise BadInput(f"model '{segmenter.card.name}' takes no boxes; leave it out")
        encoded, seconds = timed_encode(segmenter, scene)
        records = run_sessions(scene, encoded, _simulated_sessions(scene, plan), plan)
        maps = {t.id: shift_map(encoded, t).iou.astype("<f4").tobytes() for t in scene.targets}

        def shifts(simulated: SimulatedSession, number: int) -> Row:
            return {"shifts": maps[simulated.target.id], "start_y": None, "start_x": None}

        return attacked_rows(scene, records, seconds, plan, shifts)

    def sections(self, run: Results) -> Sequence[Section]:
        from segmeter.benchmarks.tetris.sections import box_sections

        return box_sections(run)


def _simulated_sessions(scene: Scene, plan: Plan) -> list[SimulatedSession]:
    """The tight box leads; the others may not end on the wrong side of it."""
    tight, worst, best = (catalogue.users.make(spec) for spec in plan.users)
    made: list[SimulatedSession] = []
    for target in scene.targets:
        for protocol in plan.protocols:
            leader = len(made)
            made += [
                SimulatedSession(target, tight, protocol),
                SimulatedSession(target, worst, protocol, Bound(leader, "below")),
                SimulatedSession(target, best, protocol, Bound(leader, "above")),
            ]
    return made

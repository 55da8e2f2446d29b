"""One scene: the centre click's session, and the attacks on it in both directions at once.

In `corrected` the attacks are bound by the centre click's session: an attack whose greedy
choices led to the wrong side of it continues from a copy of that session. So after
every click of every object Min <= Base <= Max. `published` lets them drift, as the authors'
code does, and needs a gradient; models without one are attacked in `corrected` only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from segmeter.benchmarks.sessions import judge_by, rows_of, timed_encode
from segmeter.benchmarks.tetris.extremes import extreme_rows, people_rows, probed
from segmeter.core import catalogue
from segmeter.core.benchmarks import Row
from segmeter.core.differentiable import Differentiable
from segmeter.core.lockstep import Bound, SimulatedSession, simulate
from segmeter.core.models import EncodedScene, Model, ProtocolName
from segmeter.core.plans import Plan
from segmeter.core.prompts import Prompt
from segmeter.core.scenes import Scene
from segmeter.core.users import Observation, User
from segmeter.users.adversary import Adversary, attempts_of
from segmeter.users.gradient_attack import Attempt

__all__ = ["AttackRecorder", "simulate_scene", "simulated_sessions"]

BASE = "centre-click"


class AttackRecorder:
    """A team of adversaries that keeps every attempt by user, target, protocol and round."""

    def __init__(self) -> None:
        self.attempts: dict[tuple[str, str, ProtocolName, int], Attempt] = {}

    def next_batch(
        self,
        users: Sequence[_Member],
        observations: Sequence[Observation],
        rngs: Sequence[np.random.Generator],
    ) -> list[Prompt | None]:
        found = attempts_of([user.inner for user in users], observations)
        for user, observation, attempt in zip(users, observations, found, strict=True):
            if attempt is not None:
                key = user.name, observation.target.id, observation.protocol, observation.round
                self.attempts[key] = attempt
        return [None if attempt is None else attempt.click for attempt in found]


@dataclass(frozen=True, slots=True)
class _Member:
    """An adversary whose attempts are kept."""

    inner: Adversary
    team: AttackRecorder

    @property
    def name(self) -> str:
        return self.inner.name

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        return self.team.next_batch([self], [observation], [rng])[0]


def simulate_scene(model: Model, scene: Scene, plan: Plan) -> list[Row]:
    """Look once; play base and attacks together, then what is known of the first click."""
    encoded, seconds_encode = timed_encode(model, scene)
    team = AttackRecorder()
    users = [catalogue.users.make(spec) for spec in plan.users]
    playing = simulated_sessions(scene, encoded, users, plan.protocols, team)
    judge = judge_by(plan.measures)
    records = simulate(scene, encoded, playing, plan.rounds, judge, seed=plan.seed)
    rows: list[Row] = []
    for record in records:
        made = rows_of(scene, record, seconds_encode, plan.keep_masks)
        simulated = record.simulated
        for row, happened in zip(made, record.rounds, strict=True):
            key = simulated.user.name, simulated.target.id, simulated.protocol, happened.number
            attempt = team.attempts.get(key)
            rows.append(row | {"inherited": happened.inherited} | _tried(attempt))
    blank = {"inherited": False, **_tried(None)}
    if probed(scene, plan.options["exhaustive"]):
        rows += [blank | row for row in extreme_rows(encoded, scene, plan, seconds_encode)]
    if plan.options["clicks"]:
        rows += [blank | row for row in people_rows(encoded, scene, plan, seconds_encode)]
    sizes = {target.id: math.hypot(*target.mask.bits.shape) for target in scene.targets}
    return [row | {"diagonal_px": sizes[row["target"]]} for row in rows]


def simulated_sessions(
    scene: Scene,
    encoded: EncodedScene,
    users: Sequence[User],
    protocols: Sequence[ProtocolName],
    team: AttackRecorder,
) -> list[SimulatedSession]:
    """Everybody who plays on a scene; in `corrected` the attacks are bound by the centre click."""
    slope = isinstance(encoded, Differentiable)
    made: list[SimulatedSession] = []
    for target in scene.targets:
        for protocol in protocols:
            leader = len(made)
            for user in sorted(users, key=lambda u: u.name != BASE):
                if not isinstance(user, Adversary):
                    made.append(SimulatedSession(target, user, protocol))
                elif protocol == "corrected":
                    side = "below" if user.direction == "worst" else "above"
                    bound = Bound(leader, side)  # type: ignore[arg-type]  # one of the two
                    made.append(SimulatedSession(target, _Member(user, team), protocol, bound))
                elif slope and not user.name.endswith("search"):
                    made.append(SimulatedSession(target, _Member(user, team), protocol))
    return made


def _tried(attempt: Attempt | None) -> dict[str, Any]:
    """Start of the attack, and every click it tried: y, x, IoU, BIoU, fair, accepted."""
    if attempt is None:
        return {"start_y": None, "start_x": None, "start_iou": None, "trials": None}
    first = attempt.trials[0]
    trials = [
        [round(t.point[0], 3), round(t.point[1], 3), round(t.iou, 5), round(t.boundary_iou, 5),
         int(t.fair), int(t.accepted)]
        for t in attempt.trials
    ]  # fmt: skip
    return {
        "start_y": float(first.point[0]),
        "start_x": float(first.point[1]),
        "start_iou": first.iou,
        "trials": json.dumps(trials, separators=(",", ":")),
    }

"""One scene: the centre click's session, and the attacks on it in both directions at once.

In `sound` the attacks are bound by the centre click's session: an attack whose greedy
choices led to the wrong side of it takes over that session and goes on from there. So after
every click of every object Min <= Base <= Max. `published` lets them drift, as the authors'
code does, and needs a gradient; models without one are attacked in `sound` only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from segmeter.benchmarks.sessions import judge_by, rows_of, timed_look
from segmeter.benchmarks.tetris import Settings
from segmeter.benchmarks.tetris.extremes import extreme_rows, people_rows, probed
from segmeter.core import catalogue
from segmeter.core.benchmarks import Row
from segmeter.core.differentiable import Differentiable
from segmeter.core.lockstep import Bound, Player, play
from segmeter.core.models import Model, Reading, View
from segmeter.core.plans import Plan
from segmeter.core.prompts import Prompt
from segmeter.core.scenes import Scene
from segmeter.core.users import Observation, User
from segmeter.users.adversary import Adversary, attempts_of
from segmeter.users.gradient_attack import Attempt

__all__ = ["Witness", "play_scene", "players"]

BASE = "centre-click"


class Witness:
    """A team of adversaries that keeps every attempt by user, target, reading and round."""

    def __init__(self) -> None:
        self.attempts: dict[tuple[str, str, Reading, int], Attempt] = {}

    def next_batch(
        self,
        users: Sequence[_Member],
        observations: Sequence[Observation],
        rngs: Sequence[np.random.Generator],
    ) -> list[Prompt | None]:
        found = attempts_of([user.inner for user in users], observations)
        for user, observation, attempt in zip(users, observations, found, strict=True):
            if attempt is not None:
                key = user.name, observation.target.id, observation.reading, observation.round
                self.attempts[key] = attempt
        return [None if attempt is None else attempt.click for attempt in found]


@dataclass(frozen=True, slots=True)
class _Member:
    """An adversary whose attempts are kept."""

    inner: Adversary
    team: Witness

    @property
    def name(self) -> str:
        return self.inner.name

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        return self.team.next_batch([self], [observation], [rng])[0]


def play_scene(model: Model, scene: Scene, plan: Plan, settings: Settings) -> list[Row]:
    """Look once; play base and attacks together, then what is known of the first click."""
    view, seconds_look = timed_look(model, scene)
    team = Witness()
    users = [catalogue.users.make(spec) for spec in plan.users]
    playing = players(scene, view, users, plan.readings, team)
    judge = judge_by(plan.measures)
    records = play(scene, view, playing, plan.rounds, judge, seed=plan.seed)
    rows: list[Row] = []
    for record in records:
        made = rows_of(scene, record, seconds_look, plan.keep_masks)
        player = record.player
        for row, happened in zip(made, record.rounds, strict=True):
            key = player.user.name, player.target.id, player.reading, happened.number
            attempt = team.attempts.get(key)
            rows.append(row | {"taken_over": happened.taken_over} | _tried(attempt))
    blank = {"taken_over": False, **_tried(None)}
    if probed(scene, settings):
        rows += [blank | row for row in extreme_rows(view, scene, plan, settings, seconds_look)]
    if settings.clicks:
        rows += [blank | row for row in people_rows(view, scene, plan, settings, seconds_look)]
    sizes = {target.id: math.hypot(*target.mask.bits.shape) for target in scene.targets}
    return [row | {"diagonal_px": sizes[row["target"]]} for row in rows]


def players(
    scene: Scene,
    view: View,
    users: Sequence[User],
    readings: Sequence[Reading],
    team: Witness,
) -> list[Player]:
    """Everybody who plays on a scene; in `sound` the attacks are bound by the centre click."""
    slope = isinstance(view, Differentiable)
    made: list[Player] = []
    for target in scene.targets:
        for reading in readings:
            leader = len(made)
            for user in sorted(users, key=lambda u: u.name != BASE):
                if not isinstance(user, Adversary):
                    made.append(Player(target, user, reading))
                elif reading == "sound":
                    side = "below" if user.direction == "worst" else "above"
                    bound = Bound(leader, side)  # type: ignore[arg-type]  # one of the two
                    made.append(Player(target, _Member(user, team), reading, bound))
                elif slope and not user.name.endswith("search"):
                    made.append(Player(target, _Member(user, team), reading))
    return made


def _tried(attempt: Attempt | None) -> dict[str, Any]:
    """Where the attack started, and every click it tried: y, x, IoU, BIoU, fair, accepted."""
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

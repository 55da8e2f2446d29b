"""Simulate one scene: the centre click and all groups in lockstep, then single first clicks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from segmeter.benchmarks.sessions import rows_of, run_sessions, timed_encode
from segmeter.core import catalogue
from segmeter.core.benchmarks import Row
from segmeter.core.capabilities import RepeatsDraws
from segmeter.core.lockstep import SimulatedSession
from segmeter.core.models import Model
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene
from segmeter.core.users import User
from segmeter.users.humanlike_clicks import ClickingGroup, MapSample
from segmeter.users.replay import ReplayUser, open_clicks, recorded


def work(model: Model, scene: Scene, plan: Plan) -> list[Row]:
    """All rows of a scene: whole sessions, and first clicks that go no further."""
    encoded, seconds_encode = timed_encode(model, scene)
    records = [
        *run_sessions(scene, encoded, simulated_sessions_of(scene, plan), plan),
        *run_sessions(scene, encoded, singles_of(scene, plan), plan, rounds=1),
    ]
    return [row for r in records for row in rows_of(scene, r, seconds_encode, plan.keep_masks)]


def simulated_sessions_of(scene: Scene, plan: Plan) -> list[SimulatedSession]:
    """Each target with the centre click and the groups; further draws are alike in
    `published`, so they run in `corrected` only."""
    users = [catalogue.users.make(spec) for spec in plan.users]
    return [
        SimulatedSession(target, user, protocol)
        for target in scene.targets
        for user in users
        for protocol in plan.protocols
        if protocol == "corrected" or not isinstance(user, RepeatsDraws) or user.draw == 1
    ]


def singles_of(scene: Scene, plan: Plan) -> list[SimulatedSession]:
    """First clicks: every recorded one, and as many drawn from the whole map."""
    template = next(
        user for spec in plan.users if isinstance(user := catalogue.users.make(spec), ClickingGroup)
    )
    simulated_sessions: list[SimulatedSession] = []
    before = 0
    for target in scene.targets:
        people = _people(scene, target.id, plan.options["clicks"])
        samples = len(people) if plan.options["clicks"] else plan.options["samples"]
        drawn = [
            MapSample(i + 1, before, template.map, template.checkpoint) for i in range(samples)
        ]
        before += samples
        everyone: list[User] = [*people, *drawn]
        simulated_sessions += [
            SimulatedSession(target, u, protocol) for protocol in plan.protocols for u in everyone
        ]
    return simulated_sessions


def _people(scene: Scene, target: str, clicks: str) -> Sequence[ReplayUser]:
    if not clicks:
        return []
    _, first_rounds = open_clicks(Path(clicks))
    found = recorded(first_rounds, scene.dataset, scene.id, target)
    return [ReplayUser(clicks, i + 1) for i in range(len(found))]

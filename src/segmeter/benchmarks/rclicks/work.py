"""Simulate one scene: the centre click and all groups in lockstep, then single first clicks."""

from __future__ import annotations

from pathlib import Path

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
from segmeter.users.simulation import rows_of, run_sessions, timed_encode


def work(model: Model, scene: Scene, plan: Plan) -> list[Row]:
    """All rows of a scene: whole sessions, and first clicks that go no further."""
    encoded, seconds_encode = timed_encode(model, scene)
    records = [
        *run_sessions(scene, encoded, simulated_sessions_of(scene, plan), plan),
        *run_sessions(scene, encoded, singles_of(scene, plan), plan, rounds=1),
    ]
    return [row for r in records for row in rows_of(scene, r, seconds_encode, plan.keep_masks)]


def simulated_sessions_of(scene: Scene, plan: Plan) -> list[SimulatedSession]:
    """Each target with the centre click and the groups.

    Further draws are identical in `published`, so they run in `corrected` only.
    """
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
    sessions: list[SimulatedSession] = []
    before = 0
    for target in scene.targets:
        clicks, samples, everyone = plan.options["clicks"], plan.options["samples"], list[User]()
        if clicks:
            found = recorded(open_clicks(Path(clicks))[1], scene.dataset, scene.id, target.id)
            everyone += [ReplayUser(clicks, i + 1) for i in range(len(found))]
            samples = len(found)
        map_used = (template.map, template.checkpoint)
        everyone += [MapSample(i + 1, before, *map_used) for i in range(samples)]
        before += samples
        sessions += [SimulatedSession(target, u, p) for p in plan.protocols for u in everyone]
    return sessions

"""What users give: those who give more than clicks say so, which a run relies on."""

from __future__ import annotations

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.lockstep import SimulatedSession, simulate
from segmeter.core.masks import Mask
from segmeter.core.scenes import Image, Scene, SceneHeader, Target, Volume
from segmeter.models.synthetic import Disc

# These need a file of clicks or prompts; users of videos have tests of their own.
REPLAYS = ("replay", "recorded-prompts")
NAMES = sorted(
    entry.name
    for entry in catalogue.users
    if entry.name not in REPLAYS and ".videos." not in entry.source
)


def drawn(volume: bool) -> Scene:
    if not volume:
        target = Target("t", Mask.box((48, 64), (8, 20), (40, 44)))
        return Image("test", "scene", np.zeros((48, 64, 3), np.uint8), [target])
    target = Target("t", Mask.box((12, 24, 32), (3, 4, 10), (9, 20, 22)))
    header = SceneHeader("volume", (12, 24, 32), (3.0, 1.0, 1.0))
    return Volume("test", "scene", np.zeros((12, 24, 32), np.int16), [target], header=header)


@pytest.mark.parametrize("name", NAMES)
def test_a_user_gives_clicks_or_its_declared_prompts(name: str) -> None:
    user = catalogue.users.make(name)
    scene = drawn(volume=".volumes." in catalogue.users.entry(name).source)
    (target,) = scene.targets
    simulated_sessions = [SimulatedSession(target, user, "corrected")]
    (played,) = simulate(scene, Disc(radius=5).encode(scene), simulated_sessions, 2, lambda *_: {})
    given = {type(p).__name__.lower() for r in played.rounds for p in r.prompts}
    assert given
    assert given - {"click"} == getattr(user, "gives", frozenset())

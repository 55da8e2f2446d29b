"""Lockstep: playing together changes nothing but the number of calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from segmeter.core.capabilities import KeepsState, capable
from segmeter.core.errors import BadInput
from segmeter.core.lockstep import SimulatedSession, simulate
from segmeter.core.masks import Mask
from segmeter.core.models import MaskPrediction, Prediction, ProtocolName, Request
from segmeter.core.prompts import Click, Prompt
from segmeter.core.scenes import Image, Scene, Target
from segmeter.core.sessions import Session
from segmeter.core.users import Observation
from segmeter.measures.objects import iou
from segmeter.users.error_prompts import CentreClick, RandomClick

SHAPE = (40, 50)


@dataclass
class Painter:
    """Paints a disc at every click and counts how often it is asked."""

    radius: int = 6
    calls: list[int] = field(default_factory=list)

    def predict(self, requests: Sequence[Request]) -> Sequence[Prediction]:
        self.calls.append(len(requests))
        return [self.paint(request) for request in requests]

    def paint(self, request: Request) -> Prediction:
        y, x = np.ogrid[: SHAPE[0], : SHAPE[1]]
        dense = np.zeros(SHAPE, dtype=bool)
        for prompt in request.prompts:
            assert isinstance(prompt, Click)
            cy, cx = prompt.point
            dense[(y - cy) ** 2 + (x - cx) ** 2 <= self.radius**2] = prompt.positive
        state = (request.state or 0) + 1
        return MaskPrediction(Mask.of(dense), score=float(state), state=state)


@capable(KeepsState)
class Forgetful(Painter):
    """Drops its memory at the second click in the protocol `published`."""

    def keeps_state(self, prompts: tuple[Prompt, ...], protocol: ProtocolName) -> bool:
        return protocol == "corrected" or len(prompts) > 2


def scene_with(*targets: Target) -> Scene:
    return Image("test", "one", np.zeros((*SHAPE, 3), np.uint8), targets)


def judge(target: Target, mask: Mask) -> dict[str, float]:
    return {"iou": iou(target.mask, mask)}


BIG = Target("big", Mask.box(SHAPE, (5, 5), (35, 30)))
SMALL = Target("small", Mask.box(SHAPE, (20, 38), (26, 46)))


def test_all_sessions_of_a_round_share_one_call() -> None:
    encoded = Painter()
    simulated_sessions = [SimulatedSession(t, RandomClick(), "corrected") for t in (BIG, SMALL)]
    simulate(scene_with(BIG, SMALL), encoded, simulated_sessions, 5, judge)
    assert encoded.calls == [2] * 5


def test_identical_requests_of_both_protocols_are_predicted_once() -> None:
    encoded = Painter()
    simulated_sessions = [
        SimulatedSession(BIG, CentreClick(), protocol) for protocol in ("published", "corrected")
    ]
    simulate(scene_with(BIG), encoded, simulated_sessions, 4, judge)
    assert encoded.calls == [1] * 4


def test_protocols_part_where_memory_is_dropped() -> None:
    encoded = Forgetful()
    simulated_sessions = [
        SimulatedSession(BIG, CentreClick(), protocol) for protocol in ("published", "corrected")
    ]
    published, corrected = simulate(scene_with(BIG), encoded, simulated_sessions, 3, judge)
    assert encoded.calls == [1, 2, 2]
    assert [r.mask_fed_back for r in published.rounds] == [False, False, True]
    assert [r.mask_fed_back for r in corrected.rounds] == [False, True, True]


def test_together_or_alone_each_session_is_the_same() -> None:
    simulated_sessions = [
        SimulatedSession(target, user, "corrected")
        for target in (BIG, SMALL)
        for user in (CentreClick(), RandomClick())
    ]
    scene = scene_with(BIG, SMALL)
    together = simulate(scene, Painter(), simulated_sessions, 6, judge, seed=3)
    with ThreadPoolExecutor(2) as pool:
        threaded = simulate(scene, Painter(), simulated_sessions, 6, judge, seed=3, pool=pool)
    for simulated, one, other in zip(simulated_sessions, together, threaded, strict=True):
        (alone,) = simulate(scene, Painter(), [simulated], 6, judge, seed=3)
        for record in (one, other):
            assert [r.prompts for r in record.rounds] == [r.prompts for r in alone.rounds]
            assert [r.scores for r in record.rounds] == [r.scores for r in alone.rounds]


def test_a_content_user_ends_and_the_last_scores_stand() -> None:
    disc = Target("disc", Painter(6).paint(Request((Click((20, 20)),))).mask())
    (record,) = simulate(
        scene_with(disc), Painter(6), [SimulatedSession(disc, CentreClick(), "corrected")], 4, judge
    )
    assert [r.stopped for r in record.rounds] == [False, True, True, True]
    assert [r.scores["iou"] for r in record.rounds] == [1.0] * 4


def test_a_team_is_called_once_per_round_for_all_its_members() -> None:
    class Team:
        asked: ClassVar[list[list[str]]] = []

        def __call__(
            self,
            users: Sequence[CentreClick],
            observations: Sequence[Observation],
            draws: Callable[[int], np.random.Generator],
        ) -> list[Prompt | None]:
            self.asked.append([user.name for user in users])
            return list(CentreClick.team(users, observations, draws))

    @dataclass(frozen=True)
    class Member(CentreClick):
        team: ClassVar[Any] = Team()

    simulated_sessions = [SimulatedSession(t, Member(name=t.id), "corrected") for t in (BIG, SMALL)]
    simulate(scene_with(BIG, SMALL), Painter(), simulated_sessions, 3, judge)
    assert Team.asked == [[BIG.id, SMALL.id]] * 3


def test_a_subclass_that_clicks_otherwise_is_not_passed_over_by_its_parents_team() -> None:
    @dataclass(frozen=True)
    class Stubborn(CentreClick):
        def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
            return Click((3, 4))

    simulated_sessions = [
        SimulatedSession(BIG, user, "corrected")
        for user in (CentreClick(), Stubborn(name="stubborn"))
    ]
    centre, stubborn = simulate(scene_with(BIG), Painter(), simulated_sessions, 2, judge)
    assert centre.rounds[0].prompts != (Click((3, 4)),)
    assert [r.prompts for r in stubborn.rounds] == [(Click((3, 4)),)] * 2


def test_draws_depend_on_names_not_on_company() -> None:
    scene = scene_with(BIG, SMALL)
    first = simulate(
        scene, Painter(), [SimulatedSession(BIG, RandomClick(), "corrected")], 3, judge, seed=1
    )
    other = simulate(
        scene, Painter(), [SimulatedSession(BIG, RandomClick(), "corrected")], 3, judge, seed=2
    )
    assert [r.prompts for r in first[0].rounds] != [r.prompts for r in other[0].rounds]


def test_a_session_without_rounds_is_refused() -> None:
    with pytest.raises(BadInput, match="at least one round"):
        simulate(scene_with(BIG), Painter(), [], 0, judge)


def test_a_session_stepped_by_hand_equals_the_simulated_one() -> None:
    scene, encoded = scene_with(BIG), Painter()
    (played,) = simulate(
        scene, encoded, [SimulatedSession(BIG, CentreClick(), "corrected")], 4, judge
    )
    session = Session(scene, Painter(), BIG, judge=judge)
    for made in played.rounds:
        stepped = session.step(made.prompts)
        assert stepped.mask == made.mask
        assert stepped.scores == made.scores
        assert stepped.mask_fed_back == made.mask_fed_back
    assert [r.number for r in session.rounds] == [1, 2, 3, 4]


@dataclass(frozen=True)
class Three:
    """A disc, nothing and everything; the model would show the disc."""

    disc: Mask
    state: Any = None
    shown: int = 0
    scores: Any = field(default_factory=lambda: np.array([0.9, 0.1, 0.2], np.float32))

    def mask(self, mask_index: int | None = None) -> Mask:
        return (self.disc, Mask.empty(SHAPE), Mask.box(SHAPE, (0, 0), SHAPE))[mask_index or 0]


class Undecided(Painter):
    """Offers three candidates."""

    def paint(self, request: Request) -> Prediction:
        return Three(super().paint(request).mask())


def test_every_candidate_is_scored_in_the_requested_rounds() -> None:
    simulated_sessions = [SimulatedSession(BIG, CentreClick(), "corrected")]
    (played,) = simulate(
        scene_with(BIG), Undecided(), simulated_sessions, 2, judge, oracle_rounds=1
    )
    first, second = played.rounds
    assert [s["iou"] for s in first.candidate_scores] == [
        first.scores["iou"],
        0.0,
        iou(BIG.mask, Mask.box(SHAPE, (0, 0), SHAPE)),
    ]
    assert second.candidate_scores == ()


def test_a_session_ends_where_its_goal_is_reached() -> None:
    simulated_sessions = [SimulatedSession(t, CentreClick(), "corrected") for t in (BIG, SMALL)]
    scene = scene_with(BIG, SMALL)
    whole = simulate(scene, Painter(), simulated_sessions, 8, judge)
    short = simulate(
        scene, Painter(), simulated_sessions, 8, judge, until=lambda s: s["iou"] >= 0.5
    )
    for all_rounds, some in zip(whole, short, strict=True):
        reached = [r.number for r in all_rounds.rounds if r.scores["iou"] >= 0.5]
        assert len(some.rounds) == (reached[0] if reached else 8)
        assert [r.mask for r in some.rounds] == [r.mask for r in all_rounds.rounds][
            : len(some.rounds)
        ]
    assert {len(r.rounds) for r in short} != {8}


def test_users_draw_from_a_real_generator() -> None:
    seen = []

    class Curious(RandomClick):
        def next(self, observation: Observation, rng: np.random.Generator) -> Any:
            seen.append(isinstance(rng, np.random.Generator))
            return super().next(observation, rng)

    simulate(scene_with(BIG), Painter(), [SimulatedSession(BIG, Curious(), "corrected")], 2, judge)
    assert seen == [True, True]

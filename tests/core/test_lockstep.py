"""Lockstep: playing together changes nothing but the number of calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from segmeter.core.errors import BadInput
from segmeter.core.lockstep import Player, play
from segmeter.core.masks import Mask
from segmeter.core.models import Ask, MaskPrediction, Prediction, Reading, View
from segmeter.core.prompts import Click, Prompt
from segmeter.core.scenes import Picture, Scene, Target
from segmeter.core.sessions import Session
from segmeter.core.users import Observation
from segmeter.measures.objects import iou
from segmeter.models.conformance import drawn_scene
from segmeter.models.drawn import Disc
from segmeter.users.centre_click import CentreClick
from segmeter.users.random_click import RandomClick, RandomFirstClick

SHAPE = (40, 50)


@dataclass
class Painter:
    """Paints a disc at every click and counts how often it is asked."""

    radius: int = 6
    calls: list[int] = field(default_factory=list)

    def answer(self, asks: Sequence[Ask]) -> Sequence[Prediction]:
        self.calls.append(len(asks))
        return [self.paint(ask) for ask in asks]

    def paint(self, ask: Ask) -> Prediction:
        y, x = np.ogrid[: SHAPE[0], : SHAPE[1]]
        dense = np.zeros(SHAPE, dtype=bool)
        for prompt in ask.prompts:
            assert isinstance(prompt, Click)
            cy, cx = prompt.point
            dense[(y - cy) ** 2 + (x - cx) ** 2 <= self.radius**2] = prompt.positive
        memory = (ask.memory or 0) + 1
        return MaskPrediction(Mask.of(dense), score=float(memory), memory=memory)


class Forgetful(Painter):
    """Drops its memory at the second click in the reading `published`."""

    def keeps_memory(self, prompts: tuple[Prompt, ...], reading: Reading) -> bool:
        return reading == "sound" or len(prompts) > 2


def scene_with(*targets: Target) -> Scene:
    return Picture("test", "one", np.zeros((*SHAPE, 3), np.uint8), targets)


def judge(target: Target, mask: Mask) -> dict[str, float]:
    return {"iou": iou(target.mask, mask)}


BIG = Target("big", Mask.box(SHAPE, (5, 5), (35, 30)))
SMALL = Target("small", Mask.box(SHAPE, (20, 38), (26, 46)))


def test_all_players_of_a_round_share_one_call() -> None:
    view = Painter()
    players = [Player(t, RandomClick(), "sound") for t in (BIG, SMALL)]
    play(scene_with(BIG, SMALL), view, players, 5, judge)
    assert view.calls == [2] * 5


def test_readings_that_have_not_parted_are_asked_for_once() -> None:
    view = Painter()
    players = [Player(BIG, CentreClick(), reading) for reading in ("published", "sound")]
    play(scene_with(BIG), view, players, 4, judge)
    assert view.calls == [1] * 4


def test_readings_part_where_memory_is_dropped() -> None:
    view = Forgetful()
    players = [Player(BIG, CentreClick(), reading) for reading in ("published", "sound")]
    published, sound = play(scene_with(BIG), view, players, 3, judge)
    assert view.calls == [1, 2, 2]
    assert [r.fed for r in published.rounds] == [False, False, True]
    assert [r.fed for r in sound.rounds] == [False, True, True]


def test_together_or_alone_each_player_plays_the_same() -> None:
    players = [
        Player(target, user, "sound")
        for target in (BIG, SMALL)
        for user in (CentreClick(), RandomClick())
    ]
    scene = scene_with(BIG, SMALL)
    together = play(scene, Painter(), players, 6, judge, seed=3)
    with ThreadPoolExecutor(2) as pool:
        threaded = play(scene, Painter(), players, 6, judge, seed=3, pool=pool)
    for player, one, other in zip(players, together, threaded, strict=True):
        (alone,) = play(scene, Painter(), [player], 6, judge, seed=3)
        for record in (one, other):
            assert [r.prompts for r in record.rounds] == [r.prompts for r in alone.rounds]
            assert [r.scores for r in record.rounds] == [r.scores for r in alone.rounds]


def test_a_content_user_ends_and_the_last_scores_stand() -> None:
    disc = Target("disc", Painter(6).paint(Ask((Click((20, 20)),))).mask())
    (record,) = play(scene_with(disc), Painter(6), [Player(disc, CentreClick(), "sound")], 4, judge)
    assert [r.content for r in record.rounds] == [False, True, True, True]
    assert [r.scores["iou"] for r in record.rounds] == [1.0] * 4


def test_a_team_is_asked_once_a_round_for_all_its_members() -> None:
    class Team:
        asked: ClassVar[list[list[str]]] = []

        def next_batch(
            self,
            users: Sequence[CentreClick],
            observations: Sequence[Observation],
            draws: Sequence[np.random.Generator],
        ) -> list[Prompt | None]:
            self.asked.append([user.name for user in users])
            return [u.next(s, d) for u, s, d in zip(users, observations, draws, strict=True)]

    @dataclass(frozen=True)
    class Member(CentreClick):
        team: ClassVar[Any] = Team()

    players = [Player(t, Member(name=t.id), "sound") for t in (BIG, SMALL)]
    play(scene_with(BIG, SMALL), Painter(), players, 3, judge)
    assert Team.asked == [[BIG.id, SMALL.id]] * 3


def test_a_subclass_that_clicks_otherwise_is_not_passed_over_by_its_parents_team() -> None:
    @dataclass(frozen=True)
    class Stubborn(CentreClick):
        def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
            return Click((3, 4))

    players = [Player(BIG, user, "sound") for user in (CentreClick(), Stubborn(name="stubborn"))]
    centre, stubborn = play(scene_with(BIG), Painter(), players, 2, judge)
    assert centre.rounds[0].prompts != (Click((3, 4)),)
    assert [r.prompts for r in stubborn.rounds] == [(Click((3, 4)),)] * 2


def test_draws_depend_on_names_not_on_company() -> None:
    scene = scene_with(BIG, SMALL)
    first = play(scene, Painter(), [Player(BIG, RandomClick(), "sound")], 3, judge, seed=1)
    other = play(scene, Painter(), [Player(BIG, RandomClick(), "sound")], 3, judge, seed=2)
    assert [r.prompts for r in first[0].rounds] != [r.prompts for r in other[0].rounds]


def test_a_session_without_rounds_is_refused() -> None:
    with pytest.raises(BadInput, match="at least one round"):
        play(scene_with(BIG), Painter(), [], 0, judge)


def test_a_session_stepped_by_hand_is_the_session_that_is_played() -> None:
    scene, view = scene_with(BIG), Painter()
    (played,) = play(scene, view, [Player(BIG, CentreClick(), "sound")], 4, judge)
    session = Session(scene, Painter(), BIG, judge=judge)
    for made in played.rounds:
        stepped = session.step(made.prompts)
        assert stepped.mask == made.mask
        assert stepped.scores == made.scores
        assert stepped.fed == made.fed
    assert [r.number for r in session.rounds] == [1, 2, 3, 4]


@dataclass(frozen=True)
class Three:
    """A disc, nothing and everything; the model would show the disc."""

    disc: Mask
    memory: Any = None
    shown: int = 0
    scores: Any = field(default_factory=lambda: np.array([0.9, 0.1, 0.2], np.float32))

    def mask(self, candidate: int | None = None) -> Mask:
        return (self.disc, Mask.empty(SHAPE), Mask.box(SHAPE, (0, 0), SHAPE))[candidate or 0]


class Undecided(Painter):
    """Offers three candidates."""

    def paint(self, ask: Ask) -> Prediction:
        return Three(super().paint(ask).mask())


def test_every_candidate_is_judged_in_as_many_rounds_as_asked_for() -> None:
    players = [Player(BIG, CentreClick(), "sound")]
    (played,) = play(scene_with(BIG), Undecided(), players, 2, judge, oracle_rounds=1)
    first, second = played.rounds
    assert [s["iou"] for s in first.candidate_scores] == [
        first.scores["iou"],
        0.0,
        iou(BIG.mask, Mask.box(SHAPE, (0, 0), SHAPE)),
    ]
    assert second.candidate_scores == ()


def test_a_session_ends_where_its_goal_is_reached() -> None:
    players = [Player(t, CentreClick(), "sound") for t in (BIG, SMALL)]
    scene = scene_with(BIG, SMALL)
    whole = play(scene, Painter(), players, 8, judge)
    short = play(scene, Painter(), players, 8, judge, until=lambda s: s["iou"] >= 0.5)
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

    play(scene_with(BIG), Painter(), [Player(BIG, Curious(), "sound")], 2, judge)
    assert seen == [True, True]


class Beside:
    """A view that answers when it is waited for, as a GPU does."""

    works_beside = True

    def __init__(self, view: View) -> None:
        self.view = view
        self.log: list[str] = []

    def answer(self, asks: Sequence[Ask]) -> Sequence[Prediction]:
        return self.view.answer(asks)

    def start_answer(
        self, asks: Sequence[Ask]
    ) -> Callable[[], tuple[Sequence[Prediction], Sequence[Mask]]]:
        self.log.append("start")

        def finish() -> tuple[Sequence[Prediction], Sequence[Mask]]:
            self.log.append("finish")
            predictions = self.view.answer(asks)
            return predictions, [prediction.mask() for prediction in predictions]

        return finish


def test_many_players_go_in_two_halves_and_are_judged_while_the_view_works() -> None:
    scene = drawn_scene()
    players = [
        Player(scene.targets[0], RandomFirstClick(name=f"person {i}"), "sound") for i in range(9)
    ]
    beside = Beside(Disc(radius=5).look(scene))

    def judge(target: Target, mask: Mask) -> dict[str, float]:
        beside.log.append("judge")
        return {"area": float(mask.area)}

    ours = play(scene, beside, players, 4, judge)
    log = list(beside.log)
    theirs = play(scene, beside.view, players, 4, judge)
    for one, other in zip(ours, theirs, strict=True):
        assert [(r.prompts, r.mask, r.scores) for r in one.rounds] == [
            (r.prompts, r.mask, r.scores) for r in other.rounds
        ]
    assert log[:4] == ["start", "start", "finish", "start"]  # the first half is one round ahead
    assert log[4] == "judge"
    assert log.count("start") == log.count("finish") == 8

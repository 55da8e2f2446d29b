"""Sessions: one person and one view, stepped by hand."""

from __future__ import annotations

import pytest

from segmeter.core.errors import BadInput
from segmeter.core.prompts import Click
from segmeter.core.sessions import Session
from segmeter.models.conformance import drawn_scene
from segmeter.models.synthetic import Disc


def session_of_a_disc() -> Session:
    scene = drawn_scene()
    return Session(scene, Disc(radius=5).encode(scene), scene.targets[0])


def test_a_session_needs_no_target_and_keeps_a_persons_seconds() -> None:
    session = session_of_a_disc()
    session.target = None
    made = session.step(Click((20, 20)), seconds_user=2.5)
    assert made.scores == {}
    assert made.mask.area > 0
    assert made.seconds_user == 2.5
    assert session.step(None).stopped
    assert session.rounds[-1].mask == made.mask


def test_a_user_who_accepts_at_once_leaves_an_empty_mask() -> None:
    made = session_of_a_disc().step(None)
    assert (made.number, made.stopped, made.mask.area) == (1, True, 0)


def test_several_prompts_of_a_round_reach_the_view_together() -> None:
    session = session_of_a_disc()
    made = session.step([Click((10, 10)), Click((30, 40))])
    assert made.batch_size == 1
    assert made.prompts == (Click((10, 10)), Click((30, 40)))
    assert made.mask[(10, 10)]
    assert made.mask[(30, 40)]


def test_a_click_outside_the_scene_is_refused_in_a_sentence() -> None:
    session = session_of_a_disc()
    for point in ((99999, 3), (3, -1), (float("nan"), 3), (1, 2, 3)):
        with pytest.raises(BadInput, match=r"a click at .* of shape \(\d+, \d+\)"):
            session.step(Click(point))
    assert session.rounds == []

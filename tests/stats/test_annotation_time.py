"""Effort: seconds add up as the cost model says, and bad models are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.core.scenes import Image, Target
from segmeter.measures.judging import judge_by
from segmeter.stats.annotation_time import (
    CostModel,
    seconds_after,
    seconds_to,
    seconds_with_touch_up,
    waiting_to,
)
from segmeter.users.simulation import target_columns


def test_seconds_of_a_session_worked_by_hand() -> None:
    spent = seconds_after(CostModel(), [["box", "click", ""], ["click+click", "", ""]])
    # 1 to locate; 7 for the box; 1.5 for the click; nothing. Then two clicks in one round.
    assert spent.tolist() == [[8.0, 9.5, 9.5], [4.0, 4.0, 4.0]]


def test_waiting_is_counted_apart_until_the_goal_or_the_end() -> None:
    curves = [[0.2, 0.95, 0.5], [0.1, 0.1, 0.1]]
    waited = waiting_to(curves, [[0.5, 0.25, 9.0]] * 2, [2.0, 3.0], 0.9)
    assert waited.tolist() == [2.75, 12.75]


def test_a_failure_costs_all_rounds_and_the_drawing_by_hand() -> None:
    curves = [[0.2, 0.95, 0.5], [0.1, 0.1, 0.1]]
    spent = np.array([[3.0, 5.0, 7.0], [3.0, 5.0, 7.0]])
    assert seconds_to(CostModel(), curves, spent, 0.9).tolist() == [5.0, 86.0]
    assert seconds_to(CostModel(by_hand=60), curves, spent, 0.9).tolist() == [5.0, 67.0]
    by_length = CostModel(by_hand=0, by_hand_px=0.5)
    assert seconds_to(by_length, curves, spent, 0.9, [10, 40]).tolist() == [5.0, 27.0]


def test_a_price_by_length_needs_lengths() -> None:
    with pytest.raises(BadInput, match="by_hand_px needs contours"):
        seconds_to(CostModel(by_hand_px=1), [[0.1]], [[2.5]], 0.9)


@given(
    arrays(float, (5, 4), elements=st.floats(0, 1)),
    arrays(float, (5, 4), elements=st.floats(0, 0.3)),
)
def test_a_model_that_is_better_on_every_object_is_never_dearer(curves: Any, lead: Any) -> None:
    spent = seconds_after(CostModel(), [["click"] * 4] * 5)
    worse = seconds_to(CostModel(), curves, spent, 0.9)
    better = seconds_to(CostModel(), np.minimum(curves + lead, 1.0), spent, 0.9)
    assert (better <= worse).all()


def test_a_file_sets_what_it_names_and_leaves_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "cost.toml"
    file.write_text("click = 2.25\nby_hand = 40\n")
    assert CostModel.read(file) == CostModel(click=2.25, by_hand=40)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clik = 2", "did you mean 'click'"),
        ("click = -1", "'click' is seconds, not -1"),
        ('click = "two"', "'click' is seconds, not 'two'"),
        ("click = true", "'click' cannot be True"),
        ("wait = false", "waiting is reported separately"),
        ("click = inf", "'click' is seconds"),
        ("click = ", "cannot be read"),
    ],
)
def test_a_file_that_makes_no_sense_gets_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "cost.toml"
    file.write_text(text)
    with pytest.raises(BadInput, match=said):
        CostModel.read(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no cost model at"):
        CostModel.read(tmp_path / "none.toml")


def test_a_free_touch_up_costs_one_click_and_an_infinite_one_what_clicking_costs() -> None:
    draws = np.random.default_rng(4)
    curves, path = draws.random((30, 6)), draws.uniform(0, 200, (30, 6))
    after, outline = np.tile(2.5 + 1.5 * np.arange(6), (30, 1)), draws.uniform(50, 300, 30)
    given = (curves, after, 0.9, path, outline)
    free, clicks = seconds_with_touch_up(CostModel(touch_up=0), *given)
    np.testing.assert_allclose(free, 2.5)
    assert set(clicks) == {1.0}
    never, _ = seconds_with_touch_up(CostModel(touch_up=float("inf")), *given)
    today = seconds_to(CostModel(), curves, after, 0.9, outline)
    np.testing.assert_array_equal(never, today)
    some, _ = seconds_with_touch_up(CostModel(), *given)
    assert ((free <= some) & (some <= today)).all()
    dear, _ = seconds_with_touch_up(CostModel(touch_up=2.0), *given)
    assert (some <= dear).all()


def test_correcting_an_empty_mask_costs_what_drawing_by_hand_costs() -> None:
    square, long = Mask.box((60, 60), (10, 10), (50, 50)), Mask.box((60, 60), (5, 20), (55, 30))
    draws = np.indices((60, 60)).sum(axis=0)
    shapes = [square, long, Mask.of((draws > 40) & (draws < 70))]
    bands = (None, square - long)
    targets = [Target(f"{k}", mask, ignore=band) for mask in shapes for k, band in enumerate(bands)]
    scene = Image("made", "1", np.zeros((60, 60, 3), np.uint8), [])
    contour = np.array([target_columns(scene, t)["contour_px"] for t in targets], float)
    judge = judge_by(("redrawn-path",))
    path = np.array([[judge(t, Mask.empty((60, 60)))["redrawn_path"]] for t in targets])
    after, nothing = np.full((6, 1), 2.5), np.zeros((6, 1))
    cost = CostModel(by_hand=0, by_hand_px=0.2, locate=0)
    found, _ = seconds_with_touch_up(cost, nothing, after, 0.9, path, contour)
    np.testing.assert_allclose(found, 2.5 + cost.drawing(contour))
    for k in range(len(targets)):  # one object is its own mean
        given = (nothing[:1], after[:1], 0.9, path[k : k + 1], contour[k : k + 1])
        alone, _ = seconds_with_touch_up(CostModel(), *given)
        assert alone.tolist() == pytest.approx([2.5 + 79 - 1])

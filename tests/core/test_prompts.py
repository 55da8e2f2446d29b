"""Prompts survive the trip to disk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.prompts import (
    Box,
    Click,
    MaskHint,
    Prompt,
    Scribble,
    Text,
    check_inside,
    round_from_json,
    to_json,
)
from segmeter.core.scenes import Image

numbers = st.integers(0, 5000) | st.floats(0, 5000, allow_nan=False)
points = st.tuples(numbers, numbers) | st.tuples(numbers, numbers, numbers)
prompts = (
    st.builds(Click, points, st.booleans())
    | st.builds(Box, points, points)
    | st.builds(Scribble, st.lists(points, max_size=5).map(tuple), st.booleans())
    | st.builds(Text, st.text(max_size=20))
    | st.just(MaskHint(Mask.box((9, 9), (1, 2), (4, 5))))
)


@given(prompts)
def test_a_prompt_comes_back(prompt: Prompt) -> None:
    assert round_from_json(to_json(prompt)) == (prompt,)


@given(st.text(max_size=30))
def test_garbage_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(BadInput, match="prompt"):
        round_from_json(text)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        (Click((99999, 3)), "lies outside"),
        (Click((3, -1)), "lies outside"),
        (Click((float("nan"), 3)), "not a point"),
        (Click((1, 2, 3)), "not a point"),
        (Scribble(((1, 1), (40, 1))), "lies outside"),
        (Box((1, 1), (float("inf"), 3)), "not a point"),
        (Box((5, 1), (2, 3)), "ends before it begins"),
        (MaskHint(Mask.empty((3, 3))), "scene's size"),
        ((3, 4), "not a prompt"),
        (Click(("3", 4)), "not a point"),  # type: ignore[arg-type]  # what users' code may give
    ],
)
def test_a_prompt_that_cannot_be_of_the_scene_is_refused(prompt: Any, said: str) -> None:
    image = Image("mine", "1", np.zeros((8, 10, 3), np.uint8), [])
    with pytest.raises(BadInput, match=said):
        check_inside([prompt], image)


def test_prompts_inside_are_taken_and_boxes_may_reach_past_the_edge() -> None:
    image = Image("mine", "1", np.zeros((8, 10, 3), np.uint8), [])
    check_inside([Click((np.float32(7.4), 9)), Box((-3, 0), (9, 20)), Text("cat")], image)


@pytest.mark.parametrize(
    "text",
    [
        '{"click": "ab", "positive": true}',
        '{"click": [1, NaN], "positive": true}',
        '{"click": [1, 1e999], "positive": true}',
        '{"click": [[1], 2], "positive": true}',
        '{"scribble": 5, "positive": true}',
        '{"box": [null, [1, 2]]}',
        '{"mask": {"size": [2, 2], "counts": null}}',
        "[" * 100_000,
        '[1, "a"]',
        "[null]",
    ],
)
def test_prompts_with_other_things_than_points_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        round_from_json(text)

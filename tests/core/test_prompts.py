"""Prompts survive the trip to disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Scribble, Words, from_json, to_json

numbers = st.integers(0, 5000) | st.floats(0, 5000, allow_nan=False)
points = st.tuples(numbers, numbers) | st.tuples(numbers, numbers, numbers)
prompts = (
    st.builds(Click, points, st.booleans())
    | st.builds(Box, points, points)
    | st.builds(Scribble, st.lists(points, max_size=5).map(tuple), st.booleans())
    | st.builds(Words, st.text(max_size=20))
    | st.just(MaskHint(Mask.box((9, 9), (1, 2), (4, 5))))
)


@given(prompts)
def test_a_prompt_comes_back(prompt: Prompt) -> None:
    assert from_json(to_json(prompt)) == prompt


@given(st.text(max_size=30))
def test_garbage_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(BadInput, match="prompt"):
        from_json(text)

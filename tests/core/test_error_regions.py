"""Error regions of many predictions at once, against one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from segmeter.core.error_regions import Depth, _plain_sides, deepest_sides
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.scenes import Target
from segmeter.kernels import compiled, set_threads, threads

images = hnp.arrays(bool, (9, 13))
points = st.tuples(st.integers(0, 8), st.integers(0, 12))


@given(
    st.lists(st.tuples(images, st.lists(points, max_size=6)), min_size=1, max_size=5),
    images,
    st.none() | images,
    st.integers(1, 3),
)
def test_many_predictions_at_once_are_as_one_after_the_other(
    predictions: list[tuple[Any, list[tuple[int, int]]]], ground_truth: Any, ignore: Any, count: int
) -> None:
    target = Target("t", Mask.of(ground_truth), None if ignore is None else Mask.of(ignore))
    asked = [(target, Mask.of(bits), barred) for bits, barred in predictions]
    before = threads()
    set_threads(count)
    try:
        found = deepest_sides(asked)
    finally:
        set_threads(before)
    assert found == [_plain_sides(*one) for one in asked]


def test_nothing_wrong_has_no_deepest_pixel() -> None:
    target = Target("t", Mask.box((5, 5), (1, 1), (4, 4)))
    nothing = Depth(0, None)
    assert deepest_sides([(target, target.mask, [])]) == [(nothing, nothing)]
    empty = Mask.empty((5, 5))
    assert deepest_sides([(target, empty, [])]) == [(Depth(4, (2, 2)), nothing)]
    assert deepest_sides([]) == []


def test_a_prediction_of_another_size_is_refused() -> None:
    target = Target("t", Mask.box((5, 5), (1, 1), (4, 4)))
    with pytest.raises(BadInput, match="different size"):
        deepest_sides([(target, Mask.empty((6, 5)), [])])


def test_large_predictions_have_the_same_depths_on_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Small ones, as above, are not worth a second thread."""
    ground_truth, *predictions = np.random.default_rng(2).random((6, 300, 400)) < 0.97
    target = Target("t", Mask.of(ground_truth))
    asked = [(target, Mask.of(bits), [(150, 200)]) for bits in predictions]
    alone = deepest_sides(asked)
    assert alone == [_plain_sides(*one) for one in asked]
    for count in (2, 4, 30):
        monkeypatch.setattr("segmeter.kernels._count", count)
        assert deepest_sides(asked) == alone


@pytest.mark.skipif(compiled is None, reason="the kernels are not built")
def test_a_failure_on_a_thread_is_an_error_and_does_not_end_the_process() -> None:
    masks, no_such_mask = [(np.ones((300, 400), dtype=bool), 0, 0)], 9
    with pytest.raises(IndexError):
        compiled.deepest_rests(masks, [(0, no_such_mask, -1, [])] * 8, 4)

"""Polygons are filled pixel for pixel as COCO's own library fills them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocotools import mask as coco_masks

from segmeter.core.errors import BadInput
from segmeter.datasets.coco_files import fill, outline

SHAPES = st.tuples(st.integers(1, 40), st.integers(1, 40))
NUMBERS = st.one_of(
    st.integers(-10, 50).map(float),
    st.floats(-15, 60, allow_nan=False, width=32),
    st.floats(-15, 60, allow_nan=False),
)


def corners(least: int, most: int = 12) -> st.SearchStrategy[list[float]]:
    pairs = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=least, max_size=most)
    return pairs.map(lambda points: [n for point in points for n in point])


def theirs(polygons: Any, shape: tuple[int, int]) -> np.ndarray:
    return coco_masks.decode(coco_masks.frPyObjects(polygons, *shape)).any(axis=2)


@given(corners(3), SHAPES)
def test_any_polygon_is_filled_as_pycocotools_fills_it(polygon, shape):
    assert np.array_equal(fill([polygon], shape).dense(), theirs([polygon], shape))


@given(corners(3), st.lists(corners(2), max_size=3), SHAPES)
def test_several_polygons_make_one_object(first, others, shape):
    mine = outline([first, *others], shape, "here")
    assert np.array_equal(mine.dense(), theirs([first, *others], shape))


BOXES = st.tuples(NUMBERS, NUMBERS, NUMBERS.map(abs), NUMBERS.map(abs)).map(list)


@given(st.lists(BOXES, min_size=1, max_size=3), SHAPES)
def test_lists_of_four_numbers_are_boxes(boxes, shape):
    whole = theirs(np.array(boxes), shape)  # pycocotools takes boxes as an array only
    assert np.array_equal(outline(boxes, shape, "here").dense(), whole)


@pytest.mark.parametrize("box", [[1, 1, -4, 3], [1, 1, 4, -3]])
def test_a_box_of_negative_size_is_refused(box):
    with pytest.raises(BadInput, match="box"):
        outline([box], (20, 20), "here")


def test_a_polygon_outside_the_image_has_no_pixels():
    assert not fill([[50, 50, 60, 50, 60, 60]], (20, 20))
    assert not fill([[-9, -9, -2, -9, -2, -2]], (20, 20))


@pytest.mark.parametrize(
    "polygon",
    [[], [1, 2], [1, 2, 3, 4, 5], ["a", "b", "c", "d", "e", "f"], [1, 1, 1e9, 1, 1, 5],
     [float("nan")] * 6, [[1, 2], [3, 4], [5, 6]], "text", None, {}],
)  # fmt: skip
def test_invalid_polygons_are_reported(polygon):
    with pytest.raises(BadInput, match="here: its outline cannot be read"):
        outline([[1, 1, 9, 1, 9, 9], polygon], (20, 20), "here")

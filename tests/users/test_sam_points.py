"""Points of Segment Anything's evaluation, against what the authors' later sampler gave."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from segmeter.core.error_regions import squared_depth
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Click
from segmeter.core.scenes import Target
from segmeter.users.error_prompts import next_points, random_point


def next_point(target: Target, prediction: Mask, protocol: ProtocolName = "corrected"):
    return next_points([(target, prediction, protocol)])[0]


@pytest.fixture(scope="module")
def cases(golden):
    folder = golden / "zeroshot" / "points"
    packed = np.load(folder / "pairs.npz")
    pairs = {name: np.unpackbits(packed[name], axis=-1)[..., :64] for name in ("gt", "pred")}
    expected = json.loads((folder / "expected.json").read_text())["points"]
    return pairs, expected


def test_the_published_click_is_the_samplers_in_every_golden_case(cases):
    pairs, expected = cases
    predictions = [
        (Target("a", Mask.of(ground_truth)), Mask.of(prediction), "published")
        for ground_truth, prediction in zip(pairs["gt"], pairs["pred"], strict=True)
    ]
    found = [(int(c.point[1]), int(c.point[0]), int(c.positive)) for c in next_points(predictions)]
    assert found == [tuple(case["pad"]) for case in expected]
    assert len(found) == 19


def test_a_perfect_mask_is_clicked_at_the_corner_when_published_and_left_alone_when_corrected():
    target = Target("a", Mask.box((8, 8), (0, 0), (4, 4)))
    assert next_point(target, target.mask, "published") == Click((0, 0), False)
    assert next_point(target, target.mask, "corrected") is None


def test_an_equal_depth_is_a_negative_click_in_published_and_decided_by_size_in_corrected():
    """Two components 3 deep: 3 x 3 missed, 3 x 5 added, then the other way round."""
    small, large = Mask.box((20, 20), (2, 2), (5, 5)), Mask.box((20, 20), (10, 10), (13, 15))
    missed_less, missed_more = Target("a", small), Target("a", large)
    assert next_point(missed_less, large, "published") == Click((11, 11), False)
    assert next_point(missed_less, large, "corrected") == Click((11, 11), False)
    assert next_point(missed_more, small, "published") == Click((3, 3), False)
    assert next_point(missed_more, small, "corrected") == Click((11, 11), True)


def test_equal_depth_and_size_is_a_positive_click_when_corrected():
    one, other = Mask.box((20, 20), (2, 2), (5, 5)), Mask.box((20, 20), (10, 10), (13, 13))
    assert next_point(Target("a", one), other, "corrected") == Click((3, 3), True)
    assert next_point(Target("a", one), other, "published") == Click((11, 11), False)


def test_a_deep_blob_wins_over_a_thin_error_of_many_pixels():
    thin, blob = np.zeros((120, 120), bool), np.zeros((120, 120), bool)
    thin[:, ::3] = True
    thin[40:75, 40:75] = False
    blob[50:61, 50:61] = True
    click = next_point(Target("a", Mask.of(thin | blob)), Mask.empty((120, 120)))
    assert click == Click((55, 55), True)


def test_ignored_pixels_are_no_error():
    band = Mask.box((12, 12), (0, 0), (12, 6))
    target = Target("a", Mask.box((12, 12), (0, 0), (12, 9)), ignore=band)
    assert next_point(target, Mask.empty((12, 12))) == Click((1, 7), True)


def test_a_random_first_point_is_uniform_over_the_object_and_one_draw():
    target = Target("a", Mask.of(np.array([[0, 1, 1], [0, 0, 1]], bool)))
    rng = np.random.default_rng(4)
    counts: dict[tuple[float, ...], int] = {}
    for _ in range(3000):
        click = random_point(target, rng)
        assert click.positive
        counts[click.point] = counts.get(click.point, 0) + 1
    assert set(counts) == {(0, 1), (0, 2), (1, 2)}
    assert max(abs(n - 1000) for n in counts.values()) < 110  # four standard deviations
    first, second = np.random.default_rng(9), np.random.default_rng(9)
    random_point(target, first)
    second.integers(3)
    assert first.bit_generator.state == second.bit_generator.state


masks = arrays.arrays(bool, st.tuples(st.integers(2, 14), st.integers(2, 14)))


@given(masks, st.integers(0, 2**31))
def test_the_click_is_the_plain_rules(ground_truth, seed):
    """Both maps padded by a ring of zeros, exact distances, first maximum in raster order."""
    prediction = np.random.default_rng(seed).random(ground_truth.shape) < 0.5
    false_negatives, added = (
        squared_depth(ground_truth & ~prediction),
        squared_depth(prediction & ~ground_truth),
    )
    positive = false_negatives.max() > added.max()
    depth = false_negatives if positive else added
    place = np.unravel_index(int(depth.argmax()), depth.shape) if depth.max() else (0, 0)
    click = next_point(Target("a", Mask.of(ground_truth)), Mask.of(prediction), "published")
    assert click == Click(tuple(int(p) for p in place), bool(positive))

"""Matching of boundary pixels: exact, and the same from the kernel and its plain twin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.optimize import linear_sum_assignment

from segmeter.core.errors import BadInput
from segmeter.kernels import compiled
from segmeter.measures.matching import match, match_plain, tolerance_px
from segmeter.measures.outlines import Outline

Places = npt.NDArray[np.int64]

sides = st.tuples(st.integers(1, 16), st.integers(1, 16))
map_pairs = sides.flatmap(
    lambda shape: st.tuples(arrays.arrays(bool, shape), arrays.arrays(bool, shape))
)


@st.composite
def dense_pairs(draw: st.DrawFn) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Larger maps with many candidates, from a seed: paths through them grow long."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(10, 24)), draw(st.integers(10, 24))
    share = draw(st.sampled_from([0.1, 0.3, 0.6]))
    return generator.random(shape) < share, generator.random(shape) < 0.3


def solve(left: Places, right: Places, width: int, reach_squared: int) -> npt.NDArray[np.int32]:
    solver = match_plain if compiled is None else compiled.match_pixels
    return np.asarray(solver(left, right, width, reach_squared))


def squared(left: Places, right: Places, width: int) -> npt.NDArray[np.int64]:
    (ly, lx), (ry, rx) = np.divmod(left, width), np.divmod(right, width)
    return np.asarray((ly - ry) ** 2 + (lx - rx) ** 2)


def best(left: Places, right: Places, width: int, reach_squared: int) -> tuple[int, int]:
    """Number of pairs and their distance, by a dense assignment solver."""
    apart = squared(left[:, None], right, width)
    costs = np.where(apart <= reach_squared, np.rint(100 * np.sqrt(apart)), 1e7)
    rows, columns = linear_sum_assignment(costs)
    chosen = costs[rows, columns]
    return int((chosen < 1e7).sum()), int(chosen[chosen < 1e7].sum())


@pytest.mark.skipif(compiled is None, reason="the kernels are not compiled here")
@settings(max_examples=100)
@given(st.one_of(map_pairs, dense_pairs()), st.integers(0, 30))
def test_the_kernel_equals_its_plain_twin(
    pair: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]], reach_squared: int
) -> None:
    left, right = (np.flatnonzero(m) for m in pair)
    width = pair[0].shape[1]
    plain = match_plain(left, right, width, reach_squared)
    np.testing.assert_array_equal(solve(left, right, width, reach_squared), plain)


@settings(max_examples=100)
@given(st.one_of(map_pairs, dense_pairs()), st.integers(0, 30))
def test_no_matching_has_more_pairs_nor_as_many_at_less_distance(
    pair: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]], reach_squared: int
) -> None:
    left, right = (np.flatnonzero(m) for m in pair)
    width = pair[0].shape[1]
    partners = solve(left, right, width, reach_squared)
    paired = partners >= 0
    apart = squared(left[paired], right[partners[paired]], width)
    assert np.all(apart <= reach_squared)
    assert len(set(partners[paired].tolist())) == paired.sum()
    cost = int(np.rint(100 * np.sqrt(apart)).sum())
    assert (int(paired.sum()), cost) == best(left, right, width, reach_squared)


def test_the_number_of_pairs_takes_precedence_over_their_distances() -> None:
    # The middle pixel sits on the middle one, but then the outer two would stay alone.
    prediction, ground_truth = np.array([3, 5]), np.array([1, 3])
    assert solve(prediction, ground_truth, 9, 4).tolist() == [0, 1]


def test_of_equally_near_partners_even_rows_take_the_first_and_odd_rows_the_last() -> None:
    ground_truth = np.array([1, 3, 21, 23])
    assert solve(np.array([2, 22]), ground_truth, 10, 1).tolist() == [0, 3]


def test_a_tolerance_reaches_exactly_its_distance_and_not_past_the_rim() -> None:
    assert solve(np.array([0]), np.array([24]), 10, 20).tolist() == [0]  # (2, 4): 4 + 16
    assert solve(np.array([0]), np.array([24]), 10, 19).tolist() == [-1]
    assert solve(np.array([9]), np.array([10]), 10, 4).tolist() == [-1]  # the next row


def test_real_maps_have_a_tolerance_of_a_few_pixels() -> None:
    assert tolerance_px((321, 481)) == pytest.approx(4.337, abs=1e-3)


def test_maps_of_different_size_are_refused() -> None:
    small, large = (Outline((n, n), np.array([0])) for n in (4, 5))
    with pytest.raises(BadInput, match="result is 5 x 5 but a ground truth is 4 x 4"):
        match(small, large)


@pytest.mark.parametrize("max_dist", [-0.1, 0.6, float("nan")])
def test_a_tolerance_that_is_no_share_of_the_diagonal_is_refused(max_dist: float) -> None:
    with pytest.raises(BadInput, match="share of the diagonal"):
        tolerance_px((4, 4), max_dist)


@given(st.one_of(map_pairs, dense_pairs()), st.integers(0, 12))
def test_as_many_pixels_are_matched_from_either_side(
    pair: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]], reach_squared: int
) -> None:
    width = pair[0].shape[1]
    left, right = (np.flatnonzero(bits) for bits in pair)
    there, back = solve(left, right, width, reach_squared), solve(right, left, width, reach_squared)
    assert (there >= 0).sum() == (back >= 0).sum()

"""Comparisons: what is significant, what is not, and how often that errs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmeter.core.benchmarks import Group
from segmeter.stats.comparisons import (
    difference,
    difference_of,
    holm,
    paired_permutation_tests,
    pairwise_tables,
)
from segmeter.stats.intervals import Resampling
from segmeter.stats.statistics import paired_by_draws


def permutation_p(sums: np.typing.ArrayLike, **options: int) -> float:
    found = paired_permutation_tests(np.asarray(sums)[:, None], **options)
    return float(found[0])


def test_holm_on_an_example_worked_by_hand() -> None:
    # Sorted: 0.005 x 4 = 0.02, 0.011 x 3 = 0.033, 0.02 x 2 = 0.04, 0.04 x 1 = 0.04.
    assert holm([0.02, 0.005, 0.04, 0.011]) == pytest.approx([0.04, 0.02, 0.04, 0.033])


def test_holm_never_lets_a_larger_p_overtake_a_smaller_one() -> None:
    # 0.02 x 3 = 0.06; 0.025 x 2 = 0.05 is lifted to 0.06; 0.9 stays.
    assert holm([0.02, 0.025, 0.9]) == pytest.approx([0.06, 0.06, 0.9])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_never_lowers_a_p_and_gives_the_smallest_its_bonferroni(p_values: list[float]) -> None:
    for plain, corrected in zip(p_values, holm(p_values), strict=True):
        assert plain <= corrected + 1e-12
        assert corrected <= 1
    smallest = int(np.argmin(p_values))
    assert holm(p_values)[smallest] == min(1.0, p_values[smallest] * len(p_values))


def test_few_images_are_tested_by_all_sign_patterns() -> None:
    sums = [0.3, -0.1, 0.7, 0.2, 0.4]
    seen = abs(sum(sums))
    patterns = itertools.product([1, -1], repeat=5)
    far = sum(abs(np.dot(signs, sums)) >= seen - 1e-12 for signs in patterns)
    assert permutation_p(sums) == far / 32


def test_the_test_has_its_nominal_error_rate_under_the_null() -> None:
    rng = np.random.default_rng(11)
    p_values = [permutation_p(rng.standard_t(3, size=20), flips=499, seed=k) for k in range(400)]
    assert 0.02 <= np.mean(np.array(p_values) <= 0.05) <= 0.085
    assert 0.4 <= np.mean(p_values) <= 0.6


def test_p_is_never_zero() -> None:
    assert permutation_p(np.ones(40), flips=999) == pytest.approx(1 / 1000)


def test_pairing_finds_what_means_alone_hide() -> None:
    rng = np.random.default_rng(5)
    hard = rng.exponential(5, size=60)
    found = difference(hard + 0.5 + 0.1 * rng.normal(size=60), hard, list(range(60)))
    assert found.interval.low > 0.4
    assert found.p < 0.001
    assert (found.targets, found.scenes) == (60, 60)


def test_turning_a_comparison_round_turns_its_sign() -> None:
    rng = np.random.default_rng(6)
    a, b, scenes = rng.random(30), rng.random(30), rng.integers(0, 9, 30).tolist()
    forth, back = difference(a, b, scenes), difference(b, a, scenes)
    assert forth.interval.value == pytest.approx(-back.interval.value)
    assert forth.p == back.p


@pytest.mark.parametrize("images", [1, 2, 5])
def test_a_difference_in_all_resamples_of_few_images_is_not_significant(images: int) -> None:
    """With two images, every second difference of equal models had p = 0.001."""
    gaps = Resampling(range(images)).means(np.linspace(1, 2, images))[:, 0]
    found = paired_by_draws(1.5, gaps, images, images)
    assert found is not None
    assert found.p >= 2.0 ** (1 - images) > 0.05
    assert np.isnan(found.interval.low) == (images == 1)


@pytest.mark.parametrize("images", [6, 12])
def test_differences_by_draws_have_their_nominal_error_rate_under_the_null(images: int) -> None:
    rng, drawn = np.random.default_rng(3), Resampling(range(images), resamples=500)
    p_values = []
    for _ in range(600):
        values = rng.normal(size=images)
        found = paired_by_draws(values.mean(), drawn.means(values)[:, 0], images, images)
        assert found is not None
        assert (found.p < 0.05) == (not found.interval.low <= 0 <= found.interval.high)
        p_values.append(found.p)
    assert 0.03 <= np.mean(np.array(p_values) < 0.05) <= 0.075


def test_equal_models_do_not_differ_by_draws() -> None:
    found = paired_by_draws(0.0, np.zeros(500), 80, 80)
    assert found is not None
    assert (found.p, found.interval.low, found.interval.high) == (1.0, 0.0, 0.0)


def test_a_model_is_not_the_better_one_for_empty_masks() -> None:
    """HD95 of an empty mask is infinite; objects on which one model has one were left out."""
    keys = tuple((f"s{k}", "a") for k in range(16))
    scenes = tuple(scene for scene, _ in keys)
    groups = [Group(m, "d", "", "corrected", keys, scenes) for m in ("often empty", "steady")]
    often, steady = np.where(np.arange(16) % 2, np.inf, 1.0), np.full(16, 4.0)
    (found,) = pairwise_tables(["hd95"], groups, [often[:, None], steady[:, None]])
    assert (found.value, found.targets) == (0.0, 16)
    assert not found.significant


def test_infinite_differences_are_unknown_where_both_are_infinite_or_no_other_has_a_size() -> None:
    gaps = difference_of(np.array([np.inf, np.inf, 2.0]), np.array([np.inf, 2.0, 2.0]))
    assert np.isnan(gaps[:2]).all()
    assert gaps[2] == 0.0
    gaps = difference_of(np.array([np.inf, np.inf, 2.5]), np.array([np.inf, 2.0, 2.0]))
    assert np.isnan(gaps[0])
    assert gaps[1:].tolist() == [0.5, 0.5]

"""Differences between groups: intervals, the permutation test, shares."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from segmeter.core.errors import BadInput
from segmeter.stats.fairness import (
    group_differences,
    group_means,
    group_shares,
    normal_interval,
    permutation_test,
)


def people(gap, images=60, each=3, seed=0, spread=0.0):
    """Two groups, an image shows one of them; images differ by `spread`."""
    rng = np.random.default_rng(seed)
    level = rng.normal(0, spread, images)
    values = 70 + np.repeat(level, each) + rng.normal(0, 5, images * each)
    groups = np.repeat(np.where(np.arange(images) % 2, "a", "b"), each)
    values[groups == "a"] += gap
    return values, groups.tolist(), np.repeat(np.arange(images), each).tolist()


def test_the_published_interval_is_the_normal_one_and_the_corrected_one_is_wider_in_clusters():
    """Difference 23 of the register: masks of one image are not independent."""
    values, groups, clusters = people(0, spread=8.0)
    published, corrected = (
        group_means(values, groups, clusters, r) for r in ("published", "corrected")
    )
    for ours, theirs in zip(published, corrected, strict=True):
        mine = values[[k for k, g in enumerate(groups) if g == ours.group]]
        reach = 1.96 * mine.std(ddof=1) / np.sqrt(mine.size)
        assert ours.interval.high - ours.interval.value == pytest.approx(reach)
        assert ours.interval.value == pytest.approx(theirs.interval.value)
        wide = theirs.interval.high - theirs.interval.low
        assert wide > 1.3 * 2 * reach
        assert (ours.targets, ours.images) == (90, 30)


def test_a_real_gap_is_found_and_none_is_not():
    found = group_differences(*people(4.0), permutations=2000)[0]
    assert (found.first, found.second) == ("a", "b")
    assert found.significant
    assert found.interval.low < 4.0 < found.interval.high
    assert not group_differences(*people(0.0), permutations=2000)[0].significant


def test_clusters_are_kept_together():
    """Ten images of nearly equal masks each: many masks, little evidence."""
    values, groups, clusters = people(5.0, images=10, each=40, spread=6.0, seed=3)
    together = permutation_test(values, np.array(groups) == "a", clusters, permutations=4000)
    apart = permutation_test(values, np.array(groups) == "a", range(400), permutations=4000)
    assert apart < 0.001
    assert together > 0.02


def test_p_is_that_of_all_permutations_of_few_images():
    values = np.array([1.0, 2.0, 3.0, 7.0, 8.0, 4.0])
    labels = np.array([True, True, False, False, False, True])
    seen = abs(values[labels].mean() - values[~labels].mean())
    every = [labels[list(p)] for p in permutations(range(6))]
    far = [abs(values[m].mean() - values[~m].mean()) >= seen - 1e-12 for m in every]
    p = permutation_test(values, labels, range(6), permutations=20_000)
    assert p == pytest.approx(np.mean(far), abs=0.01)


def test_images_that_show_both_groups_exchange_them_within():
    """Eight images with both, always the same sign: 2 of 256 patterns are as far out."""
    values = np.array([[9.0, 5.0 + 0.1 * k] for k in range(8)]).ravel()
    inside = np.tile([True, False], 8)
    clusters = np.repeat(np.arange(8), 2).tolist()
    p = permutation_test(values, inside, clusters, permutations=20_000)
    assert p == pytest.approx(2 / 256, abs=0.003)


def test_p_values_are_even_where_groups_make_no_difference():
    ps = [
        permutation_test(
            *_two(people(0.0, images=20, each=2, seed=s, spread=4.0)), permutations=200, seed=s
        )
        for s in range(200)
    ]
    assert np.mean(np.array(ps) <= 0.05) <= 0.10
    assert abs(np.mean(ps) - 0.5) < 0.07


def _two(drawn):
    values, groups, clusters = drawn
    return values, np.array(groups) == "a", clusters


def test_three_groups_are_corrected_together():
    rng = np.random.default_rng(1)
    values = rng.normal(0, 1, 90) + np.repeat([0.0, 0.0, 3.0], 30)
    found = group_differences(values, ["x"] * 30 + ["y"] * 30 + ["z"] * 30, range(90))
    assert [(d.first, d.second) for d in found] == [("x", "y"), ("x", "z"), ("y", "z")]
    assert [d.significant for d in found] == [False, True, True]
    assert all(d.p_holm >= d.p for d in found)
    assert found[1].p_holm == pytest.approx(min(3 * found[1].p, 1), rel=0.5)


def test_people_without_a_group_are_left_out():
    made = group_means([1.0, 2.0, 30.0], ["a", "a", None], [0, 1, 2])
    assert [(m.group, m.interval.value, m.targets) for m in made] == [("a", 1.5, 2)]
    assert group_differences([1.0, 2.0], ["a", "a"], [0, 1]) == []


def test_one_mask_has_no_interval_and_none_is_refused():
    assert np.isnan(normal_interval([3.0]).low)
    with pytest.raises(BadInput, match="at least one value"):
        normal_interval([])
    with pytest.raises(BadInput, match="do not belong together"):
        group_means([1.0], ["a", "b"], [0])


def test_a_group_of_one_image_has_a_difference_without_limits():
    """Its image is in every resample that counts: the interval of 1 + 1 images was [0.4, 0.4]."""
    for others in (["y"], list("uvwxy")):
        values, groups = [0.9, *[0.5] * len(others)], ["a", *"b" * len(others)]
        (found,) = group_differences(values, groups, ["z", *others], permutations=10)
        assert found.interval.value == pytest.approx(0.4)
        assert np.isnan([found.interval.low, found.interval.high]).all()


def test_intervals_of_differences_of_small_groups_cover_zero_under_the_null():
    rng, inside = np.random.default_rng(0), 0
    for _ in range(200):
        values, groups = rng.beta(8, 2, 20), ["a"] * 5 + ["b"] * 15
        (found,) = group_differences(values, groups, range(20), permutations=1)
        inside += found.interval.low <= 0 <= found.interval.high
    assert inside >= 184


def test_shares_count_images_masks_and_countries():
    masks = {"p1": 3, "p2": 5, "p3": 2, "p4": 9}
    countries = {"p1": "Chad", "p2": "Mali", "p3": "Peru"}
    table = {"Chad": "Africa", "Mali": "Africa", "Peru": "America"}
    africa, america = group_shares(masks, countries, table)
    assert (africa.group, africa.countries, africa.images, africa.masks) == ("Africa", 2, 2, 8)
    assert africa.masks_per_image.value == 4.0
    assert (africa.share, america.share) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    with pytest.raises(BadInput, match="country 'Peru' is in no group"):
        group_shares(masks, countries, {"Chad": "Africa", "Mali": "Africa"})
    with pytest.raises(BadInput, match="image 'p9' has a country"):
        group_shares(masks, {**countries, "p9": "Peru"}, table)

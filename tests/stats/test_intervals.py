"""Intervals cover as often as they claim, and know that targets share images."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from segmeter.core.errors import BadInput
from segmeter.stats import intervals
from segmeter.stats.intervals import Resampling, percentiles, share_interval


def clicks_of_scenes(rng: np.random.Generator, scenes: int) -> tuple[np.ndarray, np.ndarray]:
    """Skewed click counts; the one to three targets of a scene are alike."""
    cluster = np.repeat(np.arange(scenes), rng.integers(1, 4, scenes))
    depth = 0.7 * rng.normal(size=scenes)[cluster] + 0.7 * rng.normal(size=cluster.size)
    share = np.clip(stats.norm.cdf(depth), 0, 0.999999)
    return np.clip(np.floor(stats.expon.ppf(share) * 4) + 1, 1, 20), cluster


def test_intervals_of_skewed_clustered_clicks_cover_about_95_percent() -> None:
    rng = np.random.default_rng(7)
    ground_truth = np.mean(np.concatenate([clicks_of_scenes(rng, 4000)[0] for _ in range(20)]))
    hits = 0
    for trial in range(300):
        values, cluster = clicks_of_scenes(rng, 40)
        interval = Resampling(cluster.tolist(), resamples=600, seed=trial).interval(values)
        hits += interval.low <= ground_truth <= interval.high
    assert 0.91 <= hits / 300 <= 0.985  # 0.95 give or take three standard errors


def test_treating_targets_of_a_image_as_independent_is_too_narrow() -> None:
    rng = np.random.default_rng(3)
    scenes = np.repeat(np.arange(30), 8)
    values = rng.normal(size=30)[scenes] + 0.1 * rng.normal(size=240)
    clustered = Resampling(scenes.tolist()).interval(values)
    naive = Resampling(list(range(240))).interval(values)
    assert clustered.high - clustered.low > 2 * (naive.high - naive.low)


def test_the_same_seed_gives_the_same_interval_and_another_one_does_not() -> None:
    values, cluster = clicks_of_scenes(np.random.default_rng(0), 25)
    first, again, other = (
        Resampling(cluster.tolist(), seed=seed).interval(values) for seed in ("a", "a", "b")
    )
    assert first == again
    assert first != other


def test_resampled_means_equal_a_plain_loop() -> None:
    values, cluster = clicks_of_scenes(np.random.default_rng(1), 9)
    drawn = Resampling(cluster.tolist(), resamples=20)
    weights = drawn._weights
    plain = [np.repeat(values, w[cluster].astype(int)).mean() for w in weights]
    np.testing.assert_allclose(drawn.means(values)[:, 0], plain)
    assert (weights.sum(axis=1) == 9).all()


@pytest.mark.parametrize("share", [0.0, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("most", [0, 1 << 23], ids=["many scenes", "few scenes"])
@pytest.mark.parametrize("tied", [False, True])
def test_resampled_quantiles_equal_those_of_repeated_values(
    share: float, most: int, tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of tables with gaps, as rounds that were not run leave them; of one scene all is missing."""
    monkeypatch.setattr(intervals, "_MOST_NUMBERS", most)
    intervals._weights.cache_clear()
    rng = np.random.default_rng(4)
    cluster = np.repeat(np.arange(7), rng.integers(1, 4, 7))
    table = rng.random((cluster.size, 5))
    table = np.floor(4 * table) if tied else table
    table[rng.random(table.shape) < 0.3] = np.nan
    table[cluster == 2] = np.nan
    drawn = Resampling(cluster.tolist(), resamples=50, seed=most)
    repeated = [np.repeat(table, w[cluster].astype(int), axis=0) for w in drawn._weights]
    plain = [np.nanquantile(rows, share) for rows in repeated]
    np.testing.assert_allclose(drawn.quantiles(table, share), plain, rtol=1e-12)
    intervals._weights.cache_clear()


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30), st.floats(-50, 50))
def test_intervals_hold_their_mean_and_move_with_the_data(values: list[float], by: float) -> None:
    drawn = Resampling(list(range(len(values))), resamples=200)
    here, there = drawn.interval(values), drawn.interval(np.array(values) + by)
    slack = 1e-6 * (1 + np.abs(values).max())
    assert here.low - slack <= here.value <= here.high + slack
    assert there.low == pytest.approx(here.low + by, abs=1e-3)
    assert there.high == pytest.approx(here.high + by, abs=1e-3)


def test_columns_are_treated_one_by_one() -> None:
    rng = np.random.default_rng(2)
    drawn, table = Resampling(rng.integers(0, 12, 40).tolist()), rng.random((40, 5))
    low, high = drawn.limits(table)
    for k in range(5):
        alone = drawn.interval(table[:, k])
        assert (low[k], high[k]) == pytest.approx((alone.low, alone.high))


def test_one_image_gives_no_interval() -> None:
    interval = Resampling(["a", "a"]).interval([1.0, 2.0])
    assert interval.value == 1.5
    assert np.isnan(interval.low)
    assert np.isnan(interval.high)


def test_no_targets_is_refused() -> None:
    with pytest.raises(BadInput, match="at least one target"):
        Resampling([])


def test_no_failure_among_fifty_still_leaves_room_for_some() -> None:
    share = share_interval(np.zeros(50), list(range(50)))
    assert share.low == 0
    assert share.high == pytest.approx(0.0713, abs=1e-3)  # Wilson (1927): z^2 / (n + z^2)


def test_shares_of_single_targets_equal_wilson_by_scipy() -> None:
    flags = np.r_[np.ones(9), np.zeros(31)]
    ours = share_interval(np.random.default_rng(0).permutation(flags), list(range(40)))
    theirs = stats.binomtest(9, 40).proportion_ci(method="wilson")
    assert ours.low <= theirs.low + 1e-9
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.004)


def test_failures_that_come_by_image_widen_the_share() -> None:
    scenes = np.repeat(np.arange(10), 5)
    together = share_interval(scenes < 3, scenes.tolist())
    apart = share_interval(np.arange(50) * 3 % 10 < 3, scenes.tolist())
    assert together.value == apart.value
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


def test_a_mean_that_is_not_a_number_has_no_interval_either() -> None:
    interval = Resampling([1, 2, 3]).interval([0.5, np.nan, 0.7])
    assert np.isnan([interval.value, interval.low, interval.high]).all()


def test_percentiles_are_wider_for_few_images_and_hold_infinite_draws() -> None:
    draws = np.arange(1000.0)
    few, many = percentiles(500.0, draws, 6), percentiles(500.0, draws, 100_000)
    assert (many.low, many.high) == pytest.approx((24.975, 974.025), abs=0.1)
    assert few.low < 3
    assert few.high > 996
    assert np.isnan(percentiles(500.0, draws, 1).low)
    half = percentiles(1.0, np.repeat([1.0, np.inf], [97, 3]), 50)
    assert (half.low, half.high) == (1.0, np.inf)  # an empty mask is infinitely far

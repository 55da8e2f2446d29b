"""Fast draws are the plain draws, number for number."""

from __future__ import annotations

import numpy as np
import pytest

from segmeter.core.seeds import fingerprint, generator
from segmeter.stats import comparisons, intervals


@pytest.mark.parametrize(("scenes", "flips"), [(14, 500), (15, 7), (17, 3), (1001, 301)])
def test_signs_are_those_that_numpy_draws(
    scenes: int, flips: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparisons, "_AT_ONCE", 64 * scenes)  # several blocks
    plain = 1.0 - 2.0 * generator("flips", 5, scenes).integers(0, 2, (flips, scenes))
    drawn = list(comparisons._signs(scenes, flips, 5))
    comparisons._packed_flips.cache_clear()  # made in blocks of another size
    assert np.array_equal(np.concatenate(drawn), plain)


@pytest.mark.parametrize("clusters", [1, 2, 50, 700])
def test_weights_are_counts_of_plain_draws(clusters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = generator("bootstrap", "x", clusters).integers(0, clusters, (90, clusters))
    plain = np.stack([np.bincount(row, minlength=clusters) for row in drawn])
    seed = fingerprint("bootstrap", "x", clusters)
    for most in (intervals._MOST_NUMBERS, 0):  # as numbers, and as small whole numbers
        intervals._weights.cache_clear()
        monkeypatch.setattr(intervals, "_AT_ONCE", 16 * clusters)
        monkeypatch.setattr(intervals, "_MOST_NUMBERS", most)
        assert np.array_equal(intervals._weights(clusters, 90, seed), plain)
    intervals._weights.cache_clear()


def test_intervals_of_many_scenes_are_those_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    values = generator("values").random((300, 2))
    clusters = [k // 2 for k in range(300)]
    few = intervals.Resampling(clusters, resamples=400).limits(values)
    intervals._weights.cache_clear()
    monkeypatch.setattr(intervals, "_MOST_NUMBERS", 0)
    many = intervals.Resampling(clusters, resamples=400).limits(values)
    intervals._weights.cache_clear()
    assert np.allclose(few, many, rtol=0, atol=1e-12)


def test_a_scene_that_is_drawn_more_often_than_a_byte_counts_is_counted_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = intervals._weights(7, 90, fingerprint("often"))
    for name, most in (("_MOST_NUMBERS", 0), ("_MOST_OF_A_BYTE", 3), ("_AT_ONCE", 70)):
        monkeypatch.setattr(intervals, name, most)
    intervals._weights.cache_clear()
    counts = intervals._weights(7, 90, fingerprint("often"))
    intervals._weights.cache_clear()
    assert counts.dtype == np.uint32
    assert np.array_equal(counts, plain)


@pytest.mark.parametrize("per_scene", [1, 3])
def test_resamples_of_equal_scenes_are_equally_large(per_scene: int) -> None:
    drawn = intervals.Resampling(list("abcdefg") * per_scene)
    assert np.array_equal(drawn._sizes[:, 0], drawn._weighted(drawn._counts))

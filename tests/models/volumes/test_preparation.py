"""How slices are prepared, by family and reading."""

from __future__ import annotations

import numpy as np
import pytest

from segmeter.models.volumes.slices import (
    PREPARATIONS,
    PreparedSlices,
    looks_like_ct,
    preparation_of,
)


@pytest.fixture
def mr():
    voxels = np.random.default_rng(0).gamma(2, 100, (4, 12, 15)).astype(np.float32)
    voxels[:, :3] = 0
    return voxels


def test_sam_sees_percentiles_of_the_whole_volume(mr):
    low, high = np.percentile(mr, (0.5, 99.5))
    expected = np.round((mr[2].clip(low, high) - low) / (high - low + 1e-10) * 255)
    found = PreparedSlices(mr, preparation_of("sam", "published")).slice(2)
    assert np.array_equal(found, expected.astype(np.float32))


def test_medical_networks_see_percentiles_of_what_is_above_zero(mr):
    inside = mr[1][mr[1] > 0]
    low, high = np.percentile(inside, (0.5, 99.5))
    clipped = mr[1].clip(low, high)
    found = PreparedSlices(mr, preparation_of("medsam", "published")).slice(1)
    assert np.allclose(found, clipped)
    scaled = np.round((clipped - clipped.min()) / (np.ptp(clipped) + 1e-6) * 255)
    found = PreparedSlices(mr, preparation_of("sam-med2d", "published")).slice(1)
    assert np.allclose(found, scaled)


def test_hounsfield_units_above_zero_only_are_a_mistake_that_corrected_does_not_make():
    """Fat and lung lie below zero: published throws them away, corrected shows a window."""
    ct = np.linspace(-1000, 400, 600).round().astype(np.int16).reshape(2, 15, 20)
    assert looks_like_ct(ct)
    published = PreparedSlices(ct, preparation_of("sam-med2d", "published")).slice(1)
    corrected = PreparedSlices(ct, preparation_of("sam-med2d", "corrected")).slice(1)
    fat = ct[1] == ct[1][(ct[1] > -120) & (ct[1] < -60)][0]
    assert published[fat].max() == 0
    assert 20 < corrected[fat].min() < 80
    assert (corrected.min(), corrected.max()) == (0, 255)


def test_a_given_window_is_used(mr):
    corrected = preparation_of("sam", "corrected")
    found = PreparedSlices(mr, corrected, window=(100, 200)).slice(0)
    assert np.array_equal(found, np.round((mr[0].clip(100, 200) - 100) / 100 * 255))
    assert PreparedSlices(mr, corrected, modality="CT").range == (-160, 240)


@pytest.mark.parametrize("family", sorted(PREPARATIONS))
@pytest.mark.parametrize("protocol", ["published", "corrected"])
def test_dark_and_even_slices_are_no_reason_to_fail(family, protocol):
    for value in (0, -5, 7):
        even = np.full((2, 5, 6), value, np.int16)
        found = PreparedSlices(even, preparation_of(family, protocol)).slice(0)
        assert np.isfinite(found).all()
        assert np.ptp(found) == 0


def test_exact_values_are_not_cut_to_the_one_below():
    ct = np.array([[[-160, -80, 0, 240]]], np.int16)
    found = PreparedSlices(ct, preparation_of("litemedsam", "published"), "CT").slice(0)
    assert found.tolist() == [[0, 51, 102, 255]]

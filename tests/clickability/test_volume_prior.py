"""The click model in volumes: its law, its shares, and what must not matter."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from segmeter.clickability.groups import draw_voxel, volume_prior
from segmeter.clickability.maps import Numbers
from segmeter.core.masks import Mask

LAW = Numbers(depth=1.0, spread=0.3, sloppy=0.0, jitter=0.0)
solids = arrays.arrays(bool, (5, 6, 7)).filter(lambda bits: bool(bits.any()))


def test_without_a_pull_weights_are_depths_in_mm() -> None:
    mask = Mask.box((9, 9, 9), (2, 2, 2), (7, 5, 5))
    weights = volume_prior(mask, (1.0, 3.0, 3.0), Numbers(1.0, 1e6, 0.0, 0.0))
    # Slices of 1 mm, rows and columns of 3 mm: depth is 1, 2, 3, 2, 1 mm from top to bottom.
    np.testing.assert_allclose(weights[:, 1, 1] / weights[0, 1, 1], [1, 2, 3, 2, 1])


@given(solids)
def test_weights_are_on_the_mask_and_sum_to_one(bits: npt.NDArray[np.bool_]) -> None:
    mask = Mask.of(np.pad(bits, 1))
    weights = volume_prior(mask, (2.0, 1.0, 1.0), LAW)
    assert weights.sum() == pytest.approx(1)
    assert not weights[~mask.bits].any()


@given(solids, st.floats(0, 1, exclude_max=True))
def test_a_draw_falls_on_the_mask_and_higher_shares_on_likelier_voxels(
    bits: npt.NDArray[np.bool_], uniform: float
) -> None:
    mask = Mask.of(np.pad(bits, 1))
    weights = volume_prior(mask, (1.0, 1.0, 1.0), LAW)
    low, high = (draw_voxel(mask, weights, share, uniform) for share in ((0, 0.5), (0.5, 1)))
    assert low is not None
    assert high is not None
    assert mask[low]
    assert mask[high]
    at = [weights[tuple(v - a for v, a in zip(p, mask.low, strict=True))] for p in (low, high)]
    assert at[0] <= at[1]


def test_no_user_clicks_a_voxel_twice() -> None:
    mask = Mask.box((4, 4, 4), (1, 1, 1), (2, 2, 3))
    weights = volume_prior(mask, (1.0, 1.0, 1.0), LAW)
    first = draw_voxel(mask, weights, (0.0, 1.0), 0.5)
    assert first is not None
    second = draw_voxel(mask, weights, (0.0, 1.0), 0.5, [first])
    assert second is not None
    assert second != first
    assert draw_voxel(mask, weights, (0.0, 1.0), 0.5, [first, second]) is None

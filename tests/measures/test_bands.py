"""The band along an outline: the kernel against OpenCV's erosion."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from segmeter.core.masks import Mask
from segmeter.measures.objects import _plain_band, band


@given(
    hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, max_side=30), fill=st.just(True)),
    st.integers(1, 9),
)
def test_the_band_is_what_an_erosion_takes(bits: npt.NDArray[np.bool_], reach: int) -> None:
    mask = Mask.of(bits)
    plain = _plain_band(mask.bits, reach) if mask else mask.bits
    assert np.array_equal(band(mask, reach).bits, plain)


@pytest.mark.parametrize("reach", [20, 126, 127, 128, 140])
def test_wide_bands_too(reach: int) -> None:
    bits = np.ones((300, 420), dtype=bool)
    bits[140, 260] = False
    found = band(Mask.of(bits), reach).bits
    assert np.array_equal(found, _plain_band(bits, reach))
    assert not found.all()

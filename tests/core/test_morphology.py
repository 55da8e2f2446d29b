"""Connected components, distances and depth in volumes against SciPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import ndimage

from segmeter.core import morphology
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.morphology import Connectivity, components, largest_component, parts

volumes = arrays.arrays(bool, arrays.array_shapes(min_dims=2, max_dims=3, max_side=7))


@given(volumes, st.integers(0, 2))
def test_components_equal_scipys_in_number_and_order(
    bits: npt.NDArray[np.bool_], choice: int
) -> None:
    known: list[Connectivity] = [4, 8] if bits.ndim == 2 else [6, 18, 26]
    steps = min(choice, len(known) - 1)
    labels, count = components(bits, known[steps])
    expected, expected_count = morphology._plain_components(bits, steps + 1)
    assert count == expected_count
    np.testing.assert_array_equal(labels, expected)


@given(volumes)
def test_parts_make_up_the_mask_again(bits: npt.NDArray[np.bool_]) -> None:
    mask = Mask.of(np.pad(bits, 2))
    found = parts(mask)
    together = np.sum([part.dense() for part in found], axis=0) if found else 0
    np.testing.assert_array_equal(together, mask.dense())


def test_the_largest_component_has_a_rule_for_ties() -> None:
    mask = Mask.of(np.array([[1, 1, 0, 1, 0, 1, 1]]))
    assert largest_component(mask).low == (0, 0)
    assert largest_component(mask, tie="last").low == (0, 5)


def test_another_connectivity_is_refused() -> None:
    with pytest.raises(BadInput, match="in 2 dimensions is 4, 8, not 6"):
        components(np.ones((2, 2), bool), 6)


spacings = st.tuples(*[st.sampled_from([0.7, 1.0, 2.5, 5.0])] * 3)
solids = arrays.arrays(bool, arrays.array_shapes(min_dims=3, max_dims=3, max_side=9))


@given(solids, spacings)
def test_distances_equal_scipys(
    seeds: npt.NDArray[np.bool_], spacing: tuple[float, float, float]
) -> None:
    found = morphology.squared_distances(seeds, spacing)
    expected = morphology._plain_squared_distances(seeds, spacing)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@given(solids)
def test_on_cubic_voxels_squared_distances_are_whole_numbers(seeds: npt.NDArray[np.bool_]) -> None:
    found = morphology.squared_distances(seeds, (1, 1, 1))
    finite = found[np.isfinite(found)]
    np.testing.assert_array_equal(finite, np.rint(finite))


@given(solids, spacings)
def test_the_deepest_voxel_is_the_first_of_the_deepest_in_mm(
    bits: npt.NDArray[np.bool_], spacing: tuple[float, float, float]
) -> None:
    squared, point = morphology.deepest_voxel(Mask.of(np.pad(bits, 1)), spacing)
    depth = ndimage.distance_transform_edt(np.pad(bits, 2), sampling=spacing)[1:-1, 1:-1, 1:-1]
    if not bits.any():
        assert point is None
        return
    first = np.argmax(depth.ravel() >= depth.max() * (1 - 1e-9))
    assert point == tuple(int(i) for i in np.unravel_index(first, depth.shape))
    assert squared == pytest.approx(depth.max() ** 2)


def test_a_barred_voxel_is_not_clicked_again() -> None:
    mask = Mask.box((9, 9, 9), (1, 1, 1), (8, 8, 8))
    _, first = morphology.deepest_voxel(mask, (1, 1, 1))
    assert first == (4, 4, 4)
    assert morphology.deepest_voxel(mask, (1, 1, 1), [first])[1] != first


def test_spacing_must_be_positive() -> None:
    with pytest.raises(BadInput, match="positive numbers of millimetres"):
        morphology.squared_distances(np.ones((2, 2, 2), bool), (1, -1, 1))

"""Surface measures: known distances, an independent tool, and what must not matter."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.measures import surfaces
from segmeter.measures.correction import added_path
from segmeter.measures.surfaces import (
    corner_areas,
    hd95,
    mean_surface_distance,
    nsd,
    surface_distances,
    voxel_surface_distances,
)

SPACINGS = [(1.0, 1.0, 1.0), (3.0, 1.0, 1.0), (5.0, 0.7, 0.9)]


def clouds(seed: int, shape: tuple[int, int, int] = (14, 20, 18)) -> list[npt.NDArray[np.bool_]]:
    """Two irregular masks with holes and several parts, away from the border."""
    draws = np.random.default_rng(seed)
    smooth = [ndimage.gaussian_filter(draws.normal(size=shape), 1.5) for _ in range(2)]
    return [np.pad(s > 0.05, 2) for s in smooth]


@pytest.mark.parametrize("side", [1.0000000229686998, 0.9999999948352141])
def test_a_rounded_affine_leaves_a_voxel_within_a_tolerance_of_one_voxel(side: float) -> None:
    # Sides of oblique grids of 1 mm as NIfTI stores them, in single precision.
    ground_truth = Mask.box((12, 12, 12), (3, 3, 3), (8, 8, 8))
    shifted = Mask.box((12, 12, 12), (3, 3, 4), (8, 8, 9))
    sides = (side,) * 3
    assert nsd(ground_truth, shifted, sides, tolerance_mm=1.0) == 1.0
    assert surfaces.surface_beyond(ground_truth, shifted, sides, tolerance_mm=1.0) == 0.0
    assert added_path(ground_truth, shifted, sides, tolerance_mm=1.0).total_mm == 0.0
    two_off = Mask.box((12, 12, 12), (3, 3, 5), (8, 8, 10))
    expected = added_path(ground_truth, two_off, tolerance_mm=1.0).total_mm
    assert added_path(ground_truth, two_off, sides, 1.0).total_mm == pytest.approx(expected)


@pytest.mark.parametrize("spacing", SPACINGS)
def test_surface_measures_agree_with_deepminds_tool(spacing: tuple[float, ...]) -> None:
    # Convention: corners between voxels, weighted by area; its NumPy names are of 2018.
    tool = pytest.importorskip("surface_distance")
    ground_truth, prediction = clouds(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        theirs = tool.compute_surface_distances(ground_truth, prediction, spacing)
    masks = Mask.of(ground_truth), Mask.of(prediction)
    ours = surface_distances(*masks, spacing)
    np.testing.assert_allclose(
        np.sort(ours.ground_truth_mm), theirs["distances_gt_to_pred"], rtol=1e-12
    )
    np.testing.assert_allclose(
        np.sort(ours.prediction_mm), theirs["distances_pred_to_gt"], rtol=1e-12
    )
    assert ours.ground_truth_area.sum() == pytest.approx(theirs["surfel_areas_gt"].sum(), rel=1e-12)
    for tolerance in (0.5, 1.0, 2.0):
        expected = tool.compute_surface_dice_at_tolerance(theirs, tolerance)
        assert nsd(*masks, spacing, tolerance) == pytest.approx(expected, abs=1e-12)
    assert hd95(*masks, spacing) == pytest.approx(tool.compute_robust_hausdorff(theirs, 95))
    both_ways = tool.compute_average_surface_distance(theirs)
    assert mean_surface_distance(*masks, spacing) == pytest.approx(sum(both_ways) / 2)


@pytest.mark.parametrize("spacing", SPACINGS)
def test_corner_areas_are_deepminds(spacing: tuple[float, ...]) -> None:
    tables = pytest.importorskip("surface_distance.lookup_tables")
    weights = tables.ENCODE_NEIGHBOURHOOD_3D_KERNEL.ravel()
    theirs = tables.create_table_neighbour_code_to_surface_area(spacing)
    renumbered = [
        theirs[sum(int(w) for place, w in enumerate(weights) if code >> place & 1)]
        for code in range(256)
    ]
    np.testing.assert_allclose(corner_areas(spacing), renumbered, rtol=1e-12, atol=1e-12)


def test_voxel_surfaces_agree_with_scipy_on_the_whole_volume() -> None:
    # Convention: centres of outermost voxels, each counted once (as MONAI and medpy do).
    ground_truth, prediction = clouds(5)
    outer = [m & ~ndimage.binary_erosion(m) for m in (ground_truth, prediction)]
    to_prediction = ndimage.distance_transform_edt(~outer[1], sampling=(3, 1, 1))[outer[0]]
    to_ground_truth = ndimage.distance_transform_edt(~outer[0], sampling=(3, 1, 1))[outer[1]]
    ours = voxel_surface_distances(Mask.of(ground_truth), Mask.of(prediction), (3, 1, 1))
    np.testing.assert_allclose(np.sort(ours.ground_truth_mm), np.sort(to_prediction), rtol=1e-12)
    assert ours.mean() == pytest.approx((to_prediction.mean() + to_ground_truth.mean()) / 2)


def test_a_face_moved_by_one_slice_is_one_spacing_away() -> None:
    ground_truth = Mask.box((20, 20, 20), (2, 2, 2), (10, 18, 18))
    prediction = Mask.box((20, 20, 20), (2, 2, 2), (11, 18, 18))
    found = surface_distances(ground_truth, prediction, (5.0, 1.0, 1.0))
    assert found.ground_truth_mm.max() == 5.0
    assert nsd(ground_truth, prediction, (5.0, 1.0, 1.0), tolerance_mm=4.9) < 1.0
    assert nsd(ground_truth, prediction, (5.0, 1.0, 1.0), tolerance_mm=5.0) == 1.0


def test_empty_cases_are_those_of_the_cards() -> None:
    full, empty = Mask.box((5, 5, 5), (1, 1, 1), (3, 3, 3)), Mask.empty((5, 5, 5))
    for name, both, one in (
        ("nsd", 1.0, 0.0),
        ("hd95", 0.0, float("inf")),
        ("mean-surface-distance", 0.0, float("inf")),
    ):
        measure = catalogue.measures.make(name)
        assert measure(empty, empty) == both
        assert measure(full, empty) == measure(empty, full) == one


masks = st.integers(0, 2**27 - 1).map(
    lambda bits: np.array([bits >> i & 1 for i in range(27)], dtype=bool).reshape(3, 3, 3)
)


@given(masks, masks, st.sampled_from(SPACINGS))
def test_the_compiled_surfaces_equal_the_plain_ones(
    ground_truth: npt.NDArray[np.bool_],
    prediction: npt.NDArray[np.bool_],
    spacing: tuple[float, ...],
) -> None:
    ground_truth, prediction = (
        np.pad(ground_truth, ((0, 2), (1, 0), (0, 1))),
        np.pad(prediction, ((2, 0), (0, 1), (0, 1))),
    )
    ground_truth[0, 1, 0] = prediction[2, 0, 0] = True
    ours = surface_distances(Mask.of(ground_truth), Mask.of(prediction), spacing)
    plain = surfaces._plain_surfaces(ground_truth, prediction, spacing)
    np.testing.assert_allclose(ours.ground_truth_mm, plain[0], rtol=1e-12)
    np.testing.assert_allclose(ours.prediction_mm, plain[2], rtol=1e-12)
    areas = corner_areas(spacing)
    np.testing.assert_array_equal(ours.ground_truth_area, areas[plain[1].astype(int)])


@given(masks, st.permutations([0, 1, 2]))
def test_turning_both_masks_and_the_spacing_changes_nothing(
    ground_truth: npt.NDArray[np.bool_], axes: list[int]
) -> None:
    ground_truth = np.pad(ground_truth, 1)
    ground_truth[1, 1, 1] = True
    prediction = ndimage.binary_dilation(ground_truth)[::-1]
    spacing = (4.0, 1.5, 0.8)
    turned = [
        Mask.of(np.ascontiguousarray(m.transpose(axes)[:, ::-1]))
        for m in (ground_truth, prediction)
    ]
    turned_spacing = tuple(spacing[a] for a in axes)
    for measure in (nsd, hd95, mean_surface_distance):
        before = measure(Mask.of(ground_truth), Mask.of(prediction), spacing)
        assert measure(turned[0], turned[1], turned_spacing) == pytest.approx(before, abs=1e-9)


def test_outlines_of_images_agree_with_deepminds_tool() -> None:
    tool = pytest.importorskip("surface_distance")
    ground_truth, prediction = (cloud[7] for cloud in clouds(4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        theirs = tool.compute_surface_distances(ground_truth, prediction, (0.7, 1.3))
    ours = surface_distances(Mask.of(ground_truth), Mask.of(prediction), (0.7, 1.3))
    expected = tool.compute_surface_dice_at_tolerance(theirs, 1.0)
    assert ours.within(1.0) == pytest.approx(expected, abs=1e-12)
    assert ours.prediction_area.sum() == pytest.approx(theirs["surfel_areas_pred"].sum())


def test_bad_spacing_is_refused_in_one_sentence() -> None:
    solid = Mask.box((5, 5, 5), (1, 1, 1), (3, 3, 3))
    with pytest.raises(BadInput, match="2 positive numbers of millimetres"):
        nsd(Mask.box((5, 5), (1, 1), (3, 3)), Mask.box((5, 5), (1, 1), (3, 3)), (1.0, 1.0, 2.0))
    with pytest.raises(BadInput, match="3 positive numbers of millimetres"):
        hd95(solid, solid, (1.0, 0.0, 1.0))
    with pytest.raises(BadInput, match="tolerance of nsd"):
        nsd(solid, solid, (1.0, 1.0, 1.0), float("nan"))


def test_measures_of_masks_that_are_no_shares_have_a_unit() -> None:
    cards = [catalogue.measures.make(name) for name in catalogue.measures.names()]
    lengths = {card.id: card.units for card in cards if card.masks and card.range[1] == np.inf}
    assert lengths["hd95"] == lengths["redrawn-path"] == ("px", "mm")
    assert lengths["surface-beyond"] == ("px", "mm²")
    assert all(units[0] for units in lengths.values()), lengths
    assert not any(any(card.units) for card in cards if card.range == (0, 1))

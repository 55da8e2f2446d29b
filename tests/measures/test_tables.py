"""Shared-pixel tables: the kernel, its plain twin, merging, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmeter.core.errors import BadInput
from segmeter.kernels import compiled
from segmeter.measures import tables
from segmeter.measures.tables import compare, regions

from .label_maps import Labels, partitions


def test_a_table_counts_what_two_maps_share() -> None:
    prediction = np.array([[5, 5, 2], [5, 2, 2]])
    ground_truth = np.array([[1, 1, 1], [0, 0, 0]])
    (table,) = compare(ground_truth, prediction).tables
    found = list(zip(table.rows, table.columns, table.shared, strict=True))
    assert found == [(0, 0, 2), (0, 1, 1), (1, 0, 1), (1, 1, 2)]
    assert table.prediction_areas.tolist() == [3, 3]


def test_regions_are_numbered_by_first_appearance() -> None:
    found = regions(np.array([[7, 7, 0], [3, 0, 7]]))
    assert found.numbers.tolist() == [0, 0, 1, 2, 1, 0]
    assert found.areas.tolist() == [3, 2, 1]


@pytest.mark.skipif(compiled is None, reason="the kernels are not compiled")
@given(partitions(2, most=60))
def test_the_kernel_equals_its_plain_twin(pair: list[Labels]) -> None:
    assert compiled is not None
    numbered = []
    for labels in pair:
        flat = np.ascontiguousarray(labels).reshape(-1)
        fast, plain = compiled.number_regions(flat), tables.number_regions(flat)
        assert all(np.array_equal(f, p) for f, p in zip(fast, plain, strict=True))
        numbered.append(plain)
    (rows, row_areas), (columns, column_areas) = numbered
    sizes = (row_areas.size, column_areas.size)
    fast = compiled.shared_pixels(rows, columns, *sizes)
    plain = tables.shared_pixels(rows, columns, *sizes)
    assert all(np.array_equal(f, p) for f, p in zip(fast, plain, strict=True))


@pytest.mark.skipif(compiled is None, reason="the kernels are not compiled")
def test_labels_beyond_the_lookup_array_are_numbered_too() -> None:
    flat = np.array([1 << 40, 3, (1 << 16) - 1, 1 << 16, 1 << 40, 3], dtype=np.int64)
    assert compiled is not None
    assert compiled.number_regions(flat)[0].tolist() == [0, 1, 2, 3, 0, 1]


@given(partitions(2), st.data())
def test_merging_the_table_equals_counting_merged_labels(
    pair: list[Labels], data: st.DataObject
) -> None:
    ground_truth, prediction = pair
    fine = regions(prediction)
    joined = np.array(
        data.draw(st.lists(st.integers(0, 3), min_size=fine.count, max_size=fine.count))
    )
    groups = tables.number_regions(joined)[0].astype(np.int64)
    merged = compare(ground_truth, fine).merged(groups).tables[0]
    counted = compare(ground_truth, groups[fine.numbers].reshape(fine.shape)).tables[0]
    for name in ("rows", "columns", "shared", "prediction_areas", "ground_truth_areas"):
        assert np.array_equal(getattr(merged, name), getattr(counted, name)), name


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.zeros((2, 2)), "labels are whole numbers"),
        (np.zeros((2, 2, 3), int), "3 axes"),
        (np.zeros((0, 4), int), "no pixel"),
        (np.array([[-1, 0]]), "labels start at 0"),
        (np.array([["a"]]), "labels are whole numbers"),
    ],
)
def test_invalid_label_maps_are_refused(labels: Labels, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        regions(labels)


def test_maps_of_different_size_are_refused_with_both_sizes() -> None:
    with pytest.raises(BadInput, match="3 x 2 but a ground truth is 2 x 3"):
        compare(np.zeros((3, 2), int), np.zeros((2, 3), int))


def test_no_ground_truth_is_refused() -> None:
    with pytest.raises(BadInput, match="at least one ground truth"):
        compare([], np.zeros((2, 2), int))


def test_any_whole_type_and_byte_order_serves() -> None:
    labels = np.array([[0, 1], [1, 2]])
    wanted = regions(labels).numbers
    for dtype in ("bool", "int8", "uint32", ">u2", ">i4", "uint64"):
        given_map = np.minimum(labels, 1).astype(dtype) if dtype == "bool" else labels.astype(dtype)
        found = regions(given_map).numbers
        assert np.array_equal(found, np.minimum(wanted, 1) if dtype == "bool" else wanted), dtype

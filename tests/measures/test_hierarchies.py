"""Hierarchies: levels by merging equal levels by cutting, and the quadtree."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from segmeter.core.errors import BadInput
from segmeter.datasets.image_files import read_values
from segmeter.measures.hierarchies import Hierarchy, partition_at
from segmeter.measures.partitions import scores, scores_of
from segmeter.measures.tables import compare, regions
from segmeter.models.partitioners import quadtree_levels

from .label_maps import Labels

contour_maps = st.tuples(st.integers(1, 5), st.integers(1, 5)).flatmap(
    lambda size: arrays.arrays(
        np.float32, (2 * size[0] + 1, 2 * size[1] + 1), elements=st.sampled_from([0, 0.25, 0.5, 1])
    )
)
# Single and double precision, and thresholds that some strengths equal.
two_precisions = st.tuples(contour_maps, st.sampled_from([np.float32, np.float64])).map(
    lambda drawn: drawn[0].astype(drawn[1]) * drawn[1](0.4)
)


@given(contour_maps | two_precisions, st.sampled_from([0, 0.1, 0.2, 0.25, 0.4, 0.5, 0.7, 1]))
def test_a_level_by_merging_is_the_level_by_cutting(levels: Labels, threshold: float) -> None:
    assert np.array_equal(Hierarchy.of(levels).labels(threshold), partition_at(levels, threshold))


@given(contour_maps, st.data())
def test_a_sweep_gives_the_measures_of_every_level(levels: Labels, data: st.DataObject) -> None:
    hierarchy = Hierarchy.of(levels)
    ground_truth = data.draw(arrays.arrays(np.int64, hierarchy.shape, elements=st.integers(0, 3)))
    finest = compare(ground_truth, hierarchy.finest)
    for threshold in (0, 0.25, 0.6, 1):
        level = finest.merged(hierarchy.groups(threshold))
        wanted = scores(ground_truth, partition_at(levels, threshold))
        assert scores_of(level) == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize(
    "levels",
    [
        np.zeros((4, 5)),
        np.zeros((3, 3, 3)),
        np.full((3, 3), np.nan),
        np.full((3, 3), -1.0),
        np.array([["a"] * 3] * 3),
    ],
)
def test_invalid_contour_maps_are_refused(levels: Labels) -> None:
    with pytest.raises(BadInput, match="a contour map"):
        Hierarchy.of(levels)


def test_the_quadtree_equals_the_original(golden: Path) -> None:
    folder = golden / "seism"
    for size in json.loads((folder / "quadtree.json").read_text())["sizes"]:
        levels = quadtree_levels(size["rows"], size["cols"])
        assert np.array_equal(levels, read_values(folder / "maps" / f"{size['grid']}.png"))
        hierarchy = Hierarchy.of(levels)
        assert hierarchy.values.size == size["distinct_nonzero"]
        for count, wanted in size["regions"].items():
            threshold = hierarchy.threshold_for(int(count))
            assert threshold == wanted["threshold"]
            labels = hierarchy.labels(threshold)
            assert regions(labels).count == wanted["count"]
            assert digest_by_columns(labels) == wanted["labels_sha256"]


def digest_by_columns(labels: Labels) -> str:
    """The golden digests number regions from 1 by first appearance down the columns."""
    numbered = regions(np.ascontiguousarray(labels.T))
    names = numbered.numbers.reshape(labels.T.shape).T + 1
    return hashlib.sha256(np.ascontiguousarray(names).astype("<i4").tobytes()).hexdigest()


def test_a_partition_has_at_least_one_region() -> None:
    hierarchy = Hierarchy.of(np.array([[0] * 7, [0, 0, 1, 0, 3, 0, 0], [0] * 7]))
    assert [hierarchy.threshold_for(count) for count in (1, 2, 3)] == [3.0, 1.0, 0.0]
    with pytest.raises(BadInput, match="at least one region"):
        hierarchy.threshold_for(0)

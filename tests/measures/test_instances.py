"""Instance measures against elf, panoptica and scikit-image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.core.errors import BadInput
from segmeter.measures.instances import (
    _accuracy,
    _iou,
    mean_segmentation_accuracy,
    panoptic_quality,
    split_and_merge_information,
    splits_and_merges,
)


def labels(runs: list[int], shape: list[int]) -> Any:
    return np.repeat(runs[::2], runs[1::2]).reshape(shape)


@pytest.fixture
def cases(golden: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((golden / "interaction/instances.json").read_text())
    assert len(found) >= 34
    return found


def pair(case: dict[str, Any]) -> tuple[Any, Any]:
    both = (labels(case[name], case["shape"]) for name in ("ground_truth", "prediction"))
    return next(both), next(both)


def test_golden_segmentation_accuracies_agree(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        ground_truth, prediction = pair(case)
        found = mean_segmentation_accuracy(ground_truth, prediction, "published")
        assert found == pytest.approx(case["expected"]["msa"], abs=1e-12), case["name"]
        thresholds = np.arange(0.5, 1.0, 0.05)
        each = [_accuracy(_iou(ground_truth, prediction), t) for t in thresholds]
        assert each == pytest.approx(case["expected"]["sa"], abs=1e-12), case["name"]


def test_golden_panoptic_qualities_agree(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        found = panoptic_quality(*pair(case))
        wanted = case["expected"]["panoptica_bipartite"]
        assert (found.matched, found.spurious, found.missed) == (
            wanted["tp"],
            wanted["fp"],
            wanted["fn"],
        ), case["name"]
        for name in ("pq", "sq", "rq"):
            value = np.nan if wanted[name] is None else wanted[name]
            ours = getattr(found, name)
            assert ours == pytest.approx(value, abs=1e-9, nan_ok=True), (case["name"], name)


def test_golden_splits_and_merges_agree(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        found = splits_and_merges(*pair(case))
        wanted = case["expected"]["splits_merges"]
        assert {name: getattr(found, name) for name in wanted} == wanted, case["name"]
        split, merge = split_and_merge_information(*pair(case))
        both = case["expected"]["vi_split"], case["expected"]["vi_merge"]
        assert (split, merge) == pytest.approx(both, abs=1e-9), case["name"]


def test_an_iou_at_a_threshold_counts_only_in_the_corrected_protocol() -> None:
    ground_truth, prediction = np.zeros((1, 30), int), np.zeros((1, 30), int)
    ground_truth[0, :20], prediction[0, :12] = 1, 1  # IoU 0.6: thresholds 0.5, 0.55 and 0.6
    assert mean_segmentation_accuracy(ground_truth, prediction) == pytest.approx(0.3)
    assert mean_segmentation_accuracy(ground_truth, prediction, "published") == pytest.approx(0.2)


def test_maps_of_different_shapes_are_refused() -> None:
    with pytest.raises(BadInput, match="must have one shape"):
        panoptic_quality(np.zeros((2, 2), int), np.zeros((2, 3), int))


def test_labels_of_64_bits_stay_apart() -> None:
    ids = np.array([[2**60 + 1, 2**60 + 2, 0]], np.uint64)
    assert panoptic_quality(ids, ids).matched == 2
    assert split_and_merge_information(ids, ids) == (0.0, 0.0)

"""Retrieval numbers of the probe in perf/ against golden values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from retrieval import cosines, knn_accuracy, pair_auroc, retrieval


def test_all_numbers_are_the_golden_ones(golden: Path) -> None:
    cases = json.loads((golden / "words" / "probe.json").read_text())
    for case in cases:
        similar, given = cosines(case["embeddings"]), (case["classes"], case["images"])
        for name, same in (("same_image", True), ("other_images", False)):
            expected, found = case["expected"][name], retrieval(similar, *given, same_image=same)
            assert len(found.queries) == expected["queries"]
            assert found.recall.mean() == pytest.approx(expected["recall_at_1"], abs=1e-9)
            assert found.precision.mean() == pytest.approx(
                expected["mean_average_precision"], abs=1e-9
            )
            assert found.chance.mean() == pytest.approx(expected["chance"], abs=1e-9)
        areas, expected = pair_auroc(similar, *given), case["expected"]["same_image"]
        assert np.mean(areas) == pytest.approx(expected["pair_auroc"], abs=1e-9)
        assert len(areas) == expected["images_with_auroc"]
        for expected in case["expected"]["knn"]:
            plain, balanced, queries = knn_accuracy(similar, *given, expected["k"])
            assert queries == expected["queries"]
            assert plain == pytest.approx(expected["accuracy"], abs=1e-9)
            assert balanced == pytest.approx(expected["balanced_accuracy"], abs=1e-9)


def test_intervals_resample_images() -> None:
    rng = np.random.default_rng(0)
    images = np.repeat(np.arange(20), 4).tolist()
    classes = rng.integers(0, 2, 80).tolist()
    found = retrieval(cosines(rng.normal(size=(80, 8))), classes, images, same_image=True)
    interval = found.interval(images, found.precision)
    assert interval.low < interval.value < interval.high

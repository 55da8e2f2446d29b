"""Correction effort against platipy, Kiser's code and OpenCV."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.core.masks import Mask
from segmeter.measures.correction import added_path, added_voxels, iou_lost, polygons, touch_up


def drawn(recipe: list[dict[str, Any]], shape: list[int]) -> Mask:
    grid = np.indices(shape).astype(float)
    labels = np.zeros(shape, int)
    for step in recipe:
        if step["op"] == "ellipsoid":
            axes = zip(grid, step["centre"], step["radii"], strict=True)
            labels[sum(((g - c) / r) ** 2 for g, c, r in axes) <= 1.0] = step["label"]
        elif step["op"] == "box":
            axes = zip(step["low"], step["high"], strict=True)
            labels[tuple(slice(a, b) for a, b in axes)] = step["label"]
        else:
            labels[tuple(np.array(step["voxels"]).T)] = step["label"]
    return Mask.of(labels > 0)


def check_paths(case: dict[str, Any], ground_truth: Mask, prediction: Mask, key: str) -> None:
    for tolerance, wanted in case["expected"]["added_path"].items():
        found = added_path(ground_truth, prediction, case[key], float(tolerance))
        assert list(found.slices) == wanted["slices"], (case["name"], tolerance)
        assert found.total_mm == pytest.approx(wanted["total_mm"], abs=1e-9)
        assert found.mean_mm == pytest.approx(wanted["mean_mm"], abs=1e-9)
        back = added_path(prediction, ground_truth, case[key], float(tolerance))
        assert list(back.slices) == wanted["reverse_slices"], (case["name"], tolerance)


def images(golden: Path) -> list[tuple[dict[str, Any], Mask, Mask]]:
    cases = json.loads((golden / "interaction" / "effort_2d.json").read_text())
    assert len(cases) == 20
    names = ("ground_truth", "prediction")
    return [
        (case, *(Mask.from_coco({"size": case["shape"], "counts": case[n]}) for n in names))  # type: ignore[misc]
        for case in cases
    ]


def test_golden_paths_of_images_agree(golden: Path) -> None:
    for case, ground_truth, prediction in images(golden):
        check_paths(case, ground_truth, prediction, "spacing_yx")


def test_golden_paths_of_volumes_agree(golden: Path) -> None:
    cases = json.loads((golden / "interaction" / "effort_3d.json").read_text())
    assert len(cases) == 9
    for case in cases:
        ground_truth, prediction = (
            drawn(case[name], case["shape"]) for name in ("ground_truth", "prediction")
        )
        check_paths(case, ground_truth, prediction, "spacing_zyx")
        found, wanted = added_voxels(ground_truth, prediction), case["expected"]["voxels_3d"]
        assert {name: getattr(found, name) for name in wanted} == wanted, case["name"]


def test_golden_polygons_agree(golden: Path) -> None:
    for case, ground_truth, prediction in images(golden):
        masks = {"ground_truth": ground_truth, "prediction": prediction}
        for wanted in case["expected"]["polygons"]["simplify"]:
            mask, size = masks[wanted["mask"]], wanted["epsilon"]
            rings = polygons(mask, size)
            assert len(rings) == wanted["rings"], case["name"]
            assert sum(map(len, rings)) == wanted["vertices_opencv"], (case["name"], size)
            kept = 1 - iou_lost(mask, size)
            assert kept == pytest.approx(wanted["iou_opencv"], abs=1e-12), (case["name"], size)
        for wanted in case["expected"]["polygons"]["touch_up"]:
            done = touch_up(ground_truth, prediction, wanted["epsilon"], wanted["tolerance"])
            assert done.operations == wanted["operations"], case["name"]


def test_a_right_mask_needs_no_correction() -> None:
    mask = Mask.of(np.random.default_rng(1).random((40, 40)) < 0.5)
    assert added_path(mask, mask).total_mm == 0
    assert touch_up(mask, mask).operations == 0
    assert added_voxels(mask, mask).added_path == 0

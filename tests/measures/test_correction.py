"""Correction effort against platipy, Kiser's code and OpenCV."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.core.masks import Mask
from segmeter.core.measures import mask_measure
from segmeter.core.morphology import fill_ignored
from segmeter.core.scenes import Target
from segmeter.measures.correction import (
    added_path,
    added_path_mm,
    added_voxels,
    iou_lost,
    polygons,
    redrawn_path_mm,
    touch_up,
)
from segmeter.measures.judging import judge_by
from segmeter.measures.surfaces import surface_beyond, surface_distances


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


def check_surfaces(case: dict[str, Any], ground_truth: Mask, prediction: Mask, key: str) -> None:
    for tolerance, wanted in case["expected"].get("surface", {}).items():
        found, limit = surface_distances(ground_truth, prediction, case[key]), float(tolerance)
        assert found.within(limit) == pytest.approx(wanted["surface_dice"], abs=1e-9)
        for name, area, one, two in zip(
            ("gt", "pred"), (found.ground_truth_area, found.prediction_area),
            (ground_truth, prediction), (prediction, ground_truth), strict=True,
        ):  # fmt: skip
            beyond = surface_beyond(one, two, case[key], limit)
            assert area.sum() == pytest.approx(wanted[f"{name}_area"], abs=1e-9), case["name"]
            assert beyond == pytest.approx(wanted[f"{name}_beyond_area"], abs=1e-9), case["name"]
            share = 1 - beyond / area.sum()
            assert share == pytest.approx(wanted[f"{name}_within"], abs=1e-9), case["name"]


def images(golden: Path) -> list[tuple[dict[str, Any], Mask, Mask]]:
    cases = json.loads((golden / "interaction" / "effort_2d.json").read_text())
    assert len(cases) >= 20
    names = ("ground_truth", "prediction")
    return [
        (case, *(Mask.from_coco({"size": case["shape"], "counts": case[n]}) for n in names))  # type: ignore[misc]
        for case in cases
    ]


def test_golden_paths_and_outlines_of_images_agree(golden: Path) -> None:
    for case, ground_truth, prediction in images(golden):
        check_paths(case, ground_truth, prediction, "spacing_yx")
        check_surfaces(case, ground_truth, prediction, "spacing_yx")


def test_golden_paths_and_surfaces_of_volumes_agree(golden: Path) -> None:
    cases = json.loads((golden / "interaction" / "effort_3d.json").read_text())
    assert len(cases) >= 9
    for case in cases:
        ground_truth, prediction = (
            drawn(case[name], case["shape"]) for name in ("ground_truth", "prediction")
        )
        check_paths(case, ground_truth, prediction, "spacing_zyx")
        check_surfaces(case, ground_truth, prediction, "spacing_zyx")
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
            for name in ("to_move", "to_add", "operations"):
                assert getattr(done, name) == wanted[name], (case["name"], name)


@pytest.mark.parametrize("seed", range(6))
def test_paths_equal_a_count_pixel_by_pixel(seed: int) -> None:
    draws = np.random.default_rng(seed)
    shape = tuple(draws.integers(1, 9, size=3))
    masks = [draws.random(shape) < draws.choice([0, 0.1, 0.5, 1]) for _ in range(2)]
    spacing, tolerance = tuple(draws.uniform(0.3, 3, size=3)), float(draws.choice([0, 1, 3]))
    reach = math.ceil(tolerance / np.mean(spacing[1:]))

    def contour(mask: Any) -> set[tuple[int, int]]:
        inside = {(int(y), int(x)) for y, x in np.argwhere(mask)}
        beside = {(y, x): [(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)] for y, x in inside}
        outer = {(int(y), int(x)) for y, x in np.argwhere(~mask)}
        return {pixel for pixel, near in beside.items() if outer & set(near)}

    def missing(one: Any, other: Any) -> int:
        known = contour(other)
        far = (reach + 0.5) ** 2 if reach else 0
        return sum(
            all((y - v) ** 2 + (x - u) ** 2 > far for v, u in known) for y, x in contour(one)
        )

    pairs = [(a, b) for a, b in zip(*masks, strict=True) if a.any() or b.any()]
    found = added_path(Mask.of(masks[0]), Mask.of(masks[1]), spacing, tolerance)
    assert list(found.slices) == [missing(a, b) for a, b in pairs]
    removed = sum(missing(b, a) for a, b in pairs) * np.mean(spacing[1:])
    assert found.removed_mm == pytest.approx(removed)


def test_specks_are_not_free_to_correct() -> None:
    target = Mask.box((60, 60), (10, 10), (50, 50))
    specks = Mask.of(np.indices((60, 60)).sum(axis=0) % 2 == 0)
    assert added_path_mm(target, specks) == 0  # contour is everywhere
    assert redrawn_path_mm(target, specks) > redrawn_path_mm(target, Mask.empty((60, 60)))


def test_a_right_mask_needs_no_correction() -> None:
    mask = Mask.of(np.random.default_rng(1).random((40, 40)) < 0.5)
    assert added_path(mask, mask).total_mm == 0
    assert touch_up(mask, mask).operations == 0
    assert added_voxels(mask, mask).added_path == 0


def discs(shape: tuple[int, ...], *radii: float) -> list[Mask]:
    """Discs, or cylinders that begin and end within the volume."""
    z, y, x = np.indices((9, *shape)[-3:])
    inside = (abs(z - 4) < 4) | (len(shape) == 2)
    found = [(np.hypot(y - 30, x - 32) < r) & inside for r in radii]
    return [Mask.of(one if len(shape) == 3 else one[0]) for one in found]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *((name, (64, 64)) for name in ("added-path", "redrawn-path", "touch-up")),
        *((name, (9, 64, 64)) for name in ("added-path", "redrawn-path", "surface-beyond", "hd95")),
    ],
)
def test_a_mask_that_leaks_across_an_ignored_band_pays_for_the_contour(
    name: str, shape: tuple[int, ...]
) -> None:
    disc, middle, grown = discs(shape, 15, 17, 19)
    band, full = grown - disc, Mask.box(shape, (0,) * len(shape), shape)
    judged = mask_measure(name, (4.0, 0.5, 0.8) if len(shape) == 3 else None)
    for prediction in (full, *discs(shape, 9, 25)):
        found = judged(disc, prediction, band)
        assert found == pytest.approx(judged(middle, prediction, None), rel=0.15)
        assert found > 0
    for right in (disc, middle, grown):
        assert judged(disc, right, band) == 0
    holes = Mask.of(np.random.default_rng(3).random(shape) < 0.5) & band
    assert judged(disc, full - holes, band) == judged(disc, full, band)


def test_a_volume_has_equal_scores_from_one_measure_and_from_many() -> None:
    disc, grown, large = discs((9, 64, 64), 15, 19, 27)
    target = Target("disc", disc, ignore=grown - disc)
    judge = judge_by(("nsd", "hd95"), (4.0, 0.5, 0.8))
    assert judge(target, grown) == {"nsd": 1.0, "hd95": 0.0}
    found = judge(target, large)
    alone = {n: mask_measure(n, (4.0, 0.5, 0.8))(disc, large, target.ignore) for n in found}
    assert found == alone
    assert found["hd95"] > 4


@pytest.mark.parametrize("seed", range(8))
def test_ignored_pixels_take_the_value_of_a_nearest_judged_one(seed: int) -> None:
    draws = np.random.default_rng(seed)
    shape = tuple(draws.integers(1, 8, size=draws.integers(2, 4)))
    mask, ignore = draws.random(shape) < 0.5, draws.random(shape) < draws.choice([0.3, 0.9, 1])
    spacing = (2.0, *draws.uniform(0.5, 2, size=2))[-len(shape) :]
    filled = fill_ignored(Mask.of(mask), Mask.of(ignore), spacing).dense()
    assert (filled == mask)[~ignore].all()
    for place in np.argwhere(ignore):
        judged = np.argwhere(~ignore & (np.indices(shape)[0] == place[0] if len(shape) == 3 else 1))
        away = (((judged - place) * spacing) ** 2).sum(axis=1)
        near = judged[away <= away.min() + 1e-9] if len(judged) else []
        values = {bool(mask[tuple(p)]) for p in near} or {False}
        assert bool(filled[tuple(place)]) in values

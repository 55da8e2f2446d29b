"""F_b against the original's values, and what must hold for any maps."""

from __future__ import annotations

import csv
import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.datasets.bsds500 import Bsds500
from segmeter.datasets.image_files import read_values
from segmeter.measures.boundaries import (
    BoundaryCounts,
    boundary_counts,
    boundary_f,
    boundary_f_contour,
    count_boundaries,
    morphological_f,
    object_boundary_f,
    outlines,
)
from segmeter.measures.hierarchies import Hierarchy
from segmeter.measures.outlines import Outline, outline, thin

Labels = npt.NDArray[Any]
GRIDS: tuple[Literal["pixel"], Literal["contour"]] = ("pixel", "contour")

shapes = st.tuples(st.integers(1, 12), st.integers(1, 12))
partitions = arrays.arrays(np.uint8, shapes, elements=st.integers(0, 3))
several = shapes.flatmap(
    lambda shape: st.lists(
        arrays.arrays(np.uint8, shape, elements=st.integers(0, 3)), min_size=2, max_size=4
    )
)


@lru_cache(maxsize=32)
def people(data: Path, image: str) -> list[Labels]:
    splits: tuple[Literal["test", "train", "val"], ...] = ("test", "train", "val")
    for split in splits:
        reader = Bsds500(data, split)
        if image in reader.annotated():
            return list(reader.partitions(image))
    raise LookupError(image)


def prediction_of(case: dict[str, str], golden: Path, data: Path) -> Outline:
    """The boundary map that a row of boundaries.csv is about."""
    grid = GRIDS[case["grid"] == "contour"]
    if case["annotator"]:
        return outline(people(data, case["image"])[int(case["annotator"]) - 1], grid)
    size = people(data, case["image"])[0].shape
    maps = golden / "seism" / "maps"
    if case["kind"].startswith("quadtree"):
        levels = read_values(maps / f"quadtree_grid_{size[0]}x{size[1]}.png")
        tree = Hierarchy.of(levels)
        count = int(case["kind"].split("_")[1])
        return outline(tree.labels(tree.threshold_for(count)), grid)
    if case["kind"] == "single_region":
        return outline(np.ones(size, dtype=int), grid)
    if case["kind"] == "all_ones_map":
        return Outline.of(thin(np.ones(size, dtype=bool)))
    values = read_values(maps / f"{case['map']}.png")
    is_partition = case["map"].startswith("ucmpart")
    return outline(values, grid) if is_partition else Outline.of(thin(values > 0))


def test_all_reference_cases_have_the_exact_counts(golden: Path, real_data: Path) -> None:
    with (golden / "seism" / "boundaries.csv").open() as file:
        cases = list(csv.DictReader(file))
    assert len(cases) == 43
    for case in cases:
        prediction = prediction_of(case, golden, real_data)
        drawn = people(real_data, case["gt_image"])
        ground_truths = [drawn[int(k) - 1] for k in case["gt_annotators"].split()]
        grid = GRIDS[case["grid"] == "contour"]
        if outlines(ground_truths[0], grid)[0].shape != prediction.shape:
            ground_truths = [np.rot90(t) for t in ground_truths]
        found = count_boundaries(outlines(ground_truths, grid), prediction, float(case["maxDist"]))
        where = f"case {case['case']}, {grid}"
        assert (found.prediction, found.ground_truth) == (int(case["sumP"]), int(case["sumR"])), (
            where
        )
        assert found.matched_each == tuple(map(int, case["exact_cntR_each"].split())), where
        assert found.matched_ground_truth >= int(case["cntR_max"]), where
        low, high = int(case["cntP_min"]), int(case["cntP_max"])
        assert 0.985 * low <= found.matched_prediction <= 1.015 * high, where


def test_people_against_people_have_the_exact_counts(golden: Path, real_data: Path) -> None:
    with (golden / "seism" / "meta" / "human_fb_pixel_exact.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2126
    for row in rows[::61]:
        prediction = people(real_data, row["image"])[int(row["annotator"]) - 1]
        ground_truths = people(real_data, row["gt_image"])
        if row["pair"] == "same":
            ground_truths = [
                t for k, t in enumerate(ground_truths, 1) if k != int(row["annotator"])
            ]
        if ground_truths[0].shape != prediction.shape:
            ground_truths = [np.rot90(t) for t in ground_truths]
        found = boundary_counts(ground_truths, prediction)
        expected = tuple(int(row[k]) for k in ("cntR", "sumR", "sumP"))
        assert (found.matched_ground_truth, found.ground_truth, found.prediction) == expected
        assert found.matched_prediction == pytest.approx(int(row["cntP"]), rel=0.015, abs=1)


def test_stored_counts_of_a_method_come_out_of_its_partitions(
    golden: Path, real_data: Path
) -> None:
    curves = json.loads((golden / "seism" / "curves.json").read_text())["curves"]
    stored = next(c for c in curves if (c["method"], c["measure"]) == ("gPb-UCM", "fb"))
    for name in ("2018_030", "2018_300", "3063_100", "5096_120", "8068_120"):
        image, thousandths = name.split("_")
        position = stored["images"].index(image)
        place = stored["threshold_values"].index(int(thousandths) / 1000)
        prediction = read_values(golden / "seism" / "maps" / f"ucmpart_{name}.png")
        found = boundary_counts(people(real_data, image), prediction)
        assert found.ground_truth == stored["sumR"][position]
        assert found.prediction == stored["sumP"][position][place]
        assert found.matched_ground_truth == pytest.approx(
            stored["cntR"][position][place], rel=0.0015
        )
        assert found.matched_prediction == pytest.approx(
            stored["cntP"][position][place], rel=0.0015
        )


def test_toy_partitions_have_the_drawn_boundaries_and_counts(golden: Path) -> None:
    toys = json.loads((golden / "seism" / "toy.json").read_text())["partitions"]
    for toy in toys:
        prediction, ground_truths = (
            np.array(toy["partition"]),
            [np.array(t) for t in toy["ground_truths"]],
        )
        for grid in GRIDS if "boundaries" in toy else ():
            expected = toy["boundaries"][grid]
            drawn = np.array([[c == "1" for c in row] for row in expected["partition_boundary"]])
            np.testing.assert_array_equal(outline(prediction, grid).bits(), drawn, toy["name"])
            for max_dist in (0.0075, 0.1):
                counts = expected[f"maxDist_{max_dist:g}"]
                found = boundary_counts(ground_truths, prediction, grid, max_dist)
                assert (found.prediction, found.ground_truth) == (counts["sumP"], counts["sumR"])
                assert found.matched_ground_truth == counts["cntR_exact"]
                low, high = counts["cntP_original_min_max"]
                assert 0.95 * low <= found.matched_prediction <= 1.05 * high


def test_toy_objects_have_the_morphological_f_of_the_original(golden: Path) -> None:
    toys = json.loads((golden / "seism" / "toy.json").read_text())["objects"]
    compared = 0
    for toy in toys:
        ground_truth, prediction = (Mask.of(np.array(toy[key])) for key in ("ground_truth", "mask"))
        for tolerance, expected in toy.get("boundary_morphological", {}).items():
            found = morphological_f(ground_truth, prediction, tolerance=float(tolerance))
            assert found == pytest.approx(expected["F"], abs=1e-12), toy["name"]
            # Without the card the formula itself gives the same answer to empty masks.
            plain = morphological_f.function(ground_truth, prediction, tolerance=float(tolerance))
            assert plain == found
            compared += 1
    assert compared == 18


@settings(max_examples=60, deadline=None)
@given(partitions)
def test_a_partition_with_boundaries_agrees_with_itself(labels: Labels) -> None:
    has_regions = len(np.unique(labels)) > 1
    assert boundary_f(labels, labels) == float(has_regions)
    assert boundary_f_contour(labels, labels) == float(has_regions)


@settings(max_examples=60, deadline=None)
@given(several, st.sampled_from(GRIDS), st.sampled_from([0.0075, 0.1, 0.2]))
def test_with_one_ground_truth_the_roles_swap_precision_and_recall(
    maps: list[Labels], grid: Literal["pixel", "contour"], max_dist: float
) -> None:
    one, other = maps[:2]
    forth, back = (boundary_counts(*p, grid, max_dist) for p in ((one, other), (other, one)))
    assert forth.matched_ground_truth == back.matched_ground_truth == forth.matched_prediction
    assert forth.f == pytest.approx(back.f, abs=1e-15)
    if forth.ground_truth and forth.prediction:
        assert (forth.precision, forth.recall) == (back.recall, back.precision)


@settings(max_examples=60, deadline=None)
@given(several, st.sampled_from(GRIDS))
def test_another_ground_truth_never_lowers_precision(
    maps: list[Labels], grid: Literal["pixel", "contour"]
) -> None:
    prediction, ground_truths = maps[0], maps[1:]
    fewer = boundary_counts(ground_truths[:1], prediction, grid, 0.1)
    more = boundary_counts(ground_truths, prediction, grid, 0.1)
    assert more.matched_prediction >= fewer.matched_prediction
    assert more.matched_each[:1] == fewer.matched_each
    assert 0 <= more.f <= 1
    assert more == boundary_counts(ground_truths, prediction, grid, 0.1, threads=3)


@settings(max_examples=60, deadline=None)
@given(several, st.permutations(range(4)), st.sampled_from(GRIDS))
def test_names_of_labels_do_not_matter(
    maps: list[Labels], names: list[int], grid: Literal["pixel", "contour"]
) -> None:
    renamed = np.array(names)[maps[0]] * 1000
    assert boundary_counts(maps[1:], maps[0], grid, 0.1) == boundary_counts(
        maps[1:], renamed, grid, 0.1
    )


@settings(max_examples=60, deadline=None)
@given(several)
def test_turned_images_match_as_many_pairs_on_the_contour_grid(maps: list[Labels]) -> None:
    # On the pixel grid a boundary lies to the upper left of the change, and thinning knows
    # left from right: only the contour grid looks the same from every side.
    upright = boundary_counts(maps[1:], maps[0], "contour", 0.1)
    turned = boundary_counts([m.T for m in maps[1:]], maps[0].T, "contour", 0.1)
    assert turned.matched_each == upright.matched_each
    assert (turned.prediction, turned.ground_truth) == (upright.prediction, upright.ground_truth)


def test_empty_sides_follow_the_rule_of_one_image() -> None:
    halves, whole = np.array([[1, 2]] * 3), np.ones((3, 2), dtype=int)
    no_ground_truth, no_prediction = boundary_counts(whole, halves), boundary_counts(halves, whole)
    assert (no_ground_truth.recall, no_ground_truth.precision, no_ground_truth.f) == (1, 0, 0)
    assert (no_prediction.recall, no_prediction.precision, no_prediction.f) == (0, 1, 0)
    neither = boundary_counts(whole, whole)
    assert (neither.recall, neither.precision, neither.f) == (1, 0, 0)
    assert not neither.defined


def test_a_line_one_pixel_off_is_found_only_within_the_tolerance() -> None:
    ground_truth, prediction = (
        np.tile(np.arange(100) >= x, (100, 1)).astype(int) for x in (50, 51)
    )
    assert boundary_f(ground_truth, prediction) == 1.0
    assert boundary_f(ground_truth, prediction, max_dist=0.005) == 0.0


def test_object_outlines_are_found_in_the_box_as_on_the_whole_image() -> None:
    generator = np.random.default_rng(3)
    for _ in range(20):
        ground_truth, prediction = (generator.random((12, 14)) < 0.4 for _ in range(2))
        in_box = object_boundary_f(Mask.of(ground_truth), Mask.of(prediction), max_dist=0.1)
        assert in_box == boundary_f(ground_truth.astype(int), prediction.astype(int), max_dist=0.1)


def test_masks_without_an_outline_agree_and_disagree_by_name() -> None:
    empty, full = Mask.empty((6, 6)), Mask.box((6, 6), (0, 0), (6, 6))
    square = Mask.box((6, 6), (1, 1), (4, 4))
    for f in (object_boundary_f, morphological_f):
        assert f(empty, empty) == f(full, full) == 1.0
        assert f(empty, square) == f(square, empty) == f(full, square) == 0.0
        assert f(square, square) == 1.0


def test_ignored_pixels_are_no_object_in_either_mask() -> None:
    ground_truth, prediction = (
        Mask.box((20, 20), (5, 5), (15, 15)),
        Mask.box((20, 20), (5, 5), (15, 19)),
    )
    ignore = Mask.box((20, 20), (0, 15), (20, 20))
    for f in (object_boundary_f, morphological_f):
        assert f(ground_truth, prediction) < 1.0
        assert f(ground_truth, prediction, ignore) == 1.0


def test_nearness_is_a_disc_and_stops_at_the_rim() -> None:
    dot = Mask.box((30, 30), (10, 10), (11, 11))  # outline: its 2 x 2 block of upper left
    straight, slanted = (Mask.box((30, 30), p, (p[0] + 1, p[1] + 1)) for p in ((10, 14), (13, 13)))
    assert morphological_f(dot, straight, tolerance=4) == 1.0
    assert morphological_f(dot, slanted, tolerance=4) < 1.0
    left, right = Mask.box((4, 4), (1, 3), (2, 4)), Mask.box((4, 4), (2, 0), (3, 1))
    assert morphological_f(left, right, tolerance=1) == 0.0


@pytest.mark.parametrize("id", ["fb", "fb-contour", "fb-object", "fb-morphological"])
def test_the_catalogue_has_a_card_for_each(id: str) -> None:
    card = catalogue.measures.make(id)
    assert card.range == (0.0, 1.0)
    assert card.better == "higher"
    assert card.summary


def test_precision_counts_any_person_and_recall_every_person() -> None:
    counts = BoundaryCounts(
        matched_ground_truth=30, ground_truth=60, matched_prediction=18, prediction=20
    )
    assert (counts.precision, counts.recall) == (0.9, 0.5)
    assert counts.f == pytest.approx(0.642857, abs=1e-6)


def test_wrong_input_is_refused_with_a_sentence() -> None:
    good = np.array([[1, 2]] * 3)
    with pytest.raises(BadInput, match="ground truth 2 holds float64"):
        boundary_f([good, good / 2], good)
    with pytest.raises(BadInput, match="partition has 3 axes"):
        boundary_f(good, good[None])
    with pytest.raises(BadInput, match="partition has no pixel"):
        boundary_f(good, good[:0])
    with pytest.raises(BadInput, match="at least one ground truth"):
        boundary_f([], good)
    with pytest.raises(BadInput, match="result is 2 x 3 but a ground truth is 3 x 2"):
        boundary_f(good.T, good)
    with pytest.raises(BadInput, match="different size"):
        object_boundary_f(*(Mask.box((n, n), (0, 0), (1, 1)) for n in (2, 3)))
    with pytest.raises(BadInput, match="no grid 'hexagon'"):
        boundary_counts(good, good, "hexagon")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="compare it with a threshold"):
        Outline.of(np.zeros((2, 2)))  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="at most"):
        outline(np.lib.stride_tricks.as_strided(np.uint8([0]), (1 << 15, 1 << 15), (0, 0)))

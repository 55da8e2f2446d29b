"""Partition measures against the originals' values, and what must hold for any maps."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from segmeter.core import catalogue
from segmeter.measures import partitions as measures
from segmeter.measures import tables
from segmeter.measures.hierarchies import Hierarchy
from segmeter.measures.objects_and_parts import (
    OpCounts,
    RegionClass,
    count_objects_and_parts,
    region_classes,
)
from segmeter.measures.partitions import scores
from segmeter.measures.tables import compare
from segmeter.models.partitioners import quadtree_levels

from .label_maps import Labels, annotations, golden_map, partitions

SYMMETRIC = ("vd", "bgm", "bce", "gce", "lce", "voi", "nvoi", "pri", "fr", "fop", "fop_paper")
EXCHANGED = (("dhd", "sdhd"), ("sc", "ssc"), ("pr", "rr"), ("pop", "rop"))
DISTANCES = ("voi",)


def prediction_of(row: dict[str, str], golden: Path, data: Path) -> Labels:
    """The partition of a golden case."""
    if row["map"]:
        return golden_map(golden, row["map"])
    if row["annotator"]:
        return annotations(data, row["image"])[int(row["annotator"]) - 1]
    shape = annotations(data, row["gt_image"])[0].shape
    if row["kind"] == "single_region":
        return np.ones(shape, dtype=np.uint8)
    hierarchy = Hierarchy.of(quadtree_levels(*shape))
    return hierarchy.labels(hierarchy.threshold_for(int(row["kind"].removeprefix("quadtree_"))))


def told(counts: OpCounts) -> dict[str, float]:
    """Counts under the golden files' names."""
    names = ("oS", "pS", "frS", "nS", "oG", "pG", "frG", "nG")
    values = (*counts.prediction, *counts.ground_truth)
    return dict(zip(names, map(float, values), strict=True))


def test_all_measures_equal_the_originals_on_forty_real_cases(
    golden: Path, real_data: Path
) -> None:
    with (golden / "seism" / "partitions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40
    for row in rows:
        ground_truths = annotations(real_data, row["gt_image"])
        chosen = [ground_truths[int(k) - 1] for k in row["gt_annotators"].split()]
        if "rot90" in row["kind"]:
            chosen = [np.rot90(ground_truth) for ground_truth in chosen]
        prediction = prediction_of(row, golden, real_data)
        found = scores(chosen, prediction)
        for name, value in found.items():
            assert abs(value - float(row[name])) < 1e-12, (row["case"], name)
        for protocol in ("published", "paper"):
            counts = told(count_objects_and_parts(compare(chosen, prediction), protocol))
            wanted = dict(part.split("=") for part in row[f"fop_counts_{protocol}"].split())
            assert counts == pytest.approx({k: float(v) for k, v in wanted.items()}, abs=1e-12)


def test_all_measures_equal_the_originals_on_toy_cases(golden: Path) -> None:
    cases = json.loads((golden / "seism" / "toy.json").read_text())["partitions"]
    assert len(cases) == 14
    for case in cases:
        ground_truths = [np.array(ground_truth) for ground_truth in case["ground_truths"]]
        found = scores(ground_truths, np.array(case["partition"]))
        paper = {f"{k}_paper": v for k, v in case["paper"].items() if k != "fop_counts"}
        for name, wanted in {**case["published"], **paper}.items():
            if wanted is None:
                assert math.isnan(found[name]), (case["name"], name)
            else:
                assert abs(found[name] - wanted) < 1e-12, (case["name"], name)
        tables_found = compare(ground_truths, np.array(case["partition"])).tables
        for table, each in zip(tables_found, case["per_ground_truth"], strict=True):
            full = np.zeros((table.prediction_areas.size, table.ground_truth_areas.size), dtype=int)
            full[table.rows, table.columns] = table.shared
            assert sorted(map(sorted, full.tolist())) == sorted(map(sorted, each["table"]))


@given(partitions(1))
def test_a_partition_agrees_fully_with_itself(single: list[Labels]) -> None:
    found = scores(single[0], single[0])
    for name, value in found.items():
        if name in DISTANCES:
            assert value < 1e-12, name
        elif not math.isnan(value) and not (name == "fr" and value == 0):
            assert value == pytest.approx(1), name


@given(partitions(2))
def test_measures_are_symmetric_where_the_literature_states_it(pair: list[Labels]) -> None:
    forth, back = scores(pair[0], pair[1]), scores(pair[1], pair[0])
    for name in SYMMETRIC:
        assert forth[name] == pytest.approx(back[name], abs=1e-12, nan_ok=True), name
    for first, second in EXCHANGED:
        assert forth[first] == pytest.approx(back[second], abs=1e-12, nan_ok=True), first


@given(partitions(3), st.permutations(range(7)))
def test_other_names_for_the_regions_change_nothing(maps: list[Labels], names: list[int]) -> None:
    ground_truths, prediction = maps[:2], maps[2]
    renamed = (np.array(names) * 1000 + 7)[prediction]
    assert scores(ground_truths, renamed) == pytest.approx(
        scores(ground_truths, prediction), nan_ok=True
    )


@given(partitions(3))
def test_turning_all_maps_over_changes_nothing(maps: list[Labels]) -> None:
    """Only F_op may differ: its area filter breaks ties by where a region appears first."""
    forth = scores(maps[:2], maps[2])
    back = scores([m.T for m in maps[:2]], maps[2].T)
    for name, value in forth.items():
        if name not in ("fop", "pop", "rop"):
            assert value == pytest.approx(back[name], abs=1e-12, nan_ok=True), name


@given(partitions(3))
def test_values_stay_in_their_range(maps: list[Labels]) -> None:
    found = scores(maps[:2], maps[2])
    for entry in catalogue.measures:
        if entry.name in found:
            low, high = entry.make().range
            assert math.isnan(found[entry.name]) or low <= found[entry.name] <= high + 1e-12
    for name in ("pr", "rr", "pop", "rop", "rop_paper"):
        assert math.isnan(found[name]) or 0 <= found[name] <= 1 + 1e-12, name
    # The paper's precision is not divided by the number of ground truths.
    assert 0 <= found["pop_paper"] <= 2 + 1e-12


@given(partitions(3))
def test_several_ground_truths_are_averaged_if_the_measure_declares_it(maps: list[Labels]) -> None:
    first, second, prediction = maps
    each = scores(first, prediction), scores(second, prediction)
    both = scores([first, second], prediction)
    for name in (
        "dhd",
        "sdhd",
        "vd",
        "sc",
        "ssc",
        "bgm",
        "bce",
        "gce",
        "lce",
        "voi",
        "nvoi",
        "pri",
    ):
        mean = (each[0][name] + each[1][name]) / 2
        assert both[name] == pytest.approx(mean, abs=1e-12, nan_ok=True), name


@given(partitions(2))
def test_naming_a_ground_truth_twice_changes_nothing_but_the_papers_precision(
    pair: list[Labels],
) -> None:
    once, twice = scores(pair[0], pair[1]), scores([pair[0], pair[0]], pair[1])
    for name, value in once.items():
        if name not in ("pop_paper", "fop_paper"):
            assert value == pytest.approx(twice[name], abs=1e-12, nan_ok=True), name


@given(partitions(2))
def test_the_assignment_is_the_same_written_out_and_sparse(pair: list[Labels]) -> None:
    (table,) = compare(pair[0], pair[1]).tables
    full = np.zeros((table.prediction_areas.size, table.ground_truth_areas.size))
    full[table.rows, table.columns] = table.shared
    chosen = linear_sum_assignment(full, maximize=True)
    assert measures._best_assignment(table) == full[chosen].sum()
    assert measures._best_sparse_assignment(table) == full[chosen].sum()


def test_a_region_per_pixel_is_scored_fast_and_right() -> None:
    """A table of 150 000 x 2 regions is never written out in full."""
    pixels = np.arange(321 * 481, dtype=np.int32).reshape(321, 481)
    halves = (np.arange(481) >= 240).astype(np.uint8) * np.ones((321, 1), np.uint8)
    found = scores(halves, pixels)
    assert found["sdhd"] == 1
    assert found["bgm"] == pytest.approx(2 / pixels.size)
    assert math.isnan(found["pr"])
    assert found["fr"] == 0


def test_one_region_against_one_region_is_perfect() -> None:
    found = scores(np.zeros((4, 5), int), np.full((4, 5), 3))
    assert found.pop("voi") == 0
    assert set(found.values()) == {1.0}


def test_the_measures_of_the_catalogue_give_what_scores_gives() -> None:
    ground_truths = [np.array([[1, 1, 2], [1, 2, 2]]), np.array([[1, 2, 2], [1, 2, 3]])]
    prediction = np.array([[4, 4, 4], [4, 9, 9]])
    found = scores(ground_truths, prediction)
    for name in (*measures.FORMULAS, "fr", "fop"):
        assert catalogue.measures.make(name)(ground_truths, prediction) == found[name], name
    assert measures.objects_and_parts(ground_truths, prediction, "paper") == found["fop_paper"]


def test_scores_are_the_same_without_the_compiled_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(5)
    ground_truths, prediction = (
        [rng.integers(0, 9, (40, 30)) for _ in range(3)],
        rng.integers(0, 300, (40, 30)),
    )
    fast = scores(ground_truths, prediction)
    monkeypatch.setattr(tables, "compiled", None)
    assert scores(ground_truths, prediction) == fast


def test_regions_are_objects_parts_fragments_or_noise() -> None:
    """Left half found whole; the right half in two parts, and in noise along its lower rim."""
    ground_truth = np.repeat([[1, 2]], 20, axis=0).repeat(20, axis=1)
    prediction = ground_truth.copy()
    prediction[:9, 20:], prediction[18:, 10:30] = 3, 4
    mine, (theirs,) = region_classes(compare(ground_truth, prediction))
    names = [RegionClass(value).name for value in mine]
    assert names == ["object", "part", "part", "noise"]
    assert [RegionClass(value).name for value in theirs] == ["object", "fragmented"]
    counts = count_objects_and_parts(compare(ground_truth, prediction))
    assert counts.ground_truth.fragments == pytest.approx((180 + 200) / 400)
    assert counts.precision == pytest.approx((1 + 2 * 0.1) / 4)

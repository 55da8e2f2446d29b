"""Sweeps over edge maps, hierarchies and partitions against the benchmarks' own examples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segmeter.core.errors import BadInput
from segmeter.datasets.bsds500 import Bsds500
from segmeter.datasets.image_files import read_values
from segmeter.measures.boundaries import count_boundaries, outlines
from segmeter.measures.curves import (
    THRESHOLDS,
    PooledCounts,
    contour_strengths,
    summarize,
    sweep_edge_map,
)
from segmeter.measures.hierarchies import Hierarchy
from segmeter.measures.outlines import Outline, outline, pixel_grid


def test_edge_maps_have_the_counts_of_the_edges_toolbox(golden: Path) -> None:
    stored = np.load(golden / "zeroshot" / "edges" / "eval_maps.npz")
    expected = json.loads((golden / "zeroshot" / "edges" / "eval_expected.json").read_text())
    width = int(stored["gts_shape"][-1])
    drawn = np.unpackbits(stored["gts"], axis=-1)[..., :width].astype(bool)
    images = []
    for strengths, people, rows in zip(
        stored["preds"], drawn, expected["per_threshold[thr,cntR,sumR,cntP,sumP]"], strict=True
    ):
        ground_truths = [Outline.of(person) for person in people]
        found = sweep_edge_map(
            ground_truths, strengths / 255, max_dist=expected["max_dist"], threads=2
        )
        for counts, (_, matched, ground_truth, matched_prediction, prediction) in zip(
            found, rows, strict=True
        ):
            assert (counts.ground_truth, counts.prediction) == (ground_truth, prediction)
            # Theirs is random and falls short by up to three; ours is the maximum.
            assert matched <= counts.matched_ground_truth <= matched + 3
            assert abs(counts.matched_prediction - matched_prediction) <= 3
        images.append(found)
    curve = summarize(PooledCounts.of(THRESHOLDS, images), "edges")
    summary = expected["summary"]
    assert curve.ods.f == pytest.approx(summary["odsF"], abs=0.003)
    assert curve.ois.f == pytest.approx(summary["oisF"], abs=0.003)
    assert curve.ap == pytest.approx(summary["AP"], abs=0.003)


def test_the_example_of_the_bsds_benchmark_comes_out(golden: Path, real_data: Path) -> None:
    example = json.loads((golden / "seism" / "bench5.json").read_text())
    expected = example["boundary_exact_matching"]
    data, val = Bsds500(real_data), Bsds500(real_data, "val")
    images = []
    for row, image in enumerate(example["images"]):
        reader = data if str(image) in data.annotated() else val
        maps = [read_values(golden / "seism" / "bench5" / f"{image}_{k}.png") for k in range(1, 6)]
        drawn = outlines(reader.partitions(str(image)))
        found = [count_boundaries(drawn, outline(labels), threads=2) for labels in maps]
        assert [c.matched_ground_truth for c in found] == expected["cntR"][row]
        assert [c.ground_truth for c in found] == expected["sumR"][row]
        assert [c.prediction for c in found] == expected["sumP"][row]
        for counts, matched in zip(found, expected["cntP"][row], strict=True):
            assert counts.matched_prediction == pytest.approx(matched, rel=0.015)
        images.append(found)
    curve = summarize(PooledCounts.of(example["thresholds"], images), "bench")
    (printed,) = example["stored_by_authors"]["test_1"]["eval_bdry"]
    ours = [
        curve.ods.threshold, curve.ods.recall, curve.ods.precision, curve.ods.f,
        curve.ois.recall, curve.ois.precision, curve.ois.f, curve.ap,
    ]  # fmt: skip
    assert ours == pytest.approx(printed, abs=7e-4)  # four runs of theirs differ by as much


@st.composite
def hierarchies(draw: st.DrawFn) -> npt.NDArray[np.float64]:
    """A contour map of random regions that join at random heights."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    height, width = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    codes = generator.integers(0, 2, (height, width, 3))
    levels = np.zeros((2 * height + 1, 2 * width + 1))
    levels[2:-1:2, 1::2] = _apart(codes[1:], codes[:-1])
    levels[1::2, 2:-1:2] = _apart(codes[:, 1:], codes[:, :-1])
    return levels


def _apart(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Codes that part at an early digit join late: an ultrametric."""
    return np.asarray(0.25 * ((one != other) * [3, 2, 1]).max(axis=2))


@settings(max_examples=80, deadline=None)
@given(hierarchies(), st.sampled_from([0.0, 0.25, 0.3, 0.5, 0.75]))
def test_cutting_the_strengths_gives_the_boundaries_of_the_partition(
    levels: npt.NDArray[np.float64], threshold: float
) -> None:
    partition = Hierarchy.of(levels).labels(threshold)
    np.testing.assert_array_equal(contour_strengths(levels) > threshold, pixel_grid(partition))


def test_rules_differ_at_a_strength_equal_to_the_threshold() -> None:
    strengths = np.zeros((5, 5))
    strengths[:, 2] = 0.5
    ground_truth = [Outline.of(strengths > 0)]
    assert sweep_edge_map(ground_truth, strengths, [0.5], "bench")[0].prediction == 5
    assert sweep_edge_map(ground_truth, strengths, [0.5], "seism")[0].prediction == 0
    assert (
        sweep_edge_map(ground_truth, strengths, [0.0], "bench")[0].prediction == 5
    )  # never all of it


def test_thresholds_in_any_order_and_number_of_threads_give_the_same_counts() -> None:
    strengths = np.random.default_rng(0).random((40, 50))
    ground_truths = [Outline.of(strengths > 0.8), Outline.of(strengths.round(1) == 0.5)]
    up = sweep_edge_map(ground_truths, strengths, [0.2, 0.5, 0.9, 2.0])
    down = sweep_edge_map(ground_truths, strengths, [2.0, 0.9, 0.5, 0.2], threads=3)
    assert up == down[::-1]


def test_wrong_input_is_refused_with_a_sentence() -> None:
    ground_truth = [Outline.of(np.eye(4, dtype=bool))]
    with pytest.raises(BadInput, match="edge map is H x W, but this is 4 x 4 x 3"):
        sweep_edge_map(ground_truth, np.zeros((4, 4, 3)))
    with pytest.raises(BadInput, match="0 to 1, but the largest here is 255; divide"):
        sweep_edge_map(ground_truth, np.full((4, 4), 255, np.uint8))
    with pytest.raises(BadInput, match="finite strengths"):
        sweep_edge_map(ground_truth, np.full((4, 4), np.nan))
    with pytest.raises(BadInput, match="result is 5 x 4 but a ground truth is 4 x 4"):
        sweep_edge_map(ground_truth, np.ones((4, 5)))
    with pytest.raises(BadInput, match="2H \\+ 1 rows and 2W \\+ 1 columns, but this is 4 x 5"):
        contour_strengths(np.zeros((4, 5)))

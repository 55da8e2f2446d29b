"""Curves: every number from the stored counts under every rule, and what the rules differ in."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segmeter.core.errors import BadInput
from segmeter.measures.boundaries import BoundaryCounts
from segmeter.measures.curves import Curve, MeanScores, PooledCounts, Sweep, summarize

RULES = ("seism", "bench", "edges")


def named(curve: Curve) -> dict[str, float | None]:
    """The numbers of a curve by the names of the reference file."""
    return {
        "ods_F": curve.ods.f,
        "ods_P": curve.ods.precision,
        "ods_R": curve.ods.recall,
        "ods_T": curve.ods.threshold,
        "ods_index": float(np.argmax(curve.f)),
        "ois_F": curve.ois.f,
        "ois_P": curve.ois.precision,
        "ois_R": curve.ois.recall,
        "AP": curve.ap,
        "R50": curve.r50,
    }


def sweep_of(stored: dict[str, Any]) -> Sweep:
    if stored["measure"] == "fop":
        thresholds = np.arange(len(stored["thresholds"]), dtype=float)
        return MeanScores(thresholds, np.array(stored["P"]), np.array(stored["R"]))
    matched, found, prediction = (np.array(stored[k]) for k in ("cntR", "cntP", "sumP"))
    ground_truth = np.repeat(np.array(stored["sumR"])[:, None], matched.shape[1], axis=1)
    return PooledCounts(
        np.array(stored["threshold_values"]), matched, ground_truth, found, prediction
    )


def test_stored_counts_give_the_published_numbers_under_every_rule(golden: Path) -> None:
    compared = 0
    for stored in json.loads((golden / "seism" / "curves.json").read_text())["curves"]:
        for rule, expected in stored["expected"].items():
            found = named(summarize(sweep_of(stored), rule))
            for name, value in expected.items():
                assert found[name] == pytest.approx(value, abs=1e-9), (stored["method"], name)
            compared += 1
        printed = stored.get("stored_by_authors_3_decimals", {})
        found = named(summarize(sweep_of(stored), "seism"))
        for name, key in (("ods_F", "ods_f"), ("ois_F", "ois_f"), ("AP", "ap")):
            assert found[name] == pytest.approx(printed.get(key, found[name]), abs=5.1e-4)
    assert compared == 14


def test_counts_of_the_edges_toolbox_give_its_summary(golden: Path) -> None:
    stored = json.loads((golden / "zeroshot" / "edges" / "eval_expected.json").read_text())
    rows = np.array(stored["per_threshold[thr,cntR,sumR,cntP,sumP]"])
    curve = summarize(PooledCounts(rows[0, :, 0], *np.moveaxis(rows[..., 1:], 2, 0)), "edges")
    found = {name.replace("_", ""): value for name, value in named(curve).items()}
    for name, value in stored["summary"].items():
        assert found[name] == pytest.approx(value, abs=1e-9), name
    # Precision is not monotone here: the published R50 is 0.245 all the same.
    assert curve.corrected_r50 == pytest.approx(0.843, abs=1e-3)


def test_between_two_thresholds_bench_finds_a_better_place_than_seism() -> None:
    counts = [[BoundaryCounts(10, 10, 10, 40), BoundaryCounts(3, 10, 3, 3)]]
    sweep = PooledCounts.of([0.0, 1.0], counts)
    seism, bench = summarize(sweep, "seism"), summarize(sweep, "bench")
    assert seism.ods.threshold == 1.0
    assert bench.ods.f > seism.ods.f
    assert bench.ods.threshold is not None
    assert 0 < bench.ods.threshold < 1


def test_equal_f_at_two_thresholds_takes_the_first() -> None:
    sweep = PooledCounts.of([0.1, 0.2, 0.3], [[BoundaryCounts(5, 10, 5, 10)] * 3])
    for rule in RULES:
        assert summarize(sweep, rule).ods.threshold == 0.1


def test_ois_lets_each_image_choose_and_pools_the_counts() -> None:
    good, bad = BoundaryCounts(9, 10, 9, 10), BoundaryCounts(1, 10, 1, 10)
    curve = summarize(PooledCounts.of([0.1, 0.2], [[good, bad], [bad, good]]), "bench")
    assert curve.ods.f == pytest.approx(0.5)
    assert curve.ois.f == pytest.approx(0.9)
    assert curve.ois.threshold is None


def test_rules_differ_in_what_an_empty_set_of_boundaries_is_worth() -> None:
    nothing = PooledCounts.of([0.5, 0.9], [[BoundaryCounts(0, 10, 0, 0)] * 2])
    assert summarize(nothing, "seism").precision.tolist() == [1, 1]
    assert summarize(nothing, "bench").precision.tolist() == [0, 0]
    no_ground_truth = PooledCounts.of([0.5], [[BoundaryCounts(0, 0, 0, 10)]])
    assert summarize(no_ground_truth, "seism").recall.tolist() == [1]
    assert summarize(no_ground_truth, "edges").recall.tolist() == [0]
    neither = PooledCounts.of([0.5], [[BoundaryCounts(0, 0, 0, 0)]])
    assert (summarize(neither).precision[0], summarize(neither).recall[0]) == (1, 0)
    for rule in RULES:
        assert summarize(neither, rule).ods.f == 0


def test_a_perfect_curve_has_an_area_of_one_hundred_and_one_hundredths() -> None:
    steps = [BoundaryCounts(k, 100, max(k, 1), max(k, 1)) for k in range(100, -1, -1)]
    curve = summarize(PooledCounts.of(np.linspace(0, 1, 101), [steps]), "edges")
    assert curve.ap == pytest.approx(1.01)
    assert curve.corrected_ap == pytest.approx(1.0)
    assert curve.corrected_r50 == 1.0
    assert summarize(PooledCounts.of([0.5], [steps[:1]]), "edges").ap == 0


def test_r50_is_undefined_when_no_precision_reaches_half() -> None:
    low = [BoundaryCounts(5, 10, 3, 10), BoundaryCounts(4, 10, 2, 10)]
    curve = summarize(PooledCounts.of([0.1, 0.2], [low]), "edges")
    assert curve.r50 is not None
    assert math.isnan(curve.r50)
    assert curve.corrected_r50 == 0
    assert summarize(PooledCounts.of([0.1, 0.2], [low]), "bench").r50 is None


def test_the_corrected_area_follows_the_upper_envelope() -> None:
    sweep = MeanScores(np.arange(3.0), np.array([[0.5, 0.2, 1.0]]), np.array([[1.0, 0.6, 0.4]]))
    # 1.0 up to recall 0.4, down to 0.5 at 0.6, then level: the dip to 0.2 does not count.
    assert summarize(sweep).corrected_ap == pytest.approx(0.4 + 0.2 * 0.75 + 0.4 * 0.5)


@st.composite
def sweeps(draw: st.DrawFn) -> PooledCounts:
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    ground_truth, prediction = (generator.integers(0, 30, shape) for _ in range(2))
    matched_ground_truth, matched_prediction = (
        generator.integers(0, ground_truth + 1),
        generator.integers(0, prediction + 1),
    )
    return PooledCounts(
        np.arange(shape[1]) / 10, matched_ground_truth, ground_truth, matched_prediction, prediction
    )


@settings(max_examples=100, deadline=None)
@given(sweeps(), st.sampled_from(RULES))
def test_every_number_stays_in_its_range(sweep: PooledCounts, rule: Any) -> None:
    curve = summarize(sweep, rule)
    assert 0 <= curve.ods.f <= 1
    assert 0 <= curve.ois.f <= 1
    assert 0 <= curve.ap <= 1.01
    assert 0 <= curve.corrected_ap <= 1
    assert curve.ods.f >= curve.f.max() - 1e-12
    assert np.all((curve.precision >= 0) & (curve.precision <= 1))


def test_wrong_input_is_refused_with_a_sentence() -> None:
    counts = [BoundaryCounts(1, 1, 1, 1)] * 2
    with pytest.raises(BadInput, match="image 2 has counts at 1 thresholds, not 2"):
        PooledCounts.of([0.1, 0.2], [counts, counts[:1]])
    with pytest.raises(BadInput, match="at least one image"):
        PooledCounts.of([0.1], [])
    with pytest.raises(BadInput, match="images x 3 thresholds, but one is 2 x 2"):
        MeanScores(np.arange(3.0), np.zeros((2, 2)), np.zeros((2, 2)))
    with pytest.raises(BadInput, match="did you mean 'bench'"):
        summarize(PooledCounts.of([0.1, 0.2], [counts]), "bensh")  # type: ignore[arg-type]

"""Statistics of click curves agree with the originals, click by click and in the mean."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from segmeter.core.errors import BadInput
from segmeter.stats.goals import area_under, at_round, failed, reached, rounds_to, success

TRACES = [
    ("sam2-hiera-tiny", "GrabCut"),
    ("sam2-hiera-tiny", "Berkeley"),
    ("sam2-hiera-tiny", "DAVIS"),
    ("sam2-hiera-tiny", "COCO_MVal"),
    ("mobile-sam", "GrabCut"),
    ("mobile-sam", "Berkeley"),
    ("eiseg-hrnet18-ocr64", "GrabCut"),
]
curves_of_any_kind = arrays.arrays(
    float, st.tuples(st.integers(1, 8), st.integers(1, 20)), elements=st.floats(0, 1)
)


def test_made_up_sequences_have_the_originals_numbers(golden: Path) -> None:
    cases = json.loads((golden / "clicks" / "centre_clicks.json").read_text())["metrics"]
    assert len(cases) == 12
    for case in cases:
        curve = np.array([case["iou"]])
        for goal, clicks in case["noc"].items():
            assert rounds_to(curve, int(goal) / 100)[0] == clicks
            counted = failed(curve, int(goal) / 100, "published")[0]
            assert counted == bool(case["counted_as_failure"][goal])
        assert area_under(curve)[0] == pytest.approx(case["auc20"], abs=1e-12)
        assert area_under(curve[:, :10])[0] == pytest.approx(case["auc10"], abs=1e-12)
        for k, value in case["iou_at"].items():
            assert at_round(curve, int(k))[0] == value


@pytest.mark.parametrize(("model", "dataset"), TRACES)
def test_traces_of_real_networks_give_their_summary(golden: Path, model: str, dataset: str) -> None:
    curves, boundary = trace(golden / "traces" / f"{model}_{dataset}.csv.gz")
    with (golden / "traces" / "summary.csv").open() as file:
        wanted = next(
            row
            for row in csv.DictReader(file)
            if (row["model"], row["dataset"], row["reading"]) == (model, dataset, "published")
            and row["weights"] == "fp16"
        )
    assert rounds_to(curves, 0.9).mean() == pytest.approx(float(wanted["noc20_90"]), abs=5e-4)
    assert failed(curves, 0.9, "published").sum() == int(wanted["nof20_90"])
    assert failed(curves, 0.9, "corrected").sum() == int(wanted["never_90"])
    assert 100 * area_under(curves).mean() == pytest.approx(float(wanted["iou_auc20"]), abs=6e-4)
    assert 100 * at_round(curves, 1).mean() == pytest.approx(float(wanted["iou_1"]), abs=6e-4)
    assert 100 * area_under(boundary).mean() == pytest.approx(float(wanted["biou_auc20"]), abs=6e-4)


def trace(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """IoU and boundary IoU of a trace, targets x rounds."""
    curves: dict[str, list[tuple[float, float]]] = {}
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            curves.setdefault(row["target"], []).append((float(row["iou"]), float(row["biou"])))
    table = np.array(list(curves.values()))
    return table[:, :, 0], table[:, :, 1]


def test_success_at_the_last_round_is_a_failure_only_in_the_published_protocol() -> None:
    curve = np.array([[0.5, 0.5, 0.9]])
    assert failed(curve, 0.9, "published")[0]
    assert not failed(curve, 0.9, "corrected")[0]


def test_a_goal_that_is_reached_and_lost_counts_as_reached() -> None:
    curve = np.array([[0.95, 0.2, 0.2]])
    assert rounds_to(curve, 0.9)[0] == 1
    assert success(curve, 0.9).tolist() == [[1, 1, 1]]


def test_a_round_without_a_value_never_reaches_a_goal() -> None:
    curve = np.array([[np.nan, np.nan]])
    assert not reached(curve, 0.8)[0]
    assert rounds_to(curve, 0.8)[0] == 2


def test_a_round_that_was_not_run_is_refused() -> None:
    with pytest.raises(BadInput, match="round 4 was not run"):
        at_round(np.zeros((2, 3)), 4)


@given(curves_of_any_kind, st.floats(0.05, 1))
def test_the_restricted_mean_is_the_area_above_the_success_curve(
    curves: np.ndarray, goal: float
) -> None:
    # E[min(T, K)] = sum over k < K of P(T > k): rounds 0 to K - 1.
    open_ = 1 - success(curves, goal).mean(axis=0)
    assert rounds_to(curves, goal).mean() == pytest.approx(1 + open_[:-1].sum())


@given(curves_of_any_kind)
def test_areas_equal_numpys_and_are_within_the_curve(curves: np.ndarray) -> None:
    area = area_under(curves)
    assert (area >= curves.min(axis=1) - 1e-9).all()
    assert (area <= curves.max(axis=1) + 1e-9).all()
    if curves.shape[1] > 1:
        np.testing.assert_allclose(
            area, np.trapezoid(curves, axis=1) / (curves.shape[1] - 1), atol=1e-12
        )

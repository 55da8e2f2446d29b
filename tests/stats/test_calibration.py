"""Calibration of scores against golden values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from segmeter.stats.calibration import (
    ScoredRows,
    calibration_error,
    reliability,
    risk_coverage,
    stop_at,
)

STOPPING = {
    "stopped_right": "right",
    "mean_shortfall": "shortfall",
    "mean_wasted_clicks": "wasted_clicks",
    "stopped_early": "early",
    "never_reached": "never",
    "mean_clicks": "clicks",
    "mean_iou": "iou",
    "mean_iou_regret": "regret",
}


def test_golden_calibration_agrees(golden: Path) -> None:
    cases = json.loads((golden / "interaction" / "calibration.json").read_text())
    assert len(cases) >= 6
    for case in cases:
        wanted = case["expected"]
        rows = np.array([row for session in case["sessions"] for row in session])
        scores, iou = rows.T
        good = iou >= 0.9
        for bins in (5, 10, 15):
            error, worst = calibration_error(reliability(scores, iou, bins))
            assert error == pytest.approx(wanted[f"ece_iou_{bins}"], abs=1e-12)
            assert worst == pytest.approx(wanted[f"mce_iou_{bins}"], abs=1e-12)
            event, _ = calibration_error(reliability(scores, good, bins))
            assert event == pytest.approx(wanted[f"ece_goal_{bins}"], abs=1e-12)
        for ours, theirs in zip(
            reliability(scores, iou), wanted["reliability_iou_10"], strict=True
        ):
            assert ours.n == theirs["n"]
            for name in ("mean_score", "mean_value", "low", "high"):
                assert getattr(ours, name) == pytest.approx(theirs[name], abs=1e-12)
        errors, pearson = scores - iou, np.corrcoef(scores, iou)[0, 1]
        names = ("mean_error", "mean_absolute_error", "pearson", "spearman")
        rows, once = ScoredRows(scores, iou), np.ones((1, len(scores)))
        spearman = rows.rank_correlation(once)[0]
        found = (errors.mean(), np.abs(errors).mean(), pearson, spearman)
        assert found == pytest.approx([wanted[name] for name in names], abs=1e-12)
        if wanted["auroc_goal"] is not None:
            area = rows.area_under_roc(once, 0.9)[0]
            assert area == pytest.approx(wanted["auroc_goal"], abs=1e-12)
        assert ((scores - good) ** 2).mean() == pytest.approx(wanted["brier_goal"], abs=1e-12)


def test_golden_risks_at_each_coverage_agree(golden: Path) -> None:
    for case in json.loads((golden / "interaction" / "calibration.json").read_text()):
        wanted = case["expected"]
        scores, iou = np.array([row for session in case["sessions"] for row in session]).T
        curves = risk_coverage(scores, 1 - iou), risk_coverage(scores, iou < 0.9)
        means = [curve.mean() for curve in curves]
        assert means == pytest.approx([wanted["aurc_iou"], wanted["aurc_goal"]], abs=1e-12)
        for coverage, risks in wanted["risk_at_coverage"].items():
            k = max(1, round(float(coverage) * len(scores)))
            assert [curve[k - 1] for curve in curves] == pytest.approx(risks, abs=1e-12)


def test_golden_stopping_rules_agree(golden: Path) -> None:
    for case in json.loads((golden / "interaction" / "calibration.json").read_text()):
        for wanted in case["expected"]["stopping"]:
            sessions = case["sessions"]
            tables = np.full((2, len(sessions), max(map(len, sessions))), np.nan)
            for line, session in enumerate(sessions):
                tables[:, line, : len(session)] = np.array(session).T
            found = stop_at(*tables, wanted["score"], wanted["goal"])
            for theirs, ours in STOPPING.items():
                mean = getattr(found, ours).mean()
                assert mean == pytest.approx(wanted[theirs], abs=1e-12), theirs


def test_a_score_that_is_the_iou_is_calibrated() -> None:
    iou = np.random.default_rng(1).random(200)
    assert calibration_error(reliability(iou, iou)) == (0.0, 0.0)
    assert ScoredRows(iou, iou).area_under_roc(np.ones((1, 200)), 0.9).tolist() == [1.0]


@pytest.mark.parametrize("rows", [3, 7, 40, 900])
def test_resamples_at_once_equal_repeated_rows_one_by_one(rows: int) -> None:
    rng = np.random.default_rng(rows)
    scores, iou = np.round(rng.random(rows), 1 if rows < 100 else 3), np.round(rng.random(rows), 2)
    counts = rng.multinomial(rows, [1 / rows] * rows, size=50)
    scored, weights = ScoredRows(scores, iou), counts.astype(float)
    found = np.stack(
        [
            scored.calibration_error(weights),
            scored.rank_correlation(weights),
            scored.area_under_roc(weights, 0.5),
            scored.area_under_risk(weights),
        ]
    )
    for column, times in zip(found.T, counts, strict=True):
        s, u = np.repeat(scores, times), np.repeat(iou, times)
        with np.errstate(invalid="ignore", divide="ignore"):
            spearman = np.corrcoef(scipy.stats.rankdata(s), scipy.stats.rankdata(u))[0, 1]
        above = s[u >= 0.5][:, None] - s[u < 0.5]
        area = ((above > 0) + (above == 0) / 2).mean() if above.size else np.nan
        one = [calibration_error(reliability(s, u))[0], spearman, area]
        one.append(risk_coverage(s, 1 - u).mean())
        assert column == pytest.approx(one, abs=1e-12, nan_ok=True)

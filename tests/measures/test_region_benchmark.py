"""The region benchmark of BSDS500 on its own example."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from segmeter.core.errors import BadInput
from segmeter.datasets.image_files import read_values
from segmeter.measures.curves import covering
from segmeter.measures.partitions import FORMULAS
from segmeter.measures.tables import Comparison, compare

from .label_maps import annotations


def test_the_example_of_the_original_comes_out(golden: Path, real_data: Path) -> None:
    folder = golden / "seism"
    data = json.loads((folder / "bench5.json").read_text())
    swept = [
        [
            compare(annotations(real_data, str(image)), read_values(path))
            for path in sorted((folder / "bench5").glob(f"{image}_*.png"))
        ]
        for image in data["images"]
    ]
    images = [covering(comparisons) for comparisons in swept]
    wanted, coverable = data["region"], sum(p.coverable for p in images)
    covered = np.array([p.covered for p in images]) / coverable * len(images)
    pri, voi, of_prediction = (
        np.array([[formula(comparison) for comparison in image] for image in swept])
        for formula in (FORMULAS["pri"], FORMULAS["voi"], _prediction_covered)
    )
    tables = {"cover": covered, "pri": pri, "voi": -voi}
    for name, values in tables.items():
        means, sign = values.mean(axis=0), -1 if name == "voi" else 1
        assert sign * means.max() == pytest.approx(wanted[f"{name}_ods"]["value"], abs=1e-12)
        assert data["thresholds"][means.argmax()] == wanted[f"{name}_ods"]["thr"]
        ois = sign * values.max(axis=1).mean()
        assert ois == pytest.approx(wanted[f"{name}_ois"], abs=1e-12)
    best = sum(p.best for p in images) / coverable
    assert best == pytest.approx(wanted["cover_best"], abs=1e-12)
    each = wanted["per_image"]
    for name, mine in (
        ("cntR", [p.covered for p in images]),
        ("cntP", of_prediction),
        ("RI", pri),
        ("VOI", voi),
    ):
        np.testing.assert_allclose(mine, each[name], rtol=1e-12, err_msg=name)
    assert [p.coverable for p in images] == [row[0] for row in each["sumR"]]


def _prediction_covered(comparison: Comparison) -> float:
    """Area times best J over the regions of the prediction, whoever drew the other region."""
    tables = comparison.tables
    best = np.maximum.reduce([table.best_by_row(table.overlap) for table in tables])
    return float(tables[0].prediction_areas @ best)


def test_best_chooses_the_setting_of_every_region() -> None:
    """One setting finds the left region exactly, the other the right one."""
    ground_truth = np.array([[1, 1, 2, 2, 3, 3]])
    settings = [np.array([[1, 1, 2, 2, 2, 2]]), np.array([[1, 1, 1, 1, 2, 2]])]
    found = covering(compare(ground_truth, prediction) for prediction in settings)
    assert found.covered.max() == pytest.approx(2 + 1 + 1)
    assert found.best == pytest.approx(2 + 1 + 2)
    assert found.coverable == 6


def test_a_sweep_without_a_setting_is_refused() -> None:
    with pytest.raises(BadInput, match="at least one setting"):
        covering([])

"""Instance Dice and averages over datasets against the original's, in both protocols."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from segmeter.benchmarks.volumes.tables import averaged
from segmeter.benchmarks.volumes.work import published_case_dice, published_entries
from segmeter.core.masks import Mask
from segmeter.measures.objects import dice


def interval(ends: list[int] | None) -> Mask:
    """A run of voxels, as the golden cases have them."""
    return Mask.empty((60,)) if ends is None else Mask.box((60,), (ends[0],), (ends[1],))


def test_m3_instances_are_rematched_in_published_and_paired_in_corrected(golden: Path) -> None:
    wanted = json.loads((golden / "volumes" / "aggregation_instances.json").read_text())
    published, corrected = [], []
    for name, case in wanted["cases"].items():
        ground_truths = [interval(one["gt"]) for one in case["instances"]]
        predictions = [interval(one["pred"]) for one in case["instances"]]
        assert published_entries(ground_truths, predictions) == pytest.approx(
            case["published_entries"], abs=1e-6
        ), name
        published.append(published_case_dice(ground_truths, predictions))
        corrected.append(np.mean([*map(dice, ground_truths, predictions)]))
        assert published[-1] == pytest.approx(case["published_case_dice"], abs=1e-6), name
        assert corrected[-1] == pytest.approx(case["sound_case_dice"], abs=1e-6), name
    assert np.mean(published) == pytest.approx(wanted["published_dataset_lw_dice_mean"], abs=1e-6)
    assert np.median(published) == pytest.approx(
        wanted["published_dataset_lw_dice_median"], abs=1e-6
    )
    assert np.mean(corrected) == pytest.approx(wanted["sound_dataset"], abs=1e-4)


def test_the_papers_table_is_averaged_as_the_original_does(golden: Path) -> None:
    wanted = json.loads((golden / "volumes" / "aggregation_table.json").read_text())
    for row in wanted["expected"]:
        given = [
            (one["dataset"], one["mean_dice"])
            for one in wanted["input"]
            if one["model"] == row["Model"]
        ]
        found, average = averaged(given, ["D1", "D2", "D3", "D8"], "published")
        assert average == row["Average"]
        for dataset, value in found.items():
            expected = row[dataset]
            assert math.isnan(value) if expected is None else value == expected


def test_m32_a_row_that_lacks_a_data_set_has_no_average_in_corrected() -> None:
    given = [("D1", 0.2), ("D2", 0.6)]
    assert averaged(given, ["D1", "D2", "D5"], "published")[1] == 40.0
    assert math.isnan(averaged(given, ["D1", "D2", "D5"], "corrected")[1])
    assert averaged(given, ["D1", "D2"], "corrected")[1] == pytest.approx(40.0)

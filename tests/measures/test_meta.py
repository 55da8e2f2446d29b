"""Meta-measures: Table 2 and the 2013 table from stored scores, and both protocols."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmeter.benchmarks.seism.discrimination import MetaRow
from segmeter.core.errors import BadInput
from segmeter.measures.meta import (
    Sweep,
    against_baselines,
    against_swapped,
    densities,
    human_discrimination,
)
from segmeter.stats.intervals import Interval

METHODS = ("UCM", "EGB", "NCut", "MShift", "NWMC", "IIDKL")
Real = npt.NDArray[np.float64]


def human_scores(folder: Path, measure: str) -> tuple[Real, Real]:
    with (folder / "human_scores_test.csv").open() as file:
        rows = list(csv.DictReader(file))
    same = [float(row[measure]) for row in rows if row["pair"] == "same"]
    different = [float(row[measure]) for row in rows if row["pair"] != "same"]
    assert len(same) == len(different) == 1063
    return np.array(same), np.array(different)


def test_sihd_of_table_2_comes_out_twelve_of_twelve(golden: Path) -> None:
    folder = golden / "seism" / "meta"
    expected = json.loads((folder / "sihd_expected.json").read_text())["measures"]
    assert len(expected) == 12
    for measure, wanted in expected.items():
        found = human_discrimination(*human_scores(folder, measure))
        assert found.sihd == pytest.approx(wanted["sihd"], abs=1e-9)
        assert found.threshold == pytest.approx(wanted["threshold"], abs=1e-9)
        assert found.accuracy == pytest.approx(wanted["accuracy"], abs=1e-9)
        assert found.error_same == pytest.approx(wanted["error_same"], abs=1e-9)
        assert round(100 * found.sihd, 1) == wanted["table2_sihd"]


def test_sabd_and_sisd_of_2013_come_out_eleven_of_twelve(golden: Path) -> None:
    """F_r of the printed table does not follow from the stored scores."""
    folder = golden / "seism" / "meta"
    expected = json.loads((folder / "sabd_sisd_expected.json").read_text())["measures"]
    with (folder / "sabd_sisd_at_ods.csv").open() as file:
        rows = list(csv.DictReader(file))
    printed = 0
    for measure, wanted in expected.items():
        mine = [row for row in rows if row["measure"] == measure]

        def column(name: str, rows: list[dict[str, str]] = mine) -> Sweep:
            return Sweep(np.array([[float(row[name])] for row in rows]))

        methods = [column(name) for name in METHODS]
        sabd = against_baselines(methods, [column("QuadTree")]).mean()
        sisd = against_swapped(methods, [column(f"{name}_swapped") for name in METHODS]).mean()
        assert sabd == pytest.approx(wanted["sabd"], abs=1e-9)
        assert sisd == pytest.approx(wanted["sisd"], abs=1e-9)
        table = wanted["cvpr2013_table"]
        printed += [round(100 * sabd, 1), round(100 * sisd, 1)] == [table["sabd"], table["sisd"]]
    assert printed == 11


@pytest.mark.parametrize("measure", ["fop", "ssc", "nvoi"])
def test_every_method_is_taken_at_its_best_setting(golden: Path, measure: str) -> None:
    folder = golden / "seism" / "meta"
    expected = json.loads((folder / "sabd_sisd_expected.json").read_text())["measures"][measure]
    stored = np.load(folder / "method_scores_micro.npz")

    def sweep(name: str) -> Sweep:
        values = stored[f"{measure}__{name}"] / 1e6
        return Sweep(*np.moveaxis(values, -1, 0)) if values.ndim == 3 else Sweep(values)

    for name, wanted in expected["ods"].items():
        assert sweep(name).best_setting() == wanted["index"], name
    methods = [sweep(name) for name in METHODS]
    swapped = [sweep(f"{name}_swapped") for name in METHODS]
    sabd = against_baselines(methods, [sweep("QuadTree")]).mean()
    assert sabd == pytest.approx(expected["sabd"], abs=1e-9)
    assert against_swapped(methods, swapped).mean() == pytest.approx(expected["sisd"], abs=1e-9)
    # Chosen on the other images, the settings hardly move on two hundred of them.
    corrected = against_baselines(methods, [sweep("QuadTree")], "corrected").mean()
    assert corrected == pytest.approx(sabd, abs=0.02)


def test_ties_are_right_when_published_and_half_when_corrected() -> None:
    method, equal = Sweep(np.array([[0.5], [0.7]])), Sweep(np.array([[0.5], [0.1]]))
    assert against_baselines([method], [equal]).mean() == 1
    assert against_baselines([method], [equal], "corrected").mean() == 0.75
    assert against_swapped([method], [equal], "corrected").tolist() == [[0.5, 1]]


def test_corrected_settings_are_chosen_without_the_image_itself() -> None:
    """Setting 1 is best overall only because of the first image."""
    sweep = Sweep(np.array([[0.0, 1.0], [0.6, 0.5], [0.6, 0.5]]))
    assert sweep.best_setting() == 1
    assert sweep.best_elsewhere().tolist() == [0, 1, 1]
    assert sweep.at(sweep.best_elsewhere()).tolist() == [0.0, 0.5, 0.5]


def test_settings_may_come_from_other_data() -> None:
    first, second = (Sweep(np.array([row])) for row in ([1.0, 0.0], [0.0, 1.0]))
    values, baseline = np.array([[0.9, 0.1]]), Sweep(np.array([[0.5]]))
    method = Sweep(values, training=second)
    assert against_baselines([method], [baseline], "corrected").tolist() == [[0]]
    assert against_baselines([method], [baseline]).tolist() == [[1]]
    method, swapped = Sweep(values, training=first), Sweep(np.array([[0.0, 0.5]]))
    assert against_swapped([method], [swapped], "corrected").tolist() == [[1]]


@given(st.integers(0, 1000))
def test_a_distance_is_judged_like_its_complement(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Enough pairs for smooth densities: where they cross is what the two must agree on.
    same, different = rng.beta(6, 2, 2000), rng.beta(2, 6, 2000)
    near = human_discrimination(same, different)
    far = human_discrimination(1 - same, 1 - different)
    assert near.accuracy == pytest.approx(far.accuracy, abs=0.02)
    assert near.sihd > 0.5


def test_densities_integrate_to_one() -> None:
    rng = np.random.default_rng(3)
    found = densities(rng.uniform(0, 0.9, 500), rng.uniform(0.2, 0.6, 500))
    for density in (found.same, found.different):
        assert np.trapezoid(density, found.centres) == pytest.approx(1)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
)
def test_any_scores_give_rates_between_zero_and_one(
    same: list[float], different: list[float]
) -> None:
    found = human_discrimination(np.array(same), np.array(different))
    assert 0 <= found.error_same <= 1
    assert 0 <= found.error_different <= 1
    assert found.error_same + found.error_different <= 1 + 1e-12


def test_the_global_score_is_the_mean_of_three() -> None:
    three = (Interval(value, value, value) for value in (0.9, 0.6, 0.3))
    assert MetaRow("fop", "corrected", *three).overall == pytest.approx(0.6)


def test_scores_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(BadInput, match="finite"):
        human_discrimination(np.array([0.5, np.nan]), np.array([0.1]))

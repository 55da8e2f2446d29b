"""Click similarity against the reference values, plain loops and other tools."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from segmeter.core.errors import BadInput
from segmeter.measures import clicks
from segmeter.measures.clickability_maps import (
    ceiling,
    compare,
    compare_devices,
    compare_samples,
    draws,
    nss,
    pde,
)
from segmeter.measures.clicks import energy, ks_2d, pl1, wasserstein

Points = npt.NDArray[np.float64]

samples = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9)), min_size=2, max_size=14).map(
    lambda rows: np.array(rows, dtype=float)
)


def test_two_samples_agree_with_the_originals(golden: Path) -> None:
    cases = json.loads((golden / "clicks" / "similarity.json").read_text())["two_sample_cases"]
    for case in cases:
        a, b = (np.array(case[k], dtype=float)[:, ::-1] for k in "ab")
        sides = (case["object_height"], case["object_width"])
        test = ks_2d(a, b)
        assert pl1(a, b, sides) == pytest.approx(case["pl1"], abs=1e-12)
        assert wasserstein(a, b, sides) == pytest.approx(case["wd"], abs=1e-12)
        assert test.distance == pytest.approx(case["ks_D"], abs=1e-12)
        assert test.alike == bool(case["ks_indicator"])
        if case["ks_p"] is None or math.isnan(case["ks_p"]):
            assert math.isnan(test.p)
        else:
            assert test.p == pytest.approx(case["ks_p"], abs=1e-12)


def test_maps_agree_with_the_originals(golden: Path) -> None:
    cases = json.loads((golden / "clicks" / "similarity.json").read_text())["map_cases"]
    for case in cases:
        values = np.array(case["map"]).reshape(case["h"], case["w"])
        points = np.stack([case["clicks_y"], case["clicks_x"]], axis=1)
        sides = (case["object_height"], case["object_width"])
        first = draws(values, (100, len(points)), np.random.RandomState(42)).reshape(-1, 2)[:8]
        assert first[:, ::-1].tolist() == case["first_8_samples_seed42"]
        found = compare(points, values, sides, 42, "published")
        for name, expected in case["expected"].items():
            assert getattr(found, name) == pytest.approx(expected, abs=1e-12), (case["kind"], name)


@given(samples, samples)
def test_pl1_by_sorting_equals_the_loop_over_pairs(a: Points, b: Points) -> None:
    loop = np.mean([[abs(p[0] - q[0]) / 3 + abs(p[1] - q[1]) / 5 for q in b] for p in a])
    assert pl1(a, b, (3, 5)) == pytest.approx(loop, abs=1e-12)


@given(samples, samples)
def test_the_tree_counts_what_the_loop_counts(a: Points, b: Points) -> None:
    plain = clicks._plain_quadrants(a, b)
    assert clicks._quadrants(a, b).tolist() == plain.tolist()


@settings(max_examples=40, deadline=None)
@given(samples, samples)
def test_transport_equals_repeated_assignment_and_scipy(a: Points, b: Points) -> None:
    costs = np.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=2))
    way = clicks._transport(costs)
    assert way == pytest.approx(clicks._plain_transport(costs), abs=1e-9)
    assert way == pytest.approx(stats.wasserstein_distance_nd(a, b), abs=1e-7)


@given(samples, samples)
def test_distances_do_not_care_which_sample_comes_first(a: Points, b: Points) -> None:
    assert wasserstein(a, b) == pytest.approx(wasserstein(b, a), abs=1e-9)
    assert energy(a, b) == pytest.approx(energy(b, a), abs=1e-9)
    assert ks_2d(a, b).distance == pytest.approx(ks_2d(b, a).distance, abs=1e-12)


@given(samples)
def test_a_sample_is_like_itself(a: Points) -> None:
    assert wasserstein(a, a) == 0
    distance = ks_2d(a, a).distance
    assert distance == pytest.approx(1 / len(a), abs=1e-12)


def test_energy_is_zero_on_average_for_one_law_and_positive_for_two() -> None:
    rng = np.random.default_rng(3)
    same = [energy(*rng.normal(size=(2, 20, 2))) for _ in range(400)]
    assert abs(np.mean(same)) < 3 * np.std(same) / 20
    apart = [energy(rng.normal(size=(20, 2)), rng.normal(1, 1, (20, 2))) for _ in range(50)]
    assert min(apart) > 0


def test_a_coordinate_that_does_not_vary_has_no_p_value() -> None:
    line = np.array([(3.0, k) for k in range(6)])
    assert math.isnan(ks_2d(line, line + 1).p)
    assert not ks_2d(line, line + 1).alike


def test_corrected_scores_do_not_depend_on_the_size_of_the_image() -> None:
    small = np.zeros((40, 40))
    small[10:20, 10:20] = 1
    large = np.kron(small, np.ones((4, 4)))
    points = np.array([(12, 13), (18, 11), (30, 30)])
    assert pde(points, small) == pytest.approx(2 / 3)
    assert pde(points * 4, large) == pytest.approx(2 / 3)
    assert nss(points * 4, large) == pytest.approx(nss(points, small))
    assert pde(points * 4, large, "published") < pde(points, small, "published") / 10


def test_a_flat_map_scores_zero_and_an_empty_one_is_refused() -> None:
    assert nss([(1, 1)], np.ones((4, 4))) == 0
    with pytest.raises(BadInput, match="positive mass"):
        pde([(1, 1)], np.zeros((4, 4)))
    with pytest.raises(BadInput, match="n x 2"):
        pl1([1, 2, 3], [(1, 2)])
    with pytest.raises(BadInput, match="not a number"):
        pl1([(1, math.nan)], [(1, 2)])


def test_people_agree_with_people_up_to_the_ceiling() -> None:
    rng = np.random.default_rng(5)
    points = rng.normal(50, 10, (80, 2))
    top = ceiling(points, (60, 60), rng)
    assert top.ks > 0.8
    assert top.energy is not None
    assert abs(top.energy) < 0.02


def test_desks_against_telephones_has_the_published_fault_and_ours_not() -> None:
    rng = np.random.default_rng(7)
    pc, mobile = rng.normal((20, 90), 5, (30, 2)), rng.normal((20, 90), 5, (30, 2))
    wrong = compare_devices(pc, mobile, (40, 60), "published")
    right = compare_devices(pc, mobile, (40, 60))
    columns = np.stack([pc[:, 1], pc[:, 1]], axis=1)
    assert wrong.wd == pytest.approx(wasserstein(columns, mobile, (40, 60)))
    assert wrong.wd > 10 * right.wd
    assert wrong.ks == right.ks == 1
    assert right == compare_samples(pc, mobile, (40, 60))
    assert compare_samples(pc, mobile, (40, 60), "published").energy is None

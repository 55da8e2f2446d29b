"""Clickability maps and clicking groups: reference values, plain twins, exact tenths."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage

from segmeter.clickability import groups
from segmeter.clickability.groups import draw_corrected, draw_published, limits, share_of_group
from segmeter.clickability.maps import (
    ClickabilityMap,
    blurred_clicks,
    distance,
    from_clicks,
    jittered,
    soft_error_region,
    uniform,
)
from segmeter.core.error_regions import deepest, error_regions
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.scenes import Target

Weights = npt.NDArray[np.float32]
# Few levels make many ties.
weights = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 14), st.integers(1, 14)),
    elements=st.sampled_from([0.0, 0.0, 0.1, 0.25, 0.3, 0.7, 1.0]),
)


def test_maps_from_clicks_agree_with_the_originals(golden: Path) -> None:
    cases = json.loads((golden / "clicks" / "maps.json").read_text())["clickability"]
    for case in cases:
        h, w = case["h"], case["w"]
        y, x = np.mgrid[:h, :w]
        mask = ((y - 0.5 * h) / (0.3 * h)) ** 2 + ((x - 0.45 * w) / (0.3 * w)) ** 2 < 1
        dots = blurred_clicks(case["clicks"], (h, w), case["sigma0"])
        soft = soft_error_region(mask.astype(np.float32), "published")
        whole = from_clicks(case["clicks"], Mask.of(mask), case["sigma0"]).dense()
        for array, name in ((dots, "gauss_sum"), (soft, "soft_sum"), (whole, "sum")):
            assert array.sum(dtype=float) == pytest.approx(case[name], rel=1e-6)
        for row, column, *expected in case["probe"]:
            found = [a[row, column] for a in (dots, soft, whole)]
            assert found == pytest.approx(expected, abs=1e-6)


def test_the_corrected_map_of_clicks_sums_to_one() -> None:
    mask = Mask.box((60, 80), (10, 10), (50, 70))
    assert from_clicks(
        [(20, 20), (30, 30)], mask, protocol="corrected"
    ).dense().sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("plain", [False, True])
def test_published_groups_agree_with_the_originals(
    golden: Path, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if plain:
        monkeypatch.setattr(groups, "compiled", None)
    for case in json.loads((golden / "clicks" / "groups.json").read_text())["maps"]:
        for group in case["groups"]:
            assert _three_clicks(case, group["group"]) == group["clicks_seed42"], case["name"]
            if case["name"] != "zero_map":
                _check_band(case, group)


def _three_clicks(case: dict[str, Any], group: int) -> list[list[Any]]:
    """Three rounds on an unchanged prediction, by the legacy generator seeded 42."""
    values, target, prediction = _arrays(case)
    legacy = np.random.RandomState(42)
    done: list[tuple[int, ...]] = []
    rows = []
    for _ in range(3):
        parts = error_regions(target, prediction)
        false_negatives, false_positives = (deepest(part, done) for part in parts)
        positive = false_negatives.squared > false_positives.squared
        map = ClickabilityMap.of(values).on(parts[0] if positive else parts[1]).without(done)
        point = None
        if map.weights.any():
            point = draw_published(map, share_of_group(group), legacy.random_sample())
        point = point or (false_negatives if positive else false_positives).point
        assert point is not None
        done.append(point)
        rows.append([*point, positive])
    return rows


def _check_band(case: dict[str, Any], group: dict[str, Any]) -> None:
    values, target, prediction = _arrays(case)
    false_negatives, false_positives = error_regions(target, prediction)
    positive = deepest(false_negatives).squared > deepest(false_positives).squared
    map = ClickabilityMap.of(values).on(false_negatives if positive else false_positives)
    low, high = limits(map, share_of_group(group["group"]))
    whole = map.dense()
    kept = (whole >= np.float32(low)) & (whole <= np.float32(high)) & (whole > 0)
    assert kept.sum() == group["band_pixels"][0]
    assert whole[kept].sum() / whole.sum() == pytest.approx(group["band_mass_share_round1"], 1e-5)
    if group["band_round1"] is not None:
        assert np.flatnonzero(kept).tolist() == group["band_round1"]


def _arrays(case: dict[str, Any]) -> tuple[Weights, Target, Mask]:
    shape = (case["h"], case["w"])
    values = np.array(case["map"], dtype=np.float32).reshape(shape)
    ground_truth = np.array(case["target"]).reshape(shape)
    ignore = Mask.of(ground_truth == -1) if (ground_truth == -1).any() else None
    prediction = Mask.of(np.array(case["prediction"]).reshape(shape))
    return values, Target("1", Mask.of(ground_truth == 1), ignore), prediction


@given(weights, st.integers(1, 10), st.floats(0, 0.999))
def test_published_draws_in_the_box_equal_the_whole_image(
    box: Weights, group: int, drawn: float
) -> None:
    map = ClickabilityMap((40, 37), (11, 9), box)
    share = share_of_group(group)
    pixels = 40 * 37
    assert limits(map, share) == groups._plain_limits(box, pixels, *share)
    if box.any():
        place = groups._plain_draw_between(box, (40, 37, 11, 9), limits(map, share), drawn)
        assert draw_published(map, share, drawn) == groups._point(map, place)


def test_published_limits_equal_the_whole_sort_where_float32_rounds() -> None:
    rng = np.random.default_rng(1)
    box = rng.random((300, 500), dtype=np.float32) ** 3
    box[rng.random(box.shape) < 0.3] = 0
    map = ClickabilityMap((700, 900), (100, 200), box)
    for group in (1, 4, 10):
        share = share_of_group(group)
        assert limits(map, share) == groups._plain_limits(box, 700 * 900, *share)
        place = groups._plain_draw_between(box, (700, 900, 100, 200), limits(map, share), 0.37)
        assert draw_published(map, share, 0.37) == groups._point(map, place)


@given(weights, st.integers(1, 10), st.floats(0, 0.999), st.integers(0, 2**63))
def test_corrected_draws_equal_the_plain_sort(
    box: Weights, group: int, drawn: float, seed: int
) -> None:
    _check_corrected(box, share_of_group(group), drawn, seed)


@pytest.mark.parametrize("levels", [1, 2, 40, 10**6])
@pytest.mark.parametrize("spread", [1.0, 2.0**-9])  # the lesser: all values share leading bits
def test_corrected_draws_from_large_maps_equal_the_plain_sort(levels: int, spread: float) -> None:
    rng = np.random.default_rng(levels)
    box = (1 + spread * rng.integers(0, levels, (210, 250)) / levels).astype(np.float32)
    box[rng.random(box.shape) < 0.2] = 0
    for drawn in (0.0, 0.2, 0.63, 0.999999):
        _check_corrected(box, share_of_group(0), drawn, seed=11)
        _check_corrected(box, share_of_group(8), drawn, seed=12)


def _check_corrected(box: Weights, share: tuple[float, float], drawn: float, seed: int) -> None:
    map = ClickabilityMap((box.shape[0], box.shape[1]), (0, 0), box)
    low, high = share
    plain = groups._plain_at_share(box, low + drawn * (high - low), seed)
    found = draw_corrected(map, (low, high), drawn, seed)
    expected = groups._point(map, plain)
    if found != expected:  # sums in another order may round to the neighbour, of the same mass
        order = groups._order(box, seed).tolist()
        assert found is not None
        place = found[0] * box.shape[1] + found[1]
        assert abs(order.index(place) - order.index(plain)) == 1


def test_each_corrected_group_holds_exactly_a_tenth() -> None:
    rng = np.random.default_rng(2)
    box = rng.random((9, 13), dtype=np.float32)
    map = ClickabilityMap((9, 13), (0, 0), box)
    expected = box.astype(float) / box.sum(dtype=float)
    seen = np.zeros(box.shape)
    steps = (np.arange(4000) + 0.5) / 4000
    for group in range(1, 11):
        for drawn in steps:
            point = draw_corrected(map, share_of_group(group), float(drawn), 5)
            assert point is not None
            seen[point] += 1
    assert np.abs(seen / seen.sum() - expected).max() < 1e-4


def test_groups_of_a_flat_map_are_spread_by_hash_not_by_row() -> None:
    map = uniform(Mask.box((40, 40), (0, 0), (40, 40)))
    rows = [draw_corrected(map, share_of_group(1), u, 9) for u in np.linspace(0, 0.99, 80)]
    heights = [point[0] for point in rows if point]
    assert min(heights) < 8
    assert max(heights) > 31


def test_group_labels_hold_a_tenth_each() -> None:
    map = distance(Mask.box((50, 70), (5, 5), (45, 65)))
    labels = groups.group_of_pixels(map, 3)
    masses = [map.weights[labels == g].sum() / map.weights.sum() for g in range(1, 11)]
    assert masses == pytest.approx([0.1] * 10, abs=0.002)
    means = [map.weights[labels == g].mean() for g in range(1, 11)]
    assert means == sorted(means)
    docs = Path(__file__).parents[2] / "docs"
    pages = (
        (docs / name).read_text("utf-8") for name in ("clickability.md", "benchmarks/rclicks.md")
    )
    for page in pages:
        said = " ".join(page.split())
        assert re.search(r"least (clickable|likely)[^()]*\(G1\) to the most[^()]*\(G10\)", said)


def test_the_border_counts_as_an_edge_only_when_corrected() -> None:
    touching = Mask.box((20, 30), (0, 0), (10, 30))
    top = distance(touching, "published").weights
    assert top[0, 15] == 1
    assert distance(touching, "corrected").weights[0, 15] < 0.3


def test_bad_maps_and_groups_are_refused() -> None:
    with pytest.raises(BadInput, match="none below zero"):
        ClickabilityMap.of(np.array([[0.5, -1.0]]))
    with pytest.raises(BadInput, match="no clicking group 11"):
        share_of_group(11)
    with pytest.raises(BadInput, match="at least one click"):
        from_clicks([], np.ones((4, 4), np.float32))
    empty = ClickabilityMap.of(np.zeros((3, 3)))
    assert draw_corrected(empty, (0, 1), 0.5, 1) is None
    assert draw_published(empty, (0, 1), 0.5) is None


@given(hnp.arrays(bool, (24, 31)), st.floats(0.5, 40))
def test_within_reach_is_a_matter_of_distance(inside: np.ndarray, reach: float) -> None:
    assume(inside.any())
    away = ndimage.distance_transform_edt(~inside)
    assume(not np.isclose(away, reach, atol=1e-3).any())
    moved = jittered(np.ones(inside.shape, np.float32), inside, sigma_px=50.0, reach_px=reach)
    assert np.array_equal(moved > 0, away <= reach)

"""Calibrating the prior: known numbers come back, real tables agree with real masks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.clickability.fitting.correction_clicks import (
    ProxyError,
    Recovered,
    fit_correction_clicks,
    read_proxy_errors,
    recover,
    recovered,
    write_proxy_errors,
)
from segmeter.clickability.fitting.first_clicks import (
    Case,
    ExpectedStatistics,
    Fit,
    KeyStatistics,
    _apart,
    _running,
    expect,
    fit,
    read_cases,
    read_masks,
    read_tables,
    shape_of,
)
from segmeter.clickability.fitting.held_out import (
    charts_of,
    charts_of_later,
    held_out,
    markdown,
    prior_json,
)
from segmeter.clickability.maps import Numbers, distance, prior, shipped, table, uniform
from segmeter.core import catalogue
from segmeter.core.errors import BadInput, NotFound
from segmeter.core.masks import Mask
from segmeter.measures.clickability_maps import draws
from segmeter.report.figures import draw_charts

KNOWN = Numbers(2.0, 0.25, 0.4, 0.008)


@pytest.fixture(scope="module")
def masks() -> list[Mask]:
    data = catalogue.datasets.make("mini")
    found = [target.mask for name in data.scenes() for target in data.load(name).targets]
    return [mask for mask in found if mask.area > 400]


def _seen(mask: Mask, numbers: Numbers, noise: float = 0.0, kind: str = "first") -> KeyStatistics:
    """What the tables would hold if people followed a prior, on a mask."""
    predicted = expect(shape_of(mask), numbers)
    pixels = math.prod(mask.shape)
    even = math.sqrt(1 / (mask.area * pixels) - 1 / pixels**2) + 1e-9
    pde = predicted.inside / mask.area
    return KeyStatistics(
        "x",
        kind,
        (pde - 1 / pixels) / even,
        pde,
        predicted.pl1_uniform * (1 + noise / 20),
        predicted.nss,
        predicted.gain * (1 + noise) / mask.area,
        predicted.pl1_depth,
    )


@pytest.fixture(scope="module")
def cases(masks: list[Mask]) -> list[Case]:
    rng = np.random.default_rng(1)
    return [Case(m, shape_of(m), _seen(m, KNOWN, 0.03 * rng.standard_normal())) for m in masks[::2]]


@pytest.fixture(scope="module")
def fitted(cases: list[Case]) -> Fit:
    return fit(cases)


def test_known_numbers_come_back_within_their_intervals(fitted: Fit) -> None:
    for name in ("depth", "spread", "sloppy", "jitter"):
        low, high = fitted.interval(name)
        slack = 1.25  # the noise here is smaller than 48 clicks would have
        assert low / slack < getattr(KNOWN, name) < high * slack, name
    assert fitted.numbers.depth == pytest.approx(KNOWN.depth, rel=0.1)


def test_a_number_that_few_clicks_leave_open_has_a_wide_and_finite_interval() -> None:
    open_ended = Fit(KNOWN, Numbers(1e6, 0.1, 0.1, 0.1), 1.0, 1.0, 1.0, 2)
    low, high = open_ended.interval("depth")
    assert 0 < low < 1e-9
    assert 1e9 < high < math.inf
    assert json.loads(prior_json([], open_ended, None))["first"]["depth"]["high"] == 2e12


def expect_exactly(mask: Mask, numbers: Numbers) -> ExpectedStatistics:
    """A prior's statistics pixel by pixel, as the published tables define them."""
    map = prior(mask, numbers)
    baselines = uniform(mask).dense(), distance(mask, "published").dense()
    chance = map.dense().astype(np.float64)
    chance /= chance.sum()
    density = baselines[1] / (float(baselines[1].sum(dtype=np.float64)) + 1e-9)
    nss = (float((chance * density).sum()) - density.mean()) / (density.std() + 1e-9)
    inside = float(chance[mask.window][mask.bits].sum())
    apart = [pl1(chance, b / b.sum(dtype=np.float64), mask.bits.shape) for b in baselines]
    return ExpectedStatistics(
        inside, float((chance * density).sum()) * mask.area, float(nss), apart[0], apart[1]
    )


def pl1(clicks: Any, others: Any, sides: tuple[int, ...]) -> float:
    return _apart(_running(clicks), _running(others), 1, sides)


def test_the_grid_foretells_what_pixels_do(masks: list[Mask]) -> None:
    pairs = [(expect(shape_of(m), KNOWN), expect_exactly(m, KNOWN)) for m in masks[::3]]
    for name in ("nss", "gain", "inside", "pl1_uniform", "pl1_depth"):
        quick, exact = np.array(
            [[getattr(predicted, name) for predicted in pair] for pair in pairs]
        ).T
        assert quick == pytest.approx(exact, rel=0.06), name
        assert quick.mean() == pytest.approx(exact.mean(), rel=0.015), name


def test_foretold_statistics_are_those_of_drawn_clicks(masks: list[Mask]) -> None:
    mask = masks[0]
    map = prior(mask, KNOWN).dense()
    points = draws(map, (40_000,), np.random.default_rng(2)).astype(int)
    inside = mask.dense()[points[:, 0], points[:, 1]].mean()
    assert expect_exactly(mask, KNOWN).inside == pytest.approx(inside, abs=0.01)


def test_clicks_leak_over_the_edge_but_not_far(masks: list[Mask]) -> None:
    import cv2

    mask = min(masks, key=lambda m: m.area)
    map = prior(mask, Numbers(1.0, 0.5, 1.0, 0.01)).dense()
    away = cv2.distanceTransform((~mask.dense()).astype(np.uint8), cv2.DIST_L2, 0)
    assert map[away > 0].sum() > 0.01 * map.sum()
    assert map[away > 0.01 * math.hypot(*mask.shape) + 1].sum() == 0


def test_held_out_tables_have_observed_and_predicted_values(
    cases: list[Case], fitted: Fit, tmp_path: Path
) -> None:
    held = held_out("mini", cases, fitted)
    assert held.correlation("nss") > 0.99
    assert held.error("pde") < held.baselines["uniform"]["pde"] / 5
    assert held.covered > 0.9
    text = markdown([held], fitted, None)
    assert f"| mini | {held.seen['nss'].mean():.3f} | {held.predicted['nss'].mean():.3f} |" in text
    numbers = json.loads(prior_json([held], fitted, None))
    assert numbers["first"]["depth"]["low"] < numbers["first"]["depth"]["high"]
    for name in ("nss", "pde"):
        draw_charts(charts_of([held], name), tmp_path / "chart.png")
        assert (tmp_path / "chart.png").stat().st_size > 2000


def test_size_and_leak_of_a_mistake_come_back_from_the_uniform_row(masks: list[Mask]) -> None:
    mask = masks[3]
    seen = _seen(mask, KNOWN, kind="fn")
    found = recover(seen, math.prod(mask.shape))
    assert found is not None
    assert found.share == pytest.approx(mask.area / math.prod(mask.shape), rel=1e-3)
    assert found.inside == pytest.approx(expect(shape_of(mask), KNOWN).inside, rel=1e-3)
    (same,) = recovered([_named(seen, "21077_a_ritm_fn")], {"21077": 1, "21077_a": _pixels(mask)})
    assert same == found
    with pytest.raises(BadInput, match="no available image"):
        recovered([_named(seen, "other_fn")], {"21077": 1})


def _pixels(mask: Mask) -> int:
    return math.prod(mask.shape)


def _named(seen: KeyStatistics, key: str) -> KeyStatistics:
    from dataclasses import replace

    return replace(seen, key=key)


def test_later_rounds_find_the_numbers_that_made_their_distributions(
    masks: list[Mask], tmp_path: Path
) -> None:
    small = [m for m in masks if m.area < 20_000][:5]
    proxy_errors = [
        ProxyError(f"mini/{i}", kind, mask, (mask.bits.shape[0], mask.bits.shape[1]))
        for i, mask in enumerate(small)
        for kind in ("fn", "fp")
    ]
    ground_truth = Numbers(1.2, 0.5, 0.6, KNOWN.jitter)
    keys = []
    for s in proxy_errors:
        predicted = expect(shape_of(s.mask, s.sides), ground_truth)
        nearer = predicted.pl1_depth / predicted.pl1_uniform
        keys += [Recovered(s.kind, s.share, predicted.inside, predicted.gain, nearer)] * 5
    found = fit_correction_clicks(keys, proxy_errors, KNOWN)
    assert found.apart("gain") < 0.3
    assert abs(found.numbers.depth - ground_truth.depth) < abs(KNOWN.depth - ground_truth.depth) / 2
    draw_charts(charts_of_later(found), tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 2000
    write_proxy_errors(tmp_path / "kept.json.gz", proxy_errors)
    assert read_proxy_errors(tmp_path / "kept.json.gz") == proxy_errors
    with pytest.raises(BadInput, match="both kinds"):
        fit_correction_clicks(keys, [s for s in proxy_errors if s.kind == "fn"], KNOWN)


def test_real_tables_fit_real_masks(golden: Path, real_data: Path) -> None:
    """Uniform density times area is the share of clicks inside: never above one."""
    seen = read_tables(golden / "rclicks" / "DAVIS_per_image.csv")
    masks = read_masks(real_data / "masks_only" / "DAVIS.json.gz")
    first = [row for row in seen if row.kind == "first"][::15]
    found = read_cases(first, masks)
    inside = np.array([case.inside for case in found])
    assert len(found) == 23
    assert inside.max() <= 1
    assert inside.mean() > 0.95
    predicted = [expect(case.shape, shipped("first")) for case in found]
    nss = np.array([[case.seen.nss_depth for case in found], [t.nss for t in predicted]])
    assert np.corrcoef(nss)[0, 1] > 0.9
    assert nss.mean(axis=1) == pytest.approx(nss[0].mean(), rel=0.08)


def test_the_shipped_numbers_are_within_their_intervals() -> None:
    for of_round in table().values():
        for entry in of_round.values():
            assert entry["low"] <= entry["value"] <= entry["high"]
    assert shipped("first") != shipped("later")


def test_wrong_tables_and_masks_are_refused(masks: list[Mask], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("full_stem,model_name\n")
    with pytest.raises(BadInput, match="no column 'click_type'"):
        read_tables(tmp_path / "a.csv")
    head = "full_stem,model_name,click_type,l1,nss,pde\n"
    (tmp_path / "b.csv").write_text(head + "x,ud,first,1,no,2\n")
    with pytest.raises(BadInput, match="row 2"):
        read_tables(tmp_path / "b.csv")
    seen = _seen(masks[0], KNOWN)
    with pytest.raises(NotFound, match="no mask of it"):
        read_cases([seen], {})
    whole = Mask.box(masks[0].shape, (0, 0), masks[0].shape)
    with pytest.raises(BadInput, match="larger than the table allows"):
        read_cases([seen], {"x": whole})
    (tmp_path / "kept.json.gz").write_bytes(b"no gzip")
    with pytest.raises(BadInput, match="no error regions of models"):
        read_proxy_errors(tmp_path / "kept.json.gz")


def test_the_page_shows_the_numbers_that_ship() -> None:
    page = (Path(__file__).parents[2] / "docs" / "clickability.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("| none (95 %")]
    for name, cell in zip(
        ("depth", "spread", "sloppy", "jitter"), row.split("|")[3:7], strict=True
    ):
        assert float(cell.split()[0]) == getattr(shipped("first"), name)
    later = shipped("later")
    assert f"depth {later.depth:.3g} (" in page
    assert f"spread {later.spread:.3g} (" in page

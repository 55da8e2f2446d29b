"""Simulated people fill a study; its files and pages say what they did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from segmeter.clickability.click_files import display_modes
from segmeter.clickability.fitting.first_clicks import cases_of
from segmeter.core.error_regions import deepest
from segmeter.core.masks import Mask
from segmeter.core.sections import Table
from segmeter.core.seeds import generator
from segmeter.datasets.mini import Mini
from segmeter.datasets.recorded_clicks import read_clicks
from segmeter.stats.annotation_time import CostModel
from segmeter.stats.intervals import Resampling
from segmeter.store import Run
from segmeter.study import database as db
from segmeter.study.analyses import study_page
from segmeter.study.analyses.clicking import _distances, centre_distances
from segmeter.study.analyses.interacting import _comparison, paired_differences
from segmeter.study.analyses.rating import compare_models
from segmeter.study.exports import export, rating_rows, step_rows
from segmeter.study.interactions import (
    Interaction,
    Simulated,
    fit_costs,
    interactions,
    simulate_users,
    write_run,
)
from segmeter.study.people import draw_clicks, fill_with_people
from segmeter.study.plan import read_plan
from segmeter.study.running import RunningStudy
from segmeter.study.server import default_url, open_study

CLICKS = """
kind = "clicks"
title = "Clicks"
[data]
scenes = ["coffee", "rocket"]
[design]
modes = ["Text_Description", "Object_CutOut"]
per_cell = 2
batch = 2
open_to_all = true
[validity]
exclude = ["late", "left_page", "unseen", "wrong_device", "no_click"]
"""
RATE = """
kind = "rate"
title = "Ratings"
[data]
scenes = ["coffee", "rocket", "astronaut"]
[design]
open_to_all = true
batch = 4
[validity]
exclude = ["late", "left_page", "unseen", "wrong_device", "no_click"]
exclude_people = ["flagged", "checks", "straight_lining", "disagrees"]
[rating]
overlap = 0.5
[[masks]]
name = "ground_truth"
[[masks]]
name = "boxes"
source = "folder"
folder = "boxes"
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStudy]:
    folder = tmp_path_factory.mktemp("clicks")
    (folder / "plan.toml").write_text(CLICKS)
    study = open_study(read_plan(folder / "plan.toml"), default_url(folder / "plan.toml"))
    fill_with_people(study)
    yield study
    study.database.engine.dispose()


def test_every_cell_is_full_and_none_is_overfull(filled: RunningStudy) -> None:
    with filled.database.snapshot() as connection:
        cells = connection.execute(sa.select(db.cells)).mappings().all()
    assert {(cell["valid"], cell["open"]) for cell in cells} == {(2, 0)}


def test_the_files_are_read_by_everything_that_reads_clicks(
    filled: RunningStudy, tmp_path: Path
) -> None:
    with filled.database.snapshot() as connection:
        export(connection, filled.plan, filled.stimuli, tmp_path)
    clicks = read_clicks(tmp_path / "clicks.csv", {"mini": Mini().scenes()})
    targets = list(filled.stimuli.targets())
    assert len(clicks) == 2 * 2 * 2 * len(targets)
    assert clicks.mobile.mean() == 0.5
    assert {case.clicks for case in cases_of(clicks, {"mini": Mini()})} == {8}
    rows = display_modes(read_clicks(tmp_path / "previews.csv"), lambda key: (100.0, 100.0))
    assert {row.what for row in rows} == {"Object_CutOut", "Text_Description (halves)"}


def test_the_page_holds_the_papers_tables(filled: RunningStudy) -> None:
    with filled.database.snapshot() as connection:
        page = study_page(connection, filled.plan, filled.stimuli)
    for heading in ("Display modes", "Computer against phone", "Where participants clicked"):
        assert heading in page
    assert "in astronaut, 1 clicks" not in page
    assert "Excluded by rules that do not use the condition: 0 of " in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_clicks_of_simulated_people_follow_the_click_model() -> None:
    mask = Mask.box((200, 200), (60, 40), (140, 160))
    points = np.array(draw_clicks(mask, 2000, generator("test")))
    inside = ((points >= (60, 40)) & (points < (140, 160))).all(axis=1)
    assert 0.9 < inside.mean() <= 1
    assert np.abs(points.mean(axis=0) - (100, 100)).max() < 3


def test_ratings_are_compared_as_the_supplement_does(
    begin: Callable[..., RunningStudy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cv2

    monkeypatch.setattr(
        "segmeter.study.people._AT_ONCE", 1
    )  # one after the other: the same ratings each time
    (tmp_path / "boxes").mkdir()
    data = Mini()
    for scene in ("coffee", "rocket", "astronaut"):
        for target in data.load(scene).targets:
            box = Mask.box(target.mask.shape, target.mask.low, target.mask.high)
            name = str(tmp_path / "boxes" / f"{scene}_{target.id}.png")
            cv2.imwrite(name, box.dense().astype(np.uint8) * 255)
    study = begin(RATE)
    fill_with_people(study)
    with study.database.snapshot() as connection:
        rows = list(rating_rows(connection, study.plan))
        page = study_page(connection, study.plan, study.stimuli)
    (found,) = compare_models(rows)
    assert (found.mixed.first, found.mixed.second) == ("boxes", "ground_truth")
    assert found.paired.mean < 0
    assert found.by_images.value == pytest.approx(found.paired.mean)
    assert found.by_images.low <= found.by_images.value <= found.by_images.high
    assert found.mixed.value == pytest.approx(found.paired.mean, abs=0.5)
    (counted,) = compare_models([r for r in rows if r["role"] == "person" and not r["excluded"]])
    sure = "significantly above" if counted.mixed.p < 0.05 else "but the lead is not significant"
    assert f" of 10, {sure}" in page
    for words in ("Krippendorff", "paired t-test", "Wilcoxon", "Testers checked", "ICC(2,1)"):
        assert words in page


def test_people_with_a_model_become_a_run_and_a_cost_model(
    begin: Callable[..., RunningStudy], visit: Any, tmp_path: Path
) -> None:
    study = begin(
        'kind = "interact"\n[data]\nscenes = ["coffee"]\n[design]\nmodels = ["disc"]\n'
        'rounds = 3\nbatch = 1\npeople = "within"\nopen_to_all = true\n'
        '[validity]\nexclude = ["no_click"]'
    )
    for first, later in ((2600.0, 1400.0), (2400.0, 1600.0)):
        person = visit(study).join()
        (trial,) = person.batch()["trials"]
        for number, ms in ((1, first), (2, later)):
            step = {"number": number, "x": 90.5 + number, "y": 80.5, "positive": True}
            step |= {"user_ms": ms, "pointer": "mouse"}
            assert person.post(f"/api/trials/{trial['id']}/steps", step).status_code == 200
        timed = [{"planned_ms": 1000 * s["seconds"]} for s in trial["screens"][:-1]]
        screens = [{**each, "true_ms": each["planned_ms"]} for each in timed]
        done = {"nonce": "0" * 16, "accepted": True, "review_ms": 500.0}
        done |= {"screens": screens, "focus_lost": False}
        assert person.post(f"/api/trials/{trial['id']}", done).status_code == 200
    with study.database.snapshot() as connection:
        found = interactions(connection, study.plan)
        beside = simulate_users(found, study.plan, study.stimuli, ["centre-click"])
        page = study_page(connection, study.plan, study.stimuli, beside)
        steps = list(step_rows(connection, study.plan))
    costs = fit_costs(found)
    write_run(found, beside, study.plan, study.stimuli, tmp_path / "run")
    assert "Participants and simulated users on the same objects" in page
    assert "on the same objects, not tested: 1 image, 6 needed." in page
    codes = {each.person for each in found}
    assert len(codes) == 2
    assert {row["person"] for row in steps} == codes
    assert all(0 <= row["iou"] <= 1 and row["user_ms"] > 0 for row in steps)
    prices = {name: price.value for name, price in costs.prices.items()}
    assert prices == pytest.approx({"locate": 1.0, "click": 1.5, "review": 0.5})
    assert (costs.steps["click"], costs.annotators) == (4, 2)
    (tmp_path / "costs.toml").write_text(costs.toml())
    assert CostModel.read(tmp_path / "costs.toml") == CostModel(locate=1.0, click=1.5, review=0.5)
    run = Run.open(tmp_path / "run")
    rows = run.sql('select "user", round, stopped, seconds_user, iou from rows').to_pylist()
    people = [row for row in rows if row["user"] in codes]
    assert {row["user"] for row in rows} == {*codes, "centre-click"}
    assert len(people) == 2 * 3
    assert [row["stopped"] for row in people if row["round"] == 3] == [True, True]
    assert sorted(row["seconds_user"] for row in people if row["round"] == 1) == [2.4, 2.6]
    assert any(row.statistic == "noc@90" for row in run.summary())


def test_two_modes_are_compared_without_a_text_description(
    begin: Callable[..., RunningStudy],
) -> None:
    """The first mode is the reference; a study on one device has no section about devices."""
    text = CLICKS.replace("Text_Description", "Silhouette_Mask").replace(
        "per_cell = 2", "per_cell = 4"
    )
    text = text.replace(', "rocket"', "")
    study = begin(text.replace("batch = 2", 'batch = 2\ndevices = ["pc"]'))
    fill_with_people(study)
    with study.database.snapshot() as connection:
        page = study_page(connection, study.plan, study.stimuli)
    assert "Each display mode against Silhouette_Mask" in page
    assert "Not enough clicks" not in page
    assert "Computer against phone" not in page
    assert "no mode can come closer" not in page
    assert "object diagonals" in page


def simulated_sessions(seed: int, gap: float) -> tuple[list[Interaction], list[Simulated]]:
    """30 images with one object each, segmented by three of nine people and by one robot."""
    rng = np.random.default_rng(seed)
    people, robots = [], []
    for scene in range(30):
        own, shift = rng.normal(0.8, 0.05), rng.normal(gap, 0.04)
        rounds = [SimpleNamespace(scores={"iou": own})]
        robots.append(Simulated("robot", f"s{scene}", "t", "m", SimpleNamespace(rounds=rounds), 0))  # type: ignore[arg-type]  # of a trajectory only scores are read
        for person in rng.permutation(9)[:3]:
            value = own + shift + rng.normal(0, 0.03)
            step = {"scores": {"iou": value}, "user_ms": 900.0, "model_ms": 30.0}
            named = (f"p{person}", "pc", f"s{scene}", "t", "m")
            people.append(Interaction(*named, True, 500.0, (step,)))
    return people, robots


def test_a_known_difference_to_a_simulated_user_is_within_its_interval() -> None:
    """Means are NumPy's; 95 % intervals cover the truth in 200 studies."""
    covered = []
    for seed in range(200):
        people, robots = simulated_sessions(seed, -0.03)
        scenes, ours, theirs = paired_differences(people, robots, "robot", 1)
        gaps = np.subtract(ours, theirs)
        interval = Resampling(scenes, seed=seed, resamples=500).interval(gaps.tolist())
        assert interval.value == pytest.approx(gaps.mean())
        covered.append(interval.low <= -0.03 <= interval.high)
    assert 0.90 <= np.mean(covered) <= 0.98
    by_hand = [
        np.mean([e.iou_after(1) for e in people if e.scene == r.scene]) - r.iou_after(1)
        for r in sorted(robots, key=lambda each: each.scene)
    ]
    assert gaps == pytest.approx(by_hand)


def test_objects_of_one_image_are_no_further_evidence() -> None:
    """p over 40 objects of 8 images is that of the 8 images' sums, by all 256 patterns of signs."""
    rng = np.random.default_rng(3)
    people, robots, sums = [], [], []
    for scene, shift in enumerate(rng.normal(0.02, 0.05, 8)):
        gaps = shift + rng.normal(0, 0.005, 5)
        sums.append(gaps.sum())
        for target, gap in enumerate(gaps):
            rounds = [SimpleNamespace(scores={"iou": 0.5})]
            named = (f"s{scene}", f"t{target}", "m")
            robots.append(Simulated("robot", *named, SimpleNamespace(rounds=rounds), 0))  # type: ignore[arg-type]  # of a trajectory only scores are read
            step = {"scores": {"iou": 0.5 + gap}, "user_ms": 900.0, "model_ms": 30.0}
            people.append(Interaction("p", "pc", *named, True, 500.0, (step,)))
    patterns = np.array(list(product((-1, 1), repeat=8))) @ sums
    p = np.mean(np.abs(patterns) >= abs(sum(sums)) - 1e-12)
    (table,) = (b for b in _comparison(people, robots).blocks if isinstance(b, Table))
    assert {row[-1] for row in table.rows} == {f"{p:.3f}"}
    few = [each for each in people if each.scene < "s5"]
    (table,) = (b for b in _comparison(few, robots).blocks if isinstance(b, Table))
    assert {row[-1] for row in table.rows} == {"–"}


def test_the_distance_of_clicks_is_that_of_known_clicks(filled: RunningStudy) -> None:
    """Clicks at a known share of the diagonal from the centre are reported at that share."""
    mask = filled.stimuli.shown("coffee").targets["cup"].mask
    centre = deepest(mask).point
    assert centre is not None
    diagonal = np.hypot(*mask.bits.shape)
    rng = np.random.default_rng(0)
    angles, away = rng.uniform(0, 2 * np.pi, 50), rng.uniform(0, 0.3, 50)
    named = {"scene": "coffee", "target": "cup", "part": "first", "source": ""}
    rows = [
        {
            **named,
            "y": centre[0] + 0.5 + r * diagonal * np.sin(a),
            "x": centre[1] + 0.5 + r * diagonal * np.cos(a),
        }
        for a, r in zip(angles, away, strict=True)
    ]
    assert centre_distances(rows, filled.stimuli) == pytest.approx(away.tolist())


def test_the_interval_of_the_mean_distance_of_clicks_covers_the_true_mean() -> None:
    """100 studies of 30 images with 4 clicks each; images differ more than people do."""
    mask = Mask.box((40, 40), (14, 14), (26, 26))
    stimuli: Any = SimpleNamespace(mask=lambda *task: mask)
    centre = deepest(mask).point
    assert centre is not None
    covered = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        away = (rng.normal(0.2, 0.04, 30)[:, None] + rng.normal(0, 0.02, (30, 4))).ravel()
        angles = rng.uniform(0, 2 * np.pi, 120)
        pixels = away * np.hypot(12, 12)
        places = zip(pixels * np.sin(angles), pixels * np.cos(angles), strict=True)
        rows = [
            {
                **{"scene": f"s{k // 4}", "target": "t", "part": "first", "source": ""},
                **{"condition": "mode", "y": centre[0] + 0.5 + down, "x": centre[1] + 0.5 + across},
            }
            for k, (down, across) in enumerate(places)
        ]
        mean = _distances(rows, stimuli).blocks[0].rows[0][2]  # type: ignore[union-attr]  # a table
        assert mean.value == pytest.approx(float(away.mean()))
        covered += mean.low <= 0.2 <= mean.high
    assert 88 <= covered <= 99


@pytest.mark.usefixtures("encoded_once")
def test_simulated_people_use_the_weights_that_are_given(
    begin: Callable[..., RunningStudy], real_weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study server of `study demo --weights` opens MobileSAM there, and so does the report."""
    pytest.importorskip("torch", reason="needs the extra 'models'")
    monkeypatch.setattr("segmeter.study.people._AT_ONCE", 1)  # no more people than are needed
    study = begin(
        'kind = "interact"\n[data]\nscenes = ["astronaut"]\n[design]\nmodels = ["mobile-sam"]\n'
        'rounds = 2\nbatch = 1\ndevices = ["pc"]\nopen_to_all = true\n'
        '[validity]\nexclude = ["no_click"]'
    )
    fill_with_people(study, weights=real_weights)
    with study.database.snapshot() as connection:
        found = interactions(connection, study.plan)
        others = simulate_users(found, study.plan, study.stimuli, ["centre-click"], real_weights)
        page = study_page(connection, study.plan, study.stimuli, others)
    assert {each.model for each in (*found, *others)} == {"mobile-sam"}
    assert max(each.iou_after(1) for each in (*found, *others)) > 0.3
    assert "After 3 clicks the IoU of participants is" in page

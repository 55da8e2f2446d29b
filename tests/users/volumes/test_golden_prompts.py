"""Every golden prompt of the original: static and interactive runs, scribbles, draws, clicks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import as_boxes, as_points, cases, checksum, dice, fakes, stacked
from published_runs import STARTS, Asked, refined, whole

from segmeter.core.masks import Mask
from segmeter.core.morphology import largest_component
from segmeter.core.prompts import Box
from segmeter.measures.challenges import area_over_steps
from segmeter.users.volumes.initial_prompts import PublishedDraws, box_propagation
from segmeter.users.volumes.refinement_prompts import contour_scribble
from segmeter.users.volumes.volume_clicks import challenge_box, deepest_voxels, middle_click

CASES = ["blob", "gap", "border", "ring", "speck", "pair", "multi1", "multi3"]


@pytest.fixture(scope="module")
def volumes(golden: Path) -> Path:
    return golden / "volumes"


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_the_drawn_volumes_are_those_of_the_golden_labels(volumes: Path) -> None:
    recipes = read(volumes / "cases.json")["cases"]
    with np.load(volumes / "labels.npz") as labels:
        for name, case in cases(volumes).items():
            np.testing.assert_array_equal(case.bits, labels[name] == recipes[name]["target"])


@pytest.mark.parametrize("case_name", CASES)
def test_static_prompts_and_answers_are_the_originals(volumes: Path, case_name: str) -> None:
    case, models = cases(volumes)[case_name], fakes(volumes)
    runs = read(volumes / "static.json")[case_name]
    assert len(runs) == 36
    for key, expected in runs.items():
        name, _, model = key.partition("@")
        fake = models[model or "F1"]
        asked = Asked(case, fake)
        prompts = list(STARTS[name](case.target, PublishedDraws(), asked))
        if "box3d_zyx_inclusive" in expected:
            (box,) = prompts
            assert isinstance(box, Box)
            assert [list(box.low), list(box.high)] == expected["box3d_zyx_inclusive"]
        else:
            assert as_points(prompts) == expected.get("points", []), key
            assert as_boxes(prompts) == expected.get("boxes", {}), key
        if whole(name):
            mask = fake.volume(case, prompts)
        else:
            mask = stacked(case.target.shape, fake.slices(case, prompts))
        assert checksum(mask) == expected["crc32"], key
        assert dice(case.bits, mask) == pytest.approx(expected["dice"], abs=1e-6)
        assert asked.calls == expected["predict_calls_before_final"], key


@pytest.mark.parametrize("case_name", CASES)
def test_interactive_runs_are_the_originals(volumes: Path, case_name: str) -> None:
    case, models = cases(volumes)[case_name], fakes(volumes)
    runs = read(volumes / "interactive.json")[case_name]
    assert len(runs) == 26
    for key, expected in runs.items():
        name, _, model = key.partition("@")
        steps = refined(name, case, models[model or "F1"])
        for number, (step, wanted) in enumerate(zip(steps, expected["steps"], strict=True)):
            where = f"{key}, step {number}"
            if wanted.get("repeat_of_previous"):
                assert step is None, where
                continue
            assert step is not None, where
            assert as_points(step.prompts) == wanted.get("points", []), where
            assert as_boxes(step.prompts) == wanted.get("boxes", {}), where
            assert checksum(step.mask) == wanted["crc32"], where
            if "event" in wanted:
                assert step.correction is not None
                event = wanted["event"]
                assert step.correction.negative == event["negative"], where
                assert step.correction.fallback == event.get("fallback", False), where
                if "axis1_index" in event:
                    assert step.correction.plane == (1, event["axis1_index"]), where


def test_contour_scribbles_are_the_originals(volumes: Path) -> None:
    for case in read(volumes / "contour_scribble.json"):
        ground_truth, prediction = (np.zeros(case["shape"], bool) for _ in range(2))
        for bits, key in ((ground_truth, "gt"), (prediction, "seg")):
            for pixel in case[key]:
                bits[tuple(pixel)] = True
        found = contour_scribble(ground_truth, prediction, PublishedDraws(case["seed"]).fraction())
        pixels = [list(p) for p in sorted(found)]
        assert pixels == (case["scribble"] or []), case["name"]
        on_prediction = [p for p in pixels if prediction[tuple(p)]]
        assert on_prediction == (case["scribble_on_seg"] or []), case["name"]


def test_published_draws_are_those_of_the_original_generator(volumes: Path) -> None:
    for seed, wanted in read(volumes / "rng.json").items():

        def fresh(seed: str = seed) -> PublishedDraws:
            return PublishedDraws(int(seed))

        assert fresh().fraction() == wanted["scribble_u"]
        for count, value in wanted["randint"].items():
            assert fresh().below(int(count)) == value
        for key, values in wanted["choice_no_replace"].items():
            assert fresh().choose(*map(int, key.split(","))) == values
        for key, values in wanted["choice_replace"].items():
            assert fresh().repeat(*map(int, key.split(","))) == values
        for chance, values in wanted["binomial1"].items():
            draws = fresh()
            assert [int(draws.chance(float(chance))) for _ in values] == values
        for reach in (3, 5):
            draws = fresh()
            assert [draws.shifts(reach) for _ in range(3)] == wanted[f"box_noise{reach}"]


def stray_box(box: Box, shape: Sequence[int], flipped: Sequence[bool]) -> Box:
    """Position of the original's seed box in a file with flipped axes `(z, y, x)`.

    It stays in the file's coordinates while all others are in canonical ones. It shows what a
    published number of such a file rests on.

    >>> stray_box(Box((4, 0, 31), (4, 10, 39)), (24, 48, 40), (False, True, True))
    Box(low=(4, 36, -1), high=(4, 46, 7))
    """
    low, high = list(box.low), list(box.high)
    for axis, turned in enumerate(flipped):
        if turned:
            # It turns the end, one past the last pixel, as if it were a pixel; a slice has none.
            past = 0 if axis == 0 else 1
            last = shape[axis] - 1 - past
            low[axis], high[axis] = last - box.high[axis], last - box.low[axis]
    return Box(tuple(low), tuple(high))


def test_the_seed_box_of_a_turned_file_strays_as_in_the_original(volumes: Path) -> None:
    wanted = read(volumes / "box_propagation_orientation.json")
    case, fake = cases(volumes)[wanted["case"]], fakes(volumes)[wanted["fake"]]
    boxes = box_propagation(case.target, Asked(case, fake), "published")
    expected = wanted["boxes_model_coords"]
    assert as_boxes(boxes) == expected["RAS"]
    seed = next(box for box in boxes if box.low[0] == 4)
    for code, flips in (("LPS", (False, True, True)), ("LPI", (True, True, True))):
        stray = stray_box(seed, case.target.shape, flips)
        found = as_boxes([stray, *(b for b in boxes if b is not seed)])
        assert found == expected[code]


def test_challenge_clicks_are_those_of_the_script(volumes: Path) -> None:
    models = fakes(volumes)
    every = cases(volumes)
    runs = read(volumes / "cvpr25_clicks.json")
    assert len(runs) == 12
    for key, wanted in runs.items():
        case = every[key.split("/")[0]]
        prompts: list[Any] = []
        mask = np.zeros(case.target.shape, bool)
        if wanted["box"] is not None:
            box, keys = challenge_box(case.target), wanted["box"]
            ends = [f"z_{end}" for end in ("min", "max")]
            assert [box.low[0], box.high[0]] == [keys[end] for end in ends]
            assert list(box.low[1:]) == [keys["z_mid_y_min"], keys["z_mid_x_min"]]
            assert list(box.high[1:]) == [keys["z_mid_y_max"], keys["z_mid_x_max"]]
            prompts.append(box)
            mask = models["F1"].volume(case, prompts)
        scores, clicks = [dice(case.bits, mask)], []
        for info in wanted["info"]:
            shown = Mask.of(mask)
            found = middle_click(case.target, shown)
            assert found is not None
            part = largest_component((case.target - shown) | (shown - case.target))
            deepest, squared = deepest_voxels(part, exact=False)
            assert part.area == info["component_voxels"]
            assert len(deepest) == info["n_maxima"]
            assert squared == round(info["edt_max"] ** 2)
            clicks.append(found)
            mask = models["F1"].volume(case, [*prompts, *clicks], mask)
            scores.append(dice(case.bits, mask))
        assert as_points(clicks) == wanted["clicks_zyx_label"], key
        assert scores == pytest.approx(wanted["dice_steps"], abs=1e-6)
        assert area_over_steps(scores[1:]) == pytest.approx(wanted["dsc_auc"], abs=1e-5)

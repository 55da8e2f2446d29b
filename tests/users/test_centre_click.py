"""The centre click against the original clicker, and against a plain twin."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from segmeter.core.error_regions import _plain_search, _search, deepest
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Click
from segmeter.core.scenes import Image, Target
from segmeter.core.users import Observation
from segmeter.measures.objects import boundary_iou, iou
from segmeter.users.error_prompts import centre_click


def unrun(runs: list[int], shape: list[int]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Row-major run lengths, zeros first, as an array."""
    values = np.arange(len(runs)) % 2 == 1
    return np.repeat(values, runs).reshape(shape)


def click_on(
    target: Target, prediction: Mask, clicks: list[Click], protocol: ProtocolName
) -> Click | None:
    scene = Image("test", "scene", np.zeros((*prediction.shape, 3), np.uint8), [target])
    observation = Observation(scene, target, prediction, tuple(clicks), protocol, encoded=None)  # type: ignore[arg-type]
    return centre_click(observation)


def painted(target: Target, prediction: Mask, click: Click, radius: int) -> Mask:
    """The golden cases' painting model: a disc around the click becomes right."""
    y, x = np.ogrid[: prediction.shape[0], : prediction.shape[1]]
    disc = (y - click.point[0]) ** 2 + (x - click.point[1]) ** 2 <= radius**2
    dense = prediction.dense()
    dense[disc] = target.mask.dense()[disc]
    return Mask.of(dense)


@pytest.mark.parametrize("protocol", ["published", "corrected"])
def test_all_golden_sessions_agree_click_by_click(golden: Path, protocol: ProtocolName) -> None:
    cases = json.loads((golden / "clicks" / "centre_clicks.json").read_text())["cases"]
    assert len(cases) == 64
    for case in cases:
        shape = case["shape"]
        ignore = Mask.of(unrun(case["ignore"], shape)) if case["ignore"] else None
        target = Target("1", Mask.of(unrun(case["target"], shape)), ignore)
        prediction = Mask.of(unrun(case["prediction"], shape))
        clicks: list[Click] = []
        for expected in case["published" if protocol == "published" else "sound"]:
            click = click_on(target, prediction, clicks, protocol)
            if expected is None:
                assert click is None, case["name"]
                break
            assert click is not None, case["name"]
            assert [*click.point, click.positive] == expected, case["name"]
            clicks.append(click)
            if case["mode"] != "same":
                prediction = painted(target, prediction, click, case["radius"])


def test_golden_pairs_have_the_golden_overlap(golden: Path) -> None:
    cases = json.loads((golden / "clicks" / "centre_clicks.json").read_text())["cases"]
    for case in cases:
        shape = case["shape"]
        ignore = Mask.of(unrun(case["ignore"], shape)) if case["ignore"] else None
        ground_truth, prediction = (
            Mask.of(unrun(case[k], shape)) for k in ("target", "prediction")
        )
        for measured, expected in (
            (iou(ground_truth, prediction, ignore), case["iou"]),
            (boundary_iou(ground_truth, prediction, ignore), case["boundary_iou"]),
        ):
            # Where the originals divide 0 by 0, both masks are empty and ours is 1.
            assert measured == pytest.approx(1.0 if expected is None else expected, abs=1e-12)


def test_all_280_real_targets_get_the_golden_first_and_second_click(
    golden: Path, real_data: Path
) -> None:
    from segmeter.core import catalogue

    names = {
        "GrabCut": "grabcut",
        "Berkeley": "berkeley",
        "DAVIS": "davis",
        "COCO_MVal": "coco-mval",
    }
    with (golden / "clicks" / "real_first_clicks.csv").open() as file:
        rows = list(csv.DictReader(file))
    sets = {old: catalogue.datasets.make(new, data=real_data) for old, new in names.items()}
    assert len(rows) == 280
    for row in rows:
        dataset = sets[row["dataset"]]
        (target,) = dataset.load(dataset.scenes()[int(row["order"])]).targets
        check_real_row(target, row)


def check_real_row(target: Target, row: dict[str, str]) -> None:
    first = click_on(target, Mask.empty(target.mask.shape), [], "published")
    assert first == Click((int(row["click1_y"]), int(row["click1_x"])))
    judged = target.mask if target.ignore is None else target.mask - target.ignore
    assert deepest(judged).squared == int(row["depth2"])
    moved = np.zeros(target.mask.shape, dtype=bool)
    moved[5:, 7:] = target.mask.dense()[:-5, :-7]
    prediction = Mask.of(moved)
    assert iou(target.mask, prediction, target.ignore) == pytest.approx(
        float(row["shift_iou"]), abs=1e-9
    )
    assert boundary_iou(target.mask, prediction, target.ignore) == pytest.approx(
        float(row["shift_biou"]), abs=1e-9
    )
    second = click_on(target, prediction, [first], "published")
    point = (int(row["click2_y"]), int(row["click2_x"]))
    assert second == Click(point, row["click2_positive"] == "1")


@given(hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, max_side=24)), st.data())
def test_the_compiled_search_equals_the_plain_one(
    bits: np.ndarray[Any, np.dtype[np.bool_]], data: st.DataObject
) -> None:
    barred = [tuple(map(int, p)) for p in np.argwhere(bits) if data.draw(st.booleans())][:5]
    assert _search(bits, barred) == _plain_search(bits, barred)


def test_a_tie_between_missed_and_spilled_is_a_negative_click() -> None:
    target = Target("1", Mask.box((9, 20), (3, 2), (6, 5)))
    prediction = Mask.box((9, 20), (3, 12), (6, 15))
    assert click_on(target, prediction, [], "corrected") == Click((4, 13), positive=False)


def test_with_nothing_wrong_corrected_stops_and_published_clicks_the_corner() -> None:
    target = Target("1", Mask.box((9, 9), (0, 0), (5, 5)))
    assert click_on(target, target.mask, [], "corrected") is None
    assert click_on(target, target.mask, [], "published") == Click((0, 0), positive=False)

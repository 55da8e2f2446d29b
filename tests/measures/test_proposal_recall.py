"""Average recall of proposals: COCO's values, counted image by image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.measures.detection_matching import pairwise_iou
from segmeter.measures.detections import size_ranges
from segmeter.measures.proposals import average_recall_of, recalled

SHAPE = (24, 24)


@pytest.fixture(scope="module")
def told(golden: Path) -> dict[str, Any]:
    folder = golden / "zeroshot" / "ar"
    return {
        name: json.loads((folder / f"{name}.json").read_text()) for name in ("gt", "dt", "expected")
    }


def average(told: dict[str, Any], number: int, letter: str = "") -> dict[str, float]:
    """AR of all images of the golden set, by size, from counts of each."""
    frequency = {c["id"]: c["frequency"] for c in told["gt"]["categories"]}
    sizes = size_ranges("published")
    matched = {name: np.zeros(10) for name in sizes}
    objects = dict.fromkeys(sizes, 0)
    for image in told["gt"]["images"]:
        mine = [a for a in told["gt"]["annotations"] if a["image_id"] == image["id"]]
        mine = [a for a in mine if not letter or frequency[a["category_id"]] == letter]
        mine.sort(key=lambda a: a["category_id"])
        found = [d for d in told["dt"] if d["image_id"] == image["id"]]
        found.sort(key=lambda d: d["category_id"])
        found.sort(key=lambda d: -d["score"])
        counts = recalled(
            [mask_of(a) for a in mine],
            [mask_of(d) for d in found],
            numbers=(number,),
            areas=[a["area"] for a in mine],
            sizes=sizes,
        )
        for name, one in counts.items():
            matched[name] += one.matched[0]
            objects[name] += one.objects
    return {
        name: float(average_recall_of(matched[name], np.array(objects[name]))) for name in sizes
    }


def mask_of(record: dict[str, Any]) -> Mask:
    return Mask.from_coco(record["segmentation"])


@pytest.mark.parametrize("number", [3, 10, 1000])
def test_recall_is_cocos_without_classes(told: dict[str, Any], number: int) -> None:
    wanted = told["expected"][f"coco_class_agnostic_AR@{number}"]
    assert average(told, number) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("letter", ["f", "c", "r"])
def test_recall_by_frequency_keeps_all_proposals(told: dict[str, Any], letter: str) -> None:
    wanted = told["expected"][f"coco_class_agnostic_AR@1000_gt_only_{letter}"]
    assert average(told, 1000, letter) == pytest.approx(wanted, abs=1e-9)


def test_an_evaluator_for_federated_data_loses_proposals(told: dict[str, Any]) -> None:
    """What the rule avoids: classes that an image was not searched for are dropped first."""
    lost = told["expected"]["lvis_use_cats_0_all_dt_category_1@1000"]["all"]
    assert average(told, 1000)["all"] > lost + 0.1


boxes = st.tuples(st.integers(0, 15), st.integers(0, 15), st.integers(2, 8), st.integers(2, 8)).map(
    lambda b: Mask.box(SHAPE, b[:2], (b[0] + b[2], b[1] + b[3]))
)


@given(st.lists(boxes, min_size=1, max_size=4), st.lists(boxes, max_size=8))
def test_more_proposals_never_recall_less(ground_truths: list[Mask], proposals: list[Mask]) -> None:
    found = recalled(ground_truths, proposals, numbers=(1, 2, 4, 8))["all"]
    assert (np.diff(found.matched, axis=0) >= 0).all()
    assert (np.diff(found.matched, axis=1) <= 0).all()  # a higher threshold matches no more
    again = recalled(ground_truths, [*proposals, *ground_truths], numbers=(100,))["all"].matched[0]
    assert (again >= found.matched[-1]).all()
    assert again[-1] >= len(set(ground_truths))  # each is proposed exactly


@given(st.lists(boxes, min_size=1, max_size=4), st.lists(boxes, min_size=1, max_size=6))
def test_overlaps_of_all_pairs_are_those_of_the_masks(
    ground_truths: list[Mask], proposals: list[Mask]
) -> None:
    found = pairwise_iou(proposals, ground_truths)
    for i, p in enumerate(proposals):
        for j, t in enumerate(ground_truths):
            iou = p.overlap(t) / (p.area + t.area - p.overlap(t))
            assert found[i, j] == iou


def test_an_object_at_the_limit_of_two_sizes_counts_twice_as_published_only() -> None:
    thing = Mask.box((64, 64), (0, 0), (32, 32))
    for protocol, counts in (("published", (1, 1)), ("corrected", (0, 1))):
        found = recalled([thing], [thing], sizes=size_ranges(protocol))
        assert (found["small"].objects, found["medium"].objects) == counts


def test_no_objects_have_no_recall_and_no_proposals_recall_nothing() -> None:
    thing = Mask.box(SHAPE, (0, 0), (4, 4))
    assert np.isnan(recalled([], [thing])["all"].average_recall).all()
    assert (recalled([thing], [])["all"].average_recall == 0).all()
    assert (recalled([thing], [Mask.empty(SHAPE)])["all"].average_recall == 0).all()


def test_wrong_numbers_are_refused() -> None:
    thing = Mask.box(SHAPE, (0, 0), (4, 4))
    with pytest.raises(BadInput, match="first 1 or more"):
        recalled([thing], [], numbers=(0,))
    with pytest.raises(BadInput, match="1 objects have 2 areas"):
        recalled([thing], [], areas=[1, 2])

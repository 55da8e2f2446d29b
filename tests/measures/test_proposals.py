"""Proposals: golden values of all statistics, ranking, ties, and the boundary version."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.measures.boundaries import morphological_f
from segmeter.measures.objects import iou
from segmeter.measures.proposals import NUMBERS, curve, judge, shuffled

masks = arrays.arrays(bool, (5, 6)).map(Mask.of)
filled = masks.filter(bool)


def test_every_statistic_equals_the_golden_one(golden: Path) -> None:
    data = json.loads((golden / "seism" / "proposals.json").read_text())
    images = []
    for image in data["images"]:
        objects = np.array(image["object_map"])
        images.append(
            judge(
                [Mask.of(objects == number) for number in image["object_ids"]],
                [Mask.of(np.array(proposal)) for proposal in image["proposals"]],
                classes=[str(name) for name in image["classes"]],
                ignore=Mask.of(objects == 255),
            )
        )
    wanted = data["expected"]
    found = curve(images, wanted["n_proposals"])
    for mine, name in (
        (found.mean_number, "mean_number"),
        (found.best, "best_J"),
        (found.instance, "J_instance"),
        (found.median, "median"),
        (found.class_mean, "J_class"),
        (list(found.by_class.values()), "J_per_class"),
        (found.average_recall, "average_recall"),
    ):
        np.testing.assert_allclose(mine, wanted[name], rtol=0, atol=1e-12, err_msg=name)
    for level, share in wanted["recall"].items():
        np.testing.assert_allclose(found.recall[float(level)], share, atol=1e-12)


@given(st.lists(filled, min_size=1, max_size=3), st.lists(masks, min_size=1, max_size=5))
def test_quality_is_the_jaccard_index(objects: list[Mask], proposals: list[Mask]) -> None:
    found = judge(objects, proposals)
    for i, ground_truth in enumerate(objects):
        for j, prediction in enumerate(proposals):
            assert found.quality[i, j] == pytest.approx(iou(ground_truth, prediction))


@given(st.lists(filled, min_size=1, max_size=3), st.lists(masks, max_size=6), st.integers(0, 99))
def test_more_proposals_are_never_worse_and_order_does_not_matter_for_all(
    objects: list[Mask], proposals: list[Mask], seed: int
) -> None:
    image = judge(objects, proposals)
    found = curve([image], range(1, 9))
    assert (np.diff(found.best, axis=1) >= 0).all()
    mixed = curve([shuffled(image, np.random.default_rng(seed))], [100])
    assert np.array_equal(mixed.best[:, 0], found.best[:, -1])


def test_the_earliest_of_equal_proposals_counts() -> None:
    """A small and a large proposal have J = 1/2 of the first object; the sum tells which."""
    frame = (2, 8)
    first, second = Mask.box(frame, (0, 0), (1, 4)), Mask.box(frame, (1, 0), (2, 8))
    small, large = Mask.box(frame, (0, 0), (1, 2)), Mask.box(frame, (0, 0), (1, 8))
    for order, wanted in (((small, large), (2 + 8) / (4 + 8)), ((large, small), 12 / 16)):
        image = judge([first, second], [*order, second], classes=["thing", "thing"])
        assert image.quality[0, :2].tolist() == [0.5, 0.5]
        assert curve([image], [3]).by_class["thing"][0] == pytest.approx(wanted)


def test_the_boundary_version_has_its_own_best() -> None:
    square = Mask.box((60, 60), (10, 10), (50, 50))
    proposals = [Mask.box((60, 60), (10, 10), (50, 44)), Mask.box((60, 60), (12, 12), (52, 52))]
    by_boundary = judge([square], proposals, quality=morphological_f)
    assert by_boundary.quality[0, 0] == morphological_f(square, proposals[0])
    assert curve([by_boundary], [2]).instance[0] == max(by_boundary.quality[0])


def test_pixels_of_a_class_are_those_of_the_best_by_jaccard() -> None:
    """The boundary likes the shifted square, J the cut one; the class follows J."""
    square = Mask.box((60, 60), (10, 10), (50, 50))
    cut, shifted = Mask.box((60, 60), (10, 10), (50, 48)), Mask.box((60, 60), (11, 11), (51, 51))
    image = judge([square], [cut, shifted], quality=morphological_f)
    assert image.quality[0, 0] < image.quality[0, 1]
    assert iou(square, cut) > iou(square, shifted)
    assert curve([image], [2]).class_mean[0] == pytest.approx(iou(square, cut))


def test_images_without_proposals_score_zero_and_count_in_the_mean_number() -> None:
    thing = Mask.box((4, 4), (0, 0), (2, 2))
    found = curve([judge([thing], []), judge([thing], [thing])], [5])
    assert found.best[:, 0].tolist() == [0, 1]
    assert found.mean_number.tolist() == [0.5]
    assert found.by_class[""].tolist() == [1.0]  # what was offered nothing adds nothing


def test_the_usual_numbers_go_from_ten_to_all() -> None:
    assert NUMBERS[:3] == (10, 15, 20)
    assert NUMBERS[-2:] == (6000, 100_000)
    assert len(NUMBERS) == 19 + 36 + 10 + 1


def test_bad_input_is_named() -> None:
    thing = Mask.box((4, 4), (0, 0), (2, 2))
    with pytest.raises(BadInput, match="without a judged pixel"):
        judge([thing], [], ignore=thing)
    with pytest.raises(BadInput, match="class names"):
        judge([thing], [], classes=["a", "b"])
    with pytest.raises(BadInput, match="at least one object"):
        curve([judge([], [thing])])
    with pytest.raises(BadInput, match="1 or more"):
        curve([judge([thing], [thing])], [0])

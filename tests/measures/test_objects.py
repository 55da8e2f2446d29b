"""Measures of one object: golden toys with void and empty masks, and what always holds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.measures.boundaries import morphological_f, object_boundary_f
from segmeter.measures.objects import boundary_iou, dice, iou, precision, recall

masks = arrays.arrays(bool, (7, 8)).map(Mask.of)
REGION = (iou, dice, precision, recall)


def test_toy_objects_have_the_counted_values_void_left_out(golden: Path) -> None:
    toys = json.loads((golden / "seism" / "toy.json").read_text())["objects"]
    assert len(toys) == 7
    for toy in toys:
        ground_truth, prediction = (Mask.of(np.array(toy[key])) for key in ("ground_truth", "mask"))
        void = None if toy["void"] is None else Mask.of(np.array(toy["void"]))
        # The two programs differ on two empty masks only: 0 in one, 1 in the other and here.
        assert iou(ground_truth, prediction, void) == pytest.approx(toy["J_davis"], abs=1e-12), toy[
            "name"
        ]
        both, false_positives, false_negatives = toy["tp"], toy["fp"], toy["fn"]
        if both + false_positives and both + false_negatives:
            wanted = {
                dice: 2 * both / (2 * both + false_positives + false_negatives),
                precision: both / (both + false_positives),
                recall: both / (both + false_negatives),
            }
            for measure, value in wanted.items():
                assert measure(ground_truth, prediction, void) == pytest.approx(value, abs=1e-12)


@given(masks, masks)
def test_jaccard_and_f_rise_and_fall_together(ground_truth: Mask, prediction: Mask) -> None:
    overlap, f = iou(ground_truth, prediction), dice(ground_truth, prediction)
    assert overlap == pytest.approx(f / (2 - f))
    assert f == pytest.approx(2 * overlap / (1 + overlap))


@given(masks, masks, masks)
def test_both_measures_prefer_the_same_of_two_predictions(
    ground_truth: Mask, a: Mask, b: Mask
) -> None:
    assert (iou(ground_truth, a) > iou(ground_truth, b)) == (
        dice(ground_truth, a) > dice(ground_truth, b)
    )


@given(masks, masks)
def test_exchanging_the_masks_exchanges_precision_and_recall(a: Mask, b: Mask) -> None:
    assert iou(a, b) == iou(b, a)
    assert dice(a, b) == dice(b, a)
    assert precision(a, b) == recall(b, a)
    for measure in (boundary_iou, morphological_f, object_boundary_f):
        assert measure(a, b) == pytest.approx(measure(b, a))


@given(masks)
def test_an_object_agrees_with_itself(mask: Mask) -> None:
    for measure in (*REGION, boundary_iou, morphological_f, object_boundary_f):
        assert measure(mask, mask) == 1


@given(masks, masks, masks)
def test_ignored_pixels_change_nothing(ground_truth: Mask, prediction: Mask, void: Mask) -> None:
    painted = prediction | void
    for measure in (*REGION, morphological_f, object_boundary_f):
        assert measure(ground_truth, prediction, void) == measure(ground_truth, painted, void)


@given(masks.filter(bool))
def test_one_empty_mask_scores_zero_and_two_score_one(mask: Mask) -> None:
    nothing = Mask.empty(mask.shape)
    for measure in (*REGION, boundary_iou, morphological_f, object_boundary_f):
        assert measure(mask, nothing) == measure(nothing, mask) == 0
        assert measure(nothing, nothing) == 1


@given(masks, masks, st.booleans())
def test_turned_masks_have_the_same_values(
    ground_truth: Mask, prediction: Mask, over: bool
) -> None:
    """Boundary pixels lie on the upper left of a line, so only transposing keeps them."""
    a, b = (Mask.of(m.dense().T) for m in (ground_truth, prediction))
    for measure in (*REGION, boundary_iou, morphological_f):
        assert measure(a, b) == pytest.approx(measure(ground_truth, prediction))
    if over:
        a, b = (Mask.of(m.dense()[::-1]) for m in (ground_truth, prediction))
        for measure in (*REGION, boundary_iou):
            assert measure(a, b) == pytest.approx(measure(ground_truth, prediction))


@pytest.mark.parametrize("name", ["iou", "dice", "boundary-iou", "hd95"])
def test_masks_of_different_size_are_refused_even_if_one_is_empty(name: str) -> None:
    one, other = np.ones((6, 8), bool), np.zeros((5, 5), bool)
    with pytest.raises(BadInput, match="masks of different size, 6 x 8 and 5 x 5"):
        catalogue.measures.make(name)(one, other)

"""Losses of Segment Anything's training against the originals' values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from segmeter.core.errors import BadInput
from segmeter.measures.mask_losses import dice_loss, focal_loss, score_errors, step_loss


@pytest.fixture(scope="module")
def given_to_the_originals(golden: Path) -> tuple[Any, Any, Any, Any]:
    folder = golden / "zeroshot" / "losses"
    stored = np.load(folder / "inputs.npz")
    told = json.loads((folder / "expected.json").read_text())
    return stored["logits_x16"] / 16, stored["targets"], stored["pred_iou"], told


def test_losses_of_each_mask_are_the_originals(given_to_the_originals: Any) -> None:
    logits, targets, scores, told = given_to_the_originals
    goal = targets[:, None]
    np.testing.assert_allclose(focal_loss(logits, goal), told["focal"], atol=1e-5)
    np.testing.assert_allclose(dice_loss(logits, goal), told["dice"], atol=1e-5)
    wrong = score_errors(logits, goal, scores)
    np.testing.assert_allclose(wrong**2, told["iou_mse"], atol=1e-5)
    np.testing.assert_allclose(np.abs(wrong), told["iou_l1"], atol=1e-5)


@pytest.mark.parametrize(("kind", "name"), [("sam", "sam1_like"), ("sam2", "sam2")])
def test_a_step_is_the_originals(given_to_the_originals: Any, kind: Any, name: str) -> None:
    logits, targets, scores, told = given_to_the_originals
    step = step_loss(logits, targets, scores, kind)
    expected = told[name]
    assert list(step.best) == told["best_mask_index"]
    mine = [step.focal, step.dice, step.score, step.total]
    names = ("loss_mask", "loss_dice", "loss_iou", "core_loss")
    np.testing.assert_allclose(mine, [expected[n] for n in names], atol=1e-5, rtol=1e-6)


@given(hnp.arrays(np.float64, (2, 3, 4), elements=st.floats(-80, 80)))
def test_a_surer_right_answer_never_costs_more(logits: Any) -> None:
    targets = np.zeros((2, 3, 4), dtype=bool)
    targets[:, 1] = True
    surer = logits + np.where(targets, 1.0, -1.0)
    assert (focal_loss(surer, targets) <= focal_loss(logits, targets) + 1e-12).all()
    assert (dice_loss(surer, targets) <= dice_loss(logits, targets) + 1e-12).all()
    assert ((dice_loss(logits, targets) >= 0) & (dice_loss(logits, targets) <= 1)).all()


def test_masks_of_another_size_are_refused() -> None:
    with pytest.raises(BadInput, match="not of one size"):
        focal_loss(np.zeros((2, 3)), np.zeros((3, 2)))

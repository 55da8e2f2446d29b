"""Losses of Segment Anything's training against the originals' values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from segmeter.training.annotation_rounds import dice_loss, focal_loss, score_errors, step_loss


@pytest.fixture(scope="module")
def cases(golden: Path) -> tuple[Any, Any, Any, Any]:
    folder = golden / "zeroshot" / "losses"
    stored = np.load(folder / "inputs.npz")
    expected = json.loads((folder / "expected.json").read_text())
    logits, scores = (
        torch.tensor(stored[n], dtype=torch.float64) for n in ("logits_x16", "pred_iou")
    )
    return logits / 16, torch.tensor(stored["targets"]).bool(), scores, expected


def test_losses_of_each_mask_are_the_originals(cases: Any) -> None:
    logits, targets, scores, expected = cases
    goal = targets[:, None]
    np.testing.assert_allclose(focal_loss(logits, goal), expected["focal"], atol=1e-5)
    np.testing.assert_allclose(dice_loss(logits, goal), expected["dice"], atol=1e-5)
    errors = score_errors(logits, goal, scores)
    np.testing.assert_allclose(errors**2, expected["iou_mse"], atol=1e-5)
    np.testing.assert_allclose(errors.abs(), expected["iou_l1"], atol=1e-5)


@pytest.mark.parametrize(("kind", "name"), [("sam", "sam1_like"), ("sam2", "sam2")])
def test_a_step_is_the_originals(cases: Any, kind: Any, name: str) -> None:
    logits, targets, scores, expected = cases
    step = step_loss(logits, targets, scores, kind)
    assert step.best.tolist() == expected["best_mask_index"]
    computed = [float(value) for value in (step.focal, step.dice, step.score, step.total)]
    names = ("loss_mask", "loss_dice", "loss_iou", "core_loss")
    wanted = [expected[name][n] for n in names]
    np.testing.assert_allclose(computed, wanted, atol=1e-5, rtol=1e-6)


def test_only_the_best_of_three_masks_receives_a_gradient(cases: Any) -> None:
    logits, targets, scores, expected = cases
    free = logits.clone().requires_grad_()
    step_loss(free, targets, scores).total.backward()
    moved = free.grad.abs().sum((-2, -1)) > 0
    assert moved.nonzero()[:, 1].tolist() == expected["best_mask_index"]


@given(hnp.arrays(np.float64, (2, 3, 4), elements=st.floats(-80, 80)))
def test_a_more_confident_correct_prediction_never_costs_more(values: Any) -> None:
    logits = torch.from_numpy(values)
    targets = torch.zeros((2, 3, 4), dtype=torch.bool)
    targets[:, 1] = True
    surer = logits + torch.where(targets, 1.0, -1.0)
    assert (focal_loss(surer, targets) <= focal_loss(logits, targets) + 1e-12).all()
    assert (dice_loss(surer, targets) <= dice_loss(logits, targets) + 1e-12).all()
    assert ((dice_loss(logits, targets) >= 0) & (dice_loss(logits, targets) <= 1)).all()

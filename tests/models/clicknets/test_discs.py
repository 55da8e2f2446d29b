"""Discs: the golden encoding, and gradients that agree with finite differences."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from segmeter.models.clicknets._zoom import hard_discs, points_tensor, soft_disc, soft_discs  # noqa: E402


def test_golden_encoding(golden):
    cases = json.loads((golden / "clicks/zoom.json").read_text())["click_encoding"]
    for case in (c for c in cases if c["use_disks"]):
        spots = [(*p, True) for p in case["positive"]] + [(*p, False) for p in case["negative"]]
        size = (case["rows"], case["cols"])
        discs = hard_discs(points_tensor([spots]), size, case["norm_radius"])[0].numpy()
        np.testing.assert_array_equal(discs[0].reshape(-1), case["channel0"])
        np.testing.assert_array_equal(discs[1].reshape(-1), case["channel1"])


def test_soft_and_hard_discs_differ_only_at_the_edge():
    points = points_tensor([[(10.3, 12.8, True), (20.0, 9.0, False)]])
    soft, hard = soft_discs(points, (32, 32)), hard_discs(points, (32, 32))
    edge = (soft > 0) & (soft < 1)
    assert torch.equal(soft[~edge], hard[~edge])
    assert soft.sum() == pytest.approx(2 * np.pi * 25, rel=0.02)


def test_no_click_draws_nothing():
    assert hard_discs(points_tensor([[]]), (16, 16)).sum() == 0
    assert soft_discs(points_tensor([[]]), (16, 16)).sum() == 0


def test_the_gradient_of_a_disc_agrees_with_finite_differences():
    weights = torch.rand(24, 28, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

    def loss(points):
        return (soft_disc(points, (24, 28)) * weights).sum((-2, -1))

    points = torch.tensor([[11.37, 13.21], [6.013, 20.55]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(loss, (points,), eps=1e-7, atol=1e-5)

"""Edges from masks: the public reproduction's values, and those of the corrected protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segmeter.measures.suppression import suppress_along_gradient
from segmeter.models.automatic.regions import edge_map, outer_boundary, stretched


@pytest.fixture(scope="module")
def told(golden: Path) -> Any:
    return np.load(golden / "zeroshot" / "edges" / "sobel.npz")


@pytest.fixture(scope="module")
def logits(told: Any) -> Any:
    return told["logits_x32"] / np.float32(32)


def test_each_masks_edges_are_the_reproductions(told: Any, logits: Any) -> None:
    for one, wanted in zip(logits, told["sobel_reproduction"], strict=True):
        found = edge_map([one], one.shape).strength
        assert np.abs(found - wanted).max() <= 1e-5


def test_the_strongest_mask_wins_and_the_map_is_stretched(told: Any, logits: Any) -> None:
    found = stretched(edge_map(logits, logits.shape[1:]).strength)
    assert np.abs(found - told["max_normalised_reproduction"]).max() <= 1e-5
    framed = edge_map(logits, logits.shape[1:], frame_px=5).strength
    assert np.abs(framed - told["bzp5_max"]).max() <= 1e-5


def test_corrected_keeps_the_gradient_of_the_mask_that_won(told: Any, logits: Any) -> None:
    found = edge_map(logits, logits.shape[1:], "corrected")
    assert np.abs(stretched(found.strength, "corrected") - told["sound_magnitude"]).max() <= 1e-5
    assert (found.winner == told["sound_argmax"]).all()
    assert np.abs(found.across - told["sound_gx"]).max() <= 1e-5
    assert np.abs(found.down - told["sound_gy"]).max() <= 1e-5


def test_cannys_suppression_keeps_the_same_pixels(told: Any) -> None:
    thin = suppress_along_gradient(told["sound_magnitude"], told["sound_gy"], told["sound_gx"])
    assert np.array_equal(thin > 0, told["sound_canny"] > 0)
    assert np.abs(thin - told["sound_canny"]).max() <= 1e-5


def test_the_frame_is_an_edge_as_published_only() -> None:
    inside = np.ones((8, 8), dtype=bool)
    assert outer_boundary(inside, "published")[0].all()
    assert not outer_boundary(inside, "corrected").any()
    square = np.zeros((8, 8), dtype=bool)
    square[2:6, 2:6] = True
    two, one = (outer_boundary(square, r) for r in ("published", "corrected"))
    assert two.sum() == 6 * 6 - 2 * 2
    assert one.sum() == 6 * 6 - 4 * 4
    assert not (one & square).any()


def test_a_map_of_one_value_has_no_number_as_published_and_stays_zero_when_corrected() -> None:
    flat = np.zeros((5, 5), dtype=np.float32)
    assert np.isnan(stretched(flat)).all()
    assert (stretched(flat, "corrected") == 0).all()
    assert (edge_map([], (5, 5), "corrected").strength == 0).all()

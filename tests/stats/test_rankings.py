"""Rankings: shares add up, and clear winners always win."""

from __future__ import annotations

import numpy as np
import pytest

from segmeter.stats.comparisons import first_shares
from segmeter.stats.intervals import Resampling


def test_shares_of_the_first_rank_add_up() -> None:
    values = np.random.default_rng(0).random((5, 24))
    shares = first_shares(values, Resampling(list(range(24))), "lower")
    assert shares.sum() == pytest.approx(1)


def test_a_model_that_is_better_everywhere_always_comes_first() -> None:
    base = np.random.default_rng(1).random(20)
    drawn = Resampling(list(range(20)))
    assert first_shares([base + 1, base], drawn, "lower").tolist() == [0, 1]
    assert first_shares([base + 1, base], drawn, "higher").tolist() == [1, 0]


def test_models_with_equal_values_share_the_first_place() -> None:
    values = np.ones((3, 10))
    values[2] = 2
    shares = first_shares(values, Resampling(list(range(10))), "lower")
    assert shares.tolist() == pytest.approx([0.5, 0.5, 0])

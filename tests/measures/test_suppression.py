"""Suppression of soft edges against the structured-edges toolbox."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from segmeter.core.errors import BadInput
from segmeter.measures.suppression import across, suppress

SETTINGS = {
    "nms_r1_s5_m101": {"reach": 1, "margin": 5, "slack": 1.01},
    "nms_r2_s5_m101": {"reach": 2, "margin": 5, "slack": 1.01},
    "nms_r1_s0_m100": {"reach": 1, "margin": 0, "slack": 1.0},
    "nms_r2_s0_m100": {"reach": 2, "margin": 0, "slack": 1.0},
}


@pytest.mark.parametrize("key", SETTINGS)
def test_with_given_directions_only_a_plateau_pixel_may_differ(golden: Path, key: str) -> None:
    stored = np.load(golden / "zeroshot" / "edges" / "nms_maps.npz")
    for strengths, directions, expected in zip(
        stored["maps"], stored["orient"], stored[key], strict=True
    ):
        found = suppress(strengths, directions, **SETTINGS[key])
        assert np.count_nonzero(np.abs(found - expected) > 1e-6) <= 1


@pytest.mark.parametrize("key", SETTINGS)
def test_with_computed_directions_few_pixels_differ(golden: Path, key: str) -> None:
    stored = np.load(golden / "zeroshot" / "edges" / "nms_maps.npz")
    for strengths, expected in zip(stored["maps"], stored[key], strict=True):
        found = suppress(strengths, **SETTINGS[key])
        assert np.mean(np.abs(found - expected) > 1e-6) < 0.02


def test_a_broad_ridge_keeps_its_crest_only() -> None:
    columns = np.arange(41)
    ridge = np.tile(np.exp(-(((columns - 20) / 3.0) ** 2)), (41, 1))
    kept = suppress(ridge)[8:-8]
    assert set(np.nonzero(kept)[1].tolist()) & set(range(10, 31)) == {20}
    assert across(ridge)[20, 20] == pytest.approx(0, abs=1e-3) or across(ridge)[
        20, 20
    ] == pytest.approx(np.pi, abs=1e-3)


def test_the_rim_fades_to_nothing() -> None:
    flat = suppress(np.ones((20, 20)), margin=5)
    assert flat[10].tolist() == pytest.approx(
        [0, 0.2, 0.4, 0.6, 0.8, *[1] * 10, 0.8, 0.6, 0.4, 0.2, 0]
    )


def test_a_map_without_sides_is_refused() -> None:
    with pytest.raises(BadInput, match="at least 2 x 2"):
        suppress(np.ones((1, 9)))

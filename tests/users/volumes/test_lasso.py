"""The lasso: it closes, it encloses what it should, and it goes for the larger error."""

from __future__ import annotations

import cv2
import numpy as np

from segmeter.core.masks import Mask
from segmeter.core.scenes import SceneHeader, Target, Volume
from segmeter.core.users import Observation
from segmeter.models.synthetic import Disc
from segmeter.users.volumes.volume_clicks import Lasso, lasso


def test_a_lasso_encloses_the_fullest_slice_of_the_largest_part() -> None:
    bits = np.zeros((8, 20, 20), bool)
    bits[2, 3:6, 3:6] = bits[3, 2:8, 2:9] = True
    bits[6, 15:17, 15:17] = True
    stroke = lasso(Mask.of(bits))
    assert stroke.points[0] == stroke.points[-1]
    assert {point[0] for point in stroke.points} == {3}
    outline = np.array([[x, y] for _, y, x in stroke.points], np.int32)
    filled = cv2.fillPoly(np.zeros((20, 20), np.uint8), [outline], 1)
    np.testing.assert_array_equal(filled > 0, bits[3])


def test_the_larger_error_is_drawn_around_and_a_right_mask_left_alone() -> None:
    target = Target("t", Mask.box((6, 16, 16), (1, 2, 2), (5, 12, 12)))
    header = SceneHeader("volume", (6, 16, 16), (1.0, 1.0, 1.0))
    scene = Volume("drawn", "1", np.zeros((6, 16, 16), np.int16), [target], header=header)
    encoded = Disc(radius=3).encode(scene)
    rng = np.random.default_rng(0)
    for prediction, positive in (
        (Mask.empty((6, 16, 16)), True),
        (Mask.box((6, 16, 16), (0, 0, 0), (6, 16, 16)), False),
    ):
        seen = Observation(scene, target, prediction, (), "corrected", encoded)
        stroke = Lasso().next(seen, rng)
        assert stroke.positive is positive  # type: ignore[union-attr]  # a stroke
        assert Lasso().effort(target, "corrected", 1, (stroke,)).interactions == 3  # type: ignore[arg-type]
    assert (
        Lasso().next(Observation(scene, target, target.mask, (), "corrected", encoded), rng) is None
    )

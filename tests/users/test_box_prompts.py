"""Boxes with the noise of Segment Anything's training and of SAM 2's."""

from __future__ import annotations

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.prompts import Box
from segmeter.core.scenes import Target
from segmeter.users.box_prompts import jittered_box, shaken_box


def moves(draw, side):
    """How far each of the four sides of a box goes, over many draws."""
    target = Target("t", Mask.box((900, 900), (300, 300), (300 + side, 300 + side)))
    rng, tight = np.random.default_rng(5), Box.around(target.mask)
    made = [draw(target, rng) for _ in range(2000)]
    return np.array([[*b.low, *b.high] for b in made]) - [*tight.low, *tight.high]


@pytest.mark.parametrize(("side", "reach"), [(100, 10.0), (400, 20.0)])
def test_the_papers_noise_is_normal_and_clipped_and_sam_2s_is_uniform(side, reach):
    """Difference 20 of the register: a deviation of a tenth, or a tenth at most."""
    normal, uniform = moves(jittered_box, side), moves(shaken_box, side)
    assert np.abs(uniform).max() <= reach
    assert np.abs(uniform).max() > 0.99 * reach
    assert uniform.std() == pytest.approx(reach / np.sqrt(3), rel=0.03)
    assert np.abs(normal).max() == pytest.approx(20.0)  # beyond a tenth, but never past 20 px
    share_at_limit = float((np.abs(normal) > 19.999).mean())
    assert (share_at_limit > 0.5) == (side == 400)


def test_boxes_stay_inside_the_image_and_have_their_names():
    target = Target("t", Mask.box((40, 40), (0, 0), (40, 40)))
    rng = np.random.default_rng(0)
    for _ in range(50):
        box = shaken_box(target, rng)
        assert min(*box.low, *box.high) >= 0
        assert max(*box.low, *box.high) <= 39
    assert catalogue.users.make("box?fit=shaken").name == "shaken-box"
    with pytest.raises(BadInput, match="no fit 'wide'; it is tight, loose, jittered or shaken"):
        catalogue.users.make("box?fit=wide")

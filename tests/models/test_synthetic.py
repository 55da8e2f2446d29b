"""Drawn models do what their names say."""

from __future__ import annotations

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.masks import Mask
from segmeter.core.models import Request
from segmeter.core.prompts import Box, Click, MaskHint, Scribble
from segmeter.core.scenes import Image, Target
from segmeter.models.synthetic import Disc

SHAPE = (40, 60)
SMALL = Target("small", Mask.box(SHAPE, (10, 10), (20, 20)))
LARGE = Target("large", Mask.box(SHAPE, (5, 5), (30, 50)))
SCENE = Image("drawn", "two", np.zeros((*SHAPE, 3), np.uint8), [LARGE, SMALL])


def first_mask(name: str, *prompts: object) -> Mask:
    return catalogue.models.make(name).encode(SCENE).predict([Request(tuple(prompts))])[0].mask()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "prompt",
    [
        Click((15, 15)),
        Box((10, 10), (19, 19)),
        MaskHint(Mask.box(SHAPE, (10, 10), (20, 19))),
        Scribble(((12, 12), (15, 15))),
    ],
)
def test_the_oracle_shows_what_is_meant(prompt: object) -> None:
    assert first_mask("synthetic-oracle", prompt) == SMALL.mask


def test_the_oracle_minds_negative_clicks() -> None:
    assert first_mask("synthetic-oracle", Click((15, 15)), Click((25, 40))) == LARGE.mask


def test_the_noisy_model_gets_better_and_repeats_itself() -> None:
    clicks = [Click((15, 15))] * 6
    wrong = []
    for n in range(1, 7):
        mask = first_mask("synthetic-noisy", *clicks[:n])
        assert mask == first_mask("synthetic-noisy", *clicks[:n])
        wrong.append(mask.area + SMALL.mask.area - 2 * mask.overlap(SMALL.mask))
    assert wrong[0] > 0
    assert wrong[-1] < wrong[0]


def test_the_stubborn_model_never_changes() -> None:
    assert first_mask("synthetic-stubborn", Click((0, 0))) == first_mask(
        "synthetic-stubborn", Box((1, 1), (9, 9))
    )


def test_discs_are_painted_and_erased_in_order() -> None:
    encoded = Disc(radius=3).encode(SCENE)
    on, off = Click((20, 20)), Click((20, 20), positive=False)
    there, gone = encoded.predict([Request((on,)), Request((on, off))])
    assert there.mask().area == 29  # lattice points within 3 of the centre
    assert not gone.mask()


def test_a_disc_at_the_border_is_cut_off() -> None:
    mask = Disc(radius=3).encode(SCENE).predict([Request((Click((0, 0)),))])[0].mask()
    assert mask.low == (0, 0)
    assert mask.high == (4, 4)

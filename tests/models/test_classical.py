"""Classical models find a plain thing, and say nothing where there is nothing to go by."""

from __future__ import annotations

import numpy as np
import pytest

from segmeter.core import catalogue
from segmeter.core.masks import Mask
from segmeter.core.models import Request
from segmeter.core.prompts import Box, Click, MaskHint, Prompt, Scribble
from segmeter.core.scenes import Image, Target
from segmeter.models.classical import GrabCut, RandomWalker
from segmeter.models.conformance import drawn_scene

SCENE = drawn_scene()
GROUND_TRUTH = SCENE.targets[0].mask
CLICK = Click((48, 64))


def iou(prediction: Mask) -> float:
    both = GROUND_TRUTH.overlap(prediction)
    return both / (GROUND_TRUTH.area + prediction.area - both)


@pytest.mark.parametrize("name", ["grabcut", "random-walker"])
@pytest.mark.parametrize(
    "prompt",
    [
        CLICK,
        Box(GROUND_TRUTH.low, tuple(h - 1 for h in GROUND_TRUTH.high)),
        Scribble(((40, 60), (55, 68))),
    ],
)
def test_one_prompt_finds_a_bright_thing_on_a_dark_ground(name: str, prompt: Prompt) -> None:
    encoded = catalogue.models.make(name).encode(SCENE)
    assert iou(encoded.predict([Request((prompt,))])[0].mask()) > 0.9


@pytest.mark.parametrize("name", ["grabcut", "random-walker"])
def test_a_negative_prompt_alone_shows_nothing(name: str) -> None:
    encoded = catalogue.models.make(name).encode(SCENE)
    assert not encoded.predict([Request((Click((3, 3), positive=False),))])[0].mask()


def test_grabcut_starts_from_a_hint_and_from_its_state() -> None:
    encoded = GrabCut().encode(SCENE)
    hint = encoded.predict([Request((MaskHint(GROUND_TRUTH),))])[0]
    assert iou(hint.mask()) > 0.9
    again = encoded.predict([Request((CLICK,), hint.state)])[0]
    assert iou(again.mask()) > 0.9


@pytest.mark.parametrize("model", [GrabCut(side=48), RandomWalker(side=48)])
def test_a_smaller_copy_still_answers_at_the_images_size(model: GrabCut | RandomWalker) -> None:
    mask = model.encode(SCENE).predict([Request((CLICK,))])[0].mask()
    assert mask.shape == SCENE.shape
    assert iou(mask) > 0.85


@pytest.mark.parametrize("name", ["grabcut", "random-walker"])
def test_a_box_around_everything_does_not_fail(name: str) -> None:
    plain = Image("drawn", "flat", np.full((20, 30, 3), 7, np.uint8), [Target("t", GROUND_TRUTH)])
    encoded = catalogue.models.make(name).encode(plain)
    assert encoded.predict([Request((Box((0, 0), (19, 29)),))])[0].mask().shape == (20, 30)

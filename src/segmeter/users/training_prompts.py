"""Prompts of Segment Anything's interactive training, as a simulated annotator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from segmeter.core import catalogue
from segmeter.core.capabilities import GivesPrompts, capable
from segmeter.core.error_regions import error_regions
from segmeter.core.errors import check_choice
from segmeter.core.masks import Mask
from segmeter.core.prompts import Click, Prompt
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.users.boxes import jittered_box, shaken_box
from segmeter.users.error_prompts import pixel_at
from segmeter.users.sam_points import random_point


def training_point(target: Target, mask: Mask, rng: np.random.Generator) -> Click:
    """A click on a wrong pixel, all equally likely; its sign is that of the error.

    Without an error it is a negative click on the background, or a positive one where the object
    fills the image. Pixels may be clicked twice.

    >>> square = Target("a", Mask.box((4, 4), (0, 0), (2, 2)))
    >>> training_point(square, Mask.empty((4, 4)), np.random.default_rng(0)).positive
    True
    """
    missed, wrong = error_regions(target, mask)
    if not missed.area + wrong.area:
        whole = Mask.box(mask.shape, (0,) * len(mask.shape), mask.shape)
        judged = target.mask if target.ignore is None else target.mask | target.ignore
        missed, wrong = Mask.empty(mask.shape), whole - judged
        if not wrong:
            missed = target.mask
    drawn = int(rng.integers(missed.area + wrong.area))
    positive = drawn < missed.area
    region = missed if positive else wrong
    place = np.flatnonzero(region.bits)[drawn if positive else drawn - missed.area]
    return Click(pixel_at(region, int(place)), positive)


@catalogue.users.add("training-prompts", summary="prompts of SAM's training: random points, boxes")
@dataclass(frozen=True, slots=True)
@capable(GivesPrompts)
class TrainingPrompts:
    """First a random point on the object or a noisy box, then random points on the error.

    Attributes
    ----------
    box
        Noise of the box: `sam` (normal with a tenth of the side, clipped to 20 pixels) or `sam2`
        (uniform within a tenth of the side and 20 pixels).
    boxes
        Share of sessions that start with a box; a half in the paper.
    from_object
        Share of later points that are drawn from the object instead of the error: 0 in SAM, 0.1
        in SAM 2.
    """

    gives: ClassVar[frozenset[str]] = frozenset({"box"})
    box: str = "sam"
    boxes: float = 0.5
    from_object: float = 0.0
    name: str = "training-prompts"

    def __post_init__(self) -> None:
        check_choice("box", self.box, ("sam", "sam2"))

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        target = observation.target
        if not observation.prompts and rng.random() < self.boxes:
            return (jittered_box if self.box == "sam" else shaken_box)(target, rng)
        if not observation.prompts or (self.from_object and rng.random() < self.from_object):
            return random_point(target, rng)
        return training_point(target, observation.mask, rng)

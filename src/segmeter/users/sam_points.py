"""Points of Segment Anything: the deepest pixel of the whole error, and prompts for training.

The whole error is looked at, all its components together, and a pixel may be clicked twice;
the click benchmarks' robot (`centre-click`) never clicks a pixel again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from segmeter.core import catalogue
from segmeter.core.capabilities import GivesPrompts, Team, capable
from segmeter.core.error_regions import Depth, deepest_sides, error_regions
from segmeter.core.errors import check_choice
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.morphology import parts
from segmeter.core.prompts import Click, Prompt
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.users.box_prompts import jittered_box, shaken_box
from segmeter.users.error_prompts import Generators, Given, Teamed, drawn_click

Prediction = tuple[Target, Mask, ProtocolName]


def next_points(predictions: Sequence[Prediction]) -> list[Click | None]:
    """Clicks on the pixels of the whole error that lie farthest from the error's boundary.

    Positive when the false negatives are deeper than the false positives; first in raster
    order among equally deep pixels; the image's border counts as boundary. Equally deep:
    `published` clicks the false positive, `corrected` the one in the larger component (of
    8-connected pixels), and the false negative when these are equal too. With no error,
    `corrected` accepts the mask, while `published` gives a negative click at (0, 0).

    >>> square = Target("a", Mask.box((9, 9), (2, 2), (7, 7)))
    >>> next_points([(square, Mask.empty((9, 9)), "corrected")])
    [Click(point=(4, 4), positive=True)]
    >>> next_points([(square, square.mask, "published")])
    [Click(point=(0, 0), positive=False)]
    """
    sides = deepest_sides([(target, prediction, ()) for target, prediction, _ in predictions])
    return [_chosen(prediction, *both) for prediction, both in zip(predictions, sides, strict=True)]


def random_point(target: Target, rng: np.random.Generator) -> Click:
    """A positive click on the object, every judged pixel as likely as the other: one draw."""
    nothing = Mask.empty(target.mask.shape)
    click = drawn_click(error_regions(target, nothing)[0], nothing, rng)
    assert click is not None
    return click


def _chosen(prediction: Prediction, false_negatives: Depth, added: Depth) -> Click | None:
    target, mask, protocol = prediction
    if false_negatives.point is None and added.point is None:
        return None if protocol == "corrected" else Click((0,) * len(mask.shape), False)
    positive = false_negatives.squared > added.squared
    if false_negatives.squared == added.squared and protocol == "corrected":
        missed, wrong = error_regions(target, mask)
        larger = _component_area(missed, false_negatives.point)
        positive = larger >= _component_area(wrong, added.point)
    point = false_negatives.point if positive else added.point
    return None if point is None else Click(point, positive)


def _component_area(mask: Mask, point: tuple[int, ...] | None) -> int:
    """How many pixels hang together with a pixel of the mask, over edges and corners."""
    return 0 if point is None else next(one.area for one in parts(mask) if one[point])


def _points(users: Sequence[Any], seen: Sequence[Observation], draws: Generators) -> Given:
    """The points of all such users of a scene, found in one call."""
    found: Given = [*next_points([(s.target, s.mask, s.protocol) for s in seen])]
    for k, now in enumerate(seen):
        if users[k].starts_anywhere and not now.prompts:
            found[k] = random_point(now.target, draws[k])
    return found


@catalogue.users.add("centre-point", "Segment Anything's points: deepest pixel of the whole error")
@dataclass(frozen=True, slots=True)
class CentrePoint(Teamed):
    """Clicks the object's centre, then the deepest pixel of the whole error."""

    team: ClassVar[Team] = staticmethod(_points)
    starts_anywhere: ClassVar[bool] = False
    name: str = "centre-point"


@catalogue.users.add("random-point", "as centre-point, with the first point anywhere on the object")
@dataclass(frozen=True, slots=True)
class RandomPoint(CentrePoint):
    """Clicks anywhere on the object, then the deepest pixel of the whole error."""

    starts_anywhere: ClassVar[bool] = True
    name: str = "random-point"


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
    click = drawn_click(missed, wrong, rng)
    assert click is not None
    return click


@catalogue.users.add("training-prompts", "prompts of SAM's training: random points, boxes")
@dataclass(frozen=True, slots=True)
@capable(GivesPrompts)
class TrainingPrompts:
    """First a random point on the object or a noisy box, then random points on the error.

    The noise of the box is `sam` (normal with a tenth of the side, clipped to 20 pixels) or `sam2`
    (uniform within a tenth of the side and 20 pixels).
    """

    gives: ClassVar[frozenset[str]] = frozenset({"box"})
    box: str = "sam"
    boxes: float = 0.5  # share of sessions that start with a box
    from_object: float = 0.0  # share of later points drawn from the object; 0.1 in SAM 2
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

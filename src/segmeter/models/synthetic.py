"""Synthetic models: segmenters with a known behaviour, for tests, and the baseline `disc`.

The oracle and the noisy model read the scene's own targets, so their scores only test the
evaluation itself. `segmeter list models` shows synthetic models with `--all`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from segmeter.core import catalogue, seeds
from segmeter.core.capabilities import capable
from segmeter.core.masks import Bits, Mask
from segmeter.core.models import MaskPrediction, ModelCard, Request
from segmeter.core.prompts import Box, Click, MaskHint, Point, Prompt, Scribble, points_of
from segmeter.core.scenes import Scene, Target
from segmeter.models.adapters import OneByOne
from segmeter.models.volumes.slices import ReadsTargets

_ABILITIES = frozenset({"click", "box", "scribble", "mask"})


@catalogue.models.add("synthetic-oracle", "returns the ground truth")
@capable(ReadsTargets)
class Oracle:
    """Shows the target that the prompts agree with most."""

    card = ModelCard("synthetic-oracle", "returns the ground truth", _ABILITIES)
    synthetic = True

    def encode(self, scene: Scene) -> OneByOne:
        def one(request: Request) -> MaskPrediction:
            target = meant(scene, request.prompts)
            return MaskPrediction(target.mask if target else Mask.empty(scene.shape))

        return OneByOne(one)


@catalogue.models.add(
    "synthetic-noisy", "returns the ground truth with errors that halve at every prompt"
)
@capable(ReadsTargets)
class Noisy:
    """The oracle with squares of error regions, half as many after every prompt.

    Parameters
    ----------
    wrong
        Share of the squares that is wrong after the first prompt.
    square
        Side of a square in pixels.
    """

    card = ModelCard(
        "synthetic-noisy", "shows the target with error regions that halve", _ABILITIES
    )
    synthetic = True

    def __init__(self, wrong: float = 0.25, square: int = 8) -> None:
        self.wrong, self.square = wrong, square

    def encode(self, scene: Scene) -> OneByOne:
        return OneByOne(lambda request: self._one(scene, request.prompts))

    def _one(self, scene: Scene, prompts: tuple[Prompt, ...]) -> MaskPrediction:
        target = meant(scene, prompts)
        if target is None:
            return MaskPrediction(Mask.empty(scene.shape), 0.0)
        share = self.wrong * 0.5 ** (len(prompts) - 1)
        rng = seeds.generator("noisy", scene.name, target.id, len(prompts))
        flipped = rng.random([-(-n // self.square) for n in scene.shape]) < share
        for axis in range(len(scene.shape)):
            flipped = flipped.repeat(self.square, axis)
        flipped = flipped[tuple(slice(n) for n in scene.shape)]
        return MaskPrediction(Mask.of(target.mask.dense() ^ flipped), 1 - share)


@catalogue.models.add("synthetic-stubborn", "returns the same box for every prompt")
class Stubborn:
    """Returns the middle of the scene for all prompts."""

    card = ModelCard("synthetic-stubborn", "returns the same box for every prompt", _ABILITIES)
    synthetic = True

    def encode(self, scene: Scene) -> OneByOne:
        low = [n // 4 for n in scene.shape]
        high = [max(n - n // 4, a + 1) for n, a in zip(scene.shape, low, strict=True)]
        return OneByOne(lambda request: MaskPrediction(Mask.box(scene.shape, low, high)))


@catalogue.models.add("disc", "paints a disc at each click")
class Disc:
    """Paints a disc at a click, fills a box, follows a stroke; negative prompts erase."""

    card = ModelCard("disc", "paints a disc at each click", _ABILITIES)

    def __init__(self, radius: float = 20) -> None:
        self.radius = radius

    def encode(self, scene: Scene) -> OneByOne:
        return OneByOne(lambda request: MaskPrediction(self._paint(scene, request.prompts)))

    def _paint(self, scene: Scene, prompts: Iterable[Prompt]) -> Mask:
        canvas = np.zeros(scene.shape, dtype=bool)
        for prompt in prompts:
            match prompt:
                case Click(positive=positive) | Scribble(positive=positive):
                    for point in points_of(prompt):
                        self._dab(canvas, point, positive)
                case Box(low, high):
                    canvas[_within(low, high)] = True
                case MaskHint(mask):
                    canvas = mask.dense()
        return Mask.of(canvas)

    def _dab(self, canvas: Bits, point: Point, positive: bool) -> None:
        low = tuple(max(0, int(c - self.radius)) for c in point)
        box = _within(low, tuple(c + self.radius for c in point))
        part = canvas[box]
        axes = np.ogrid[tuple(slice(a, a + n) for a, n in zip(low, part.shape, strict=True))]
        squared = sum((a - c) ** 2 for a, c in zip(axes, point, strict=True))
        part[squared <= self.radius**2] = positive


def meant(scene: Scene, prompts: Iterable[Prompt]) -> Target | None:
    """The target that agrees with most prompts; the smallest among equals, then the first."""
    wanted = list(prompts)

    def agreement(target: Target) -> tuple[float, int]:
        return sum(_agrees(target.mask, p) for p in wanted), -target.mask.area

    return max(scene.targets, key=agreement, default=None)


def _agrees(mask: Mask, prompt: Prompt) -> float:
    match prompt:
        case Click(positive=positive) | Scribble(positive=positive):
            points = points_of(prompt)
            return sum(mask[_pixel(p)] == positive for p in points) / max(len(points), 1)
        case Box(low, high):
            corners = [_pixel(low), tuple(c + 1 for c in _pixel(high))]
            return _likeness(mask, Mask.box(mask.shape, *corners))
        case MaskHint(other):
            return _likeness(mask, other)
        case _:
            return 0.0


def _likeness(one: Mask, other: Mask) -> float:
    both = one.overlap(other)
    return both / max(one.area + other.area - both, 1)


def _pixel(point: Point) -> tuple[int, ...]:
    return tuple(int(c + 0.5) for c in point)


def _within(low: Point, high: Point) -> tuple[slice, ...]:
    return tuple(slice(max(0, int(a)), int(b) + 1) for a, b in zip(low, high, strict=True))

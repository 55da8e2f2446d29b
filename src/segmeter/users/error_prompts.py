"""Prompts in the error region: centre clicks, random clicks and scribbles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from segmeter.core import catalogue
from segmeter.core.capabilities import GivesPrompts, capable
from segmeter.core.error_regions import Depth, deepest, deepest_sides, error_regions, squared_depth
from segmeter.core.masks import Mask
from segmeter.core.prompts import Click, Point, Prompt, Scribble
from segmeter.core.seeds import LazyGenerators
from segmeter.core.users import Observation


@dataclass(frozen=True, slots=True)
class Found:
    """The centre click of an observation, None to accept, and the pixels clicked before."""

    click: Click | None
    observation: Observation
    clicked: tuple[tuple[int, ...], ...]


def centre_click(observation: Observation) -> Click | None:
    """A click on the deepest wrong pixel that was not clicked before.

    Positive when the false negatives are deeper than the false positives; a tie is a negative
    click; first in raster order among equally deep pixels. With nothing left, `corrected` is
    content, while `published` clicks (0, 0) as background, again and again.
    """
    return centre_clicks([observation])[0].click


def centre_clicks(observations: Sequence[Observation]) -> list[Found]:
    """The centre clicks of many observations, found together."""
    clicked = [tuple(_pixel(p) for p in s.prompts if isinstance(p, Click)) for s in observations]
    predictions = [(s.target, s.mask, done) for s, done in zip(observations, clicked, strict=True)]
    return [
        Found(_chosen(observation, *both), observation, done)
        for observation, both, done in zip(
            observations, deepest_sides(predictions), clicked, strict=True
        )
    ]


def _chosen(
    observation: Observation, false_negatives: Depth, false_positives: Depth
) -> Click | None:
    positive = false_negatives.squared > false_positives.squared
    point = false_negatives.point if positive else false_positives.point
    if point is not None:
        return Click(point, positive)
    return (
        Click((0,) * len(observation.mask.shape), False)
        if observation.protocol == "published"
        else None
    )


class Clicker(Protocol):
    """A user who starts from the centre click."""

    @staticmethod
    def next_batch(
        users: Sequence[Any], found: Sequence[Found], draws: Sequence[np.random.Generator]
    ) -> list[Prompt | None]:
        """The prompts of several users of this kind, each with their own centre click."""
        ...


class Together:
    """All such users of a scene: centre clicks are found in one call, then kind by kind."""

    def next_batch(
        self,
        users: Sequence[Clicker],
        observations: Sequence[Observation],
        draws: Sequence[np.random.Generator],
    ) -> list[Prompt | None]:
        found = centre_clicks(observations)
        prompts: list[Prompt | None] = [None] * len(users)
        for kind in dict.fromkeys(type(user) for user in users):
            places = [i for i, user in enumerate(users) if type(user) is kind]
            own = LazyGenerators(draws.__getitem__, places)
            given = kind.next_batch([users[i] for i in places], [found[i] for i in places], own)
            for i, prompt in zip(places, given, strict=True):
                prompts[i] = prompt
        return prompts


TOGETHER = Together()


@catalogue.users.add(
    "centre-click", summary="clicks the wrong pixel farthest from the region's edge"
)
@dataclass(frozen=True, slots=True)
class CentreClick:
    """Clicks the deepest wrong pixel, in the protocol of the session."""

    team: ClassVar[Together] = TOGETHER
    name: str = "centre-click"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        return centre_click(observation)

    @staticmethod
    def next_batch(
        users: Sequence[CentreClick], found: Sequence[Found], draws: Sequence[np.random.Generator]
    ) -> list[Prompt | None]:
        return [one.click for one in found]


def _pixel(click: Click) -> tuple[int, ...]:
    return tuple(map(round, click.point))


def pixel_at(mask: Mask, index: int) -> tuple[int, ...]:
    """The scene's pixel of an index into a mask's bits, these counted in raster order.

    Only what is drawn is turned into coordinates: all pixels of a mask take ten times as long
    and three times the memory.

    >>> pixel_at(Mask.box((9, 9), (2, 3), (5, 7)), 6)
    (3, 5)
    """
    place = np.unravel_index(index, mask.bits.shape)
    return tuple(int(c) + a for c, a in zip(place, mask.low, strict=True))


def random_click(observation: Observation, rng: np.random.Generator) -> Click | None:
    """A click on a wrong pixel, each as likely as the other, not clicked before.

    Its sign follows from where it falls: positive on the false negatives, negative on what is
    false positive. None when no such pixel is left.
    """
    false_negatives, false_positives = error_regions(observation.target, observation.mask)
    clicked = {p.point for p in observation.prompts if isinstance(p, Click)}
    open_pixels = [_open(region, clicked) for region in (false_negatives, false_positives)]
    counts = [len(indices) for indices in open_pixels]
    if not sum(counts):
        return None
    drawn = int(rng.integers(sum(counts)))
    positive = drawn < counts[0]
    region = false_negatives if positive else false_positives
    index = open_pixels[0][drawn] if positive else open_pixels[1][drawn - counts[0]]
    return Click(pixel_at(region, int(index)), positive)


@catalogue.users.add("random-click", summary="clicks anywhere in the error region")
@dataclass(frozen=True, slots=True)
class RandomClick:
    """Clicks anywhere in the error region."""

    name: str = "random-click"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        return random_click(observation, rng)


@catalogue.users.add("random-first-click", summary="first click anywhere on the object")
@dataclass(frozen=True, slots=True)
class RandomFirstClick:
    """First clicks anywhere on the object, then at the centre of the error region."""

    team: ClassVar[Together] = TOGETHER
    name: str = "random-first-click"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        return centre_click(observation) if observation.prompts else random_click(observation, rng)

    @staticmethod
    def next_batch(
        users: Sequence[RandomFirstClick],
        found: Sequence[Found],
        draws: Sequence[np.random.Generator],
    ) -> list[Prompt | None]:
        return [
            one.click if one.observation.prompts else random_click(one.observation, draws[i])
            for i, one in enumerate(found)
        ]


def _open(mask: Mask, clicked: set[tuple[float, ...]]) -> npt.NDArray[np.intp]:
    """The mask's pixels that were not clicked, as indices into its bits in raster order."""
    bits = mask.bits
    taken = [point for point in clicked if all(float(c).is_integer() for c in point)]
    inside = [pixel for point in taken if mask[pixel := tuple(int(c) for c in point)]]
    if inside:
        bits = bits.copy()
        for pixel in inside:
            bits[tuple(c - a for c, a in zip(pixel, mask.low, strict=True))] = False
    return np.flatnonzero(bits)


def stroke(mask: Mask, longest: int = 200) -> tuple[Point, ...]:
    """A path of pixels through the deepest part of a mask, from end to end.

    Starts at the deepest pixel and walks both ways, each step to the deepest of the eight
    neighbours that are farther from the start; stops at the edge or after `longest` pixels.

    >>> path = stroke(Mask.box((9, 30), (2, 0), (7, 30)))
    >>> len(path), {y for y, x in path[2:-5]}
    (32, {4})
    """
    depth = squared_depth(mask.bits)
    start = np.unravel_index(int(depth.argmax()), depth.shape)
    here = (int(start[0]), int(start[1]))
    forward = _walk(depth, here, longest // 2, (0, 0))
    away = (forward[-1][0] - here[0], forward[-1][1] - here[1])
    backward = _walk(depth, here, longest // 2, away)
    path = [*reversed(backward[1:]), *forward]
    return tuple((y + mask.low[0], x + mask.low[1]) for y, x in path)


@catalogue.users.add("scribble", summary="draws along the middle of the deeper error region")
@dataclass(frozen=True, slots=True)
@capable(GivesPrompts)
class Scribbler:
    """Draws along the middle of whichever error region is deeper."""

    gives: ClassVar[frozenset[str]] = frozenset({"scribble"})
    longest: int = 200
    name: str = "scribble"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        false_negatives, false_positives = error_regions(observation.target, observation.mask)
        if not false_negatives and not false_positives:
            return None
        positive = deepest(false_negatives).squared > deepest(false_positives).squared
        return Scribble(
            stroke(false_negatives if positive else false_positives, self.longest), positive
        )


def _walk(
    depth: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    start: tuple[int, int],
    steps: int,
    away: tuple[int, int],
) -> list[tuple[int, int]]:
    """Greedy steps along the ridge, each farther from the start, none in the direction `away`."""

    def reached(pixel: tuple[int, int]) -> int:
        return (pixel[0] - start[0]) ** 2 + (pixel[1] - start[1]) ** 2

    def ahead(pixel: tuple[int, int]) -> bool:
        along = (pixel[0] - start[0]) * away[0] + (pixel[1] - start[1]) * away[1]
        inside = 0 <= pixel[0] < depth.shape[0] and 0 <= pixel[1] < depth.shape[1]
        return inside and bool(depth[pixel]) and along <= 0 and reached(pixel) > reached(path[-1])

    path = [start]
    for _ in range(steps):
        y, x = path[-1]
        around = [(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
        nearby = [pixel for pixel in around if ahead(pixel)]
        if not nearby:
            break
        path.append(max(nearby, key=lambda pixel: int(depth[pixel])))
    return path

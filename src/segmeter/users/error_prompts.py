"""Prompts in the error region: centre clicks, random clicks, scribbles, Segment Anything's points.

Segment Anything's points use the whole error, all its components together, and a pixel
may be clicked twice; the click benchmarks' robot (`centre-click`) never clicks a pixel again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np

from segmeter.clickability.groups import Draw
from segmeter.clickability.map_sources import FirstRounds
from segmeter.core import catalogue
from segmeter.core.capabilities import GivesPrompts, Team, capable
from segmeter.core.error_regions import Depth, deepest, deepest_sides, error_regions, squared_depth
from segmeter.core.grouping import grouped
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.morphology import parts
from segmeter.core.prompts import Click, Point, Prompt, Scribble
from segmeter.core.scenes import Target
from segmeter.core.users import Observation

Generators = Callable[[int], np.random.Generator]
Draws = Callable[[], np.random.Generator]
Given = list[Prompt | None]
Prediction = tuple[Target, Mask, ProtocolName]


@dataclass(frozen=True, slots=True)
class Found:
    """The centre click of an observation, None to accept, and the pixels clicked before."""

    click: Click | None
    observation: Observation
    clicked: tuple[tuple[int, ...], ...]


def centre_click(observation: Observation) -> Click | None:
    """A click on the deepest wrong pixel that was not clicked before.

    Positive when the false negatives are deeper than the false positives; a tie is a negative
    click; first in raster order among equally deep pixels. With nothing left, `corrected`
    accepts the mask, while `published` clicks (0, 0) as background in every round.
    """
    return centre_clicks([observation])[0].click


def centre_clicks(observations: Sequence[Observation]) -> list[Found]:
    clicked = [tuple(clicked_pixels(seen.prompts)) for seen in observations]
    predictions = [(s.target, s.mask, done) for s, done in zip(observations, clicked, strict=True)]
    sides = zip(observations, deepest_sides(predictions), clicked, strict=True)
    return [
        Found(_chosen(seen.mask, seen.protocol, *both), seen, done) for seen, both, done in sides
    ]


def _chosen(mask: Mask, protocol: ProtocolName, missed: Depth, added: Depth) -> Click | None:
    positive = missed.squared > added.squared
    point = missed.point if positive else added.point
    if point is not None:
        return Click(point, positive)
    return Click((0,) * len(mask.shape), False) if protocol == "published" else None


class Teamed:
    """A user who is called through a team, alone or with others."""

    __slots__ = ()
    team: ClassVar[Team]

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        return cast("Prompt | None", self.team([self], [observation], lambda _: rng)[0])


def together(users: Sequence[Any], seen: Sequence[Observation], draws: Generators) -> Given:
    """All users of a scene who start from the centre click, which is found for all in one call.

    `after(found, draws)` gives a user's prompt, or a draw from a click source that is made for all
    users at once.
    """
    found = centre_clicks(seen)
    given = [user.after(found[i], partial(draws, i)) for i, user in enumerate(users)]
    drawing = (i for i, draw in enumerate(given) if isinstance(draw, Draw))
    by_source: dict[FirstRounds, list[int]] = grouped(drawing, lambda i: users[i].source)
    for source, places in by_source.items():
        points = source.clicks([given[i] for i in places])
        for i, point in zip(places, points, strict=True):
            # A map without mass on what is wrong leaves only the centre to click.
            clicked = None if point is None else Click(point, given[i].positive)
            given[i] = clicked or found[i].click
    return given


@catalogue.users.add("centre-click", "clicks the wrong pixel farthest from the region's edge")
@dataclass(frozen=True, slots=True)
class CentreClick(Teamed):
    """Clicks the deepest wrong pixel, in the protocol of the session."""

    team: ClassVar[Team] = staticmethod(together)
    name: str = "centre-click"

    def after(self, found: Found, draws: Draws) -> Prompt | None:
        return found.click


def clicked_pixels(prompts: Sequence[Prompt]) -> list[tuple[int, ...]]:
    return [prompt.pixel for prompt in prompts if isinstance(prompt, Click)]


def pixel_at(mask: Mask, index: int) -> tuple[int, ...]:
    """The scene's pixel of an index into a mask's bits, these counted in raster order.

    Only what is drawn is turned into coordinates: all pixels of a mask take ten times as long
    and three times the memory.

    >>> pixel_at(Mask.box((9, 9), (2, 3), (5, 7)), 6)
    (3, 5)
    """
    place = np.unravel_index(index, mask.bits.shape)
    return tuple(int(c) + a for c, a in zip(place, mask.low, strict=True))


def unclicked(region: Mask, prompts: Sequence[Prompt]) -> Mask:
    bits = region.bits.copy()
    for pixel in clicked_pixels(prompts):
        if region[pixel]:
            bits[tuple(c - a for c, a in zip(pixel, region.low, strict=True))] = False
    return Mask.of(bits, region.low, region.shape)


def drawn_click(
    false_negatives: Mask, false_positives: Mask, rng: np.random.Generator
) -> Click | None:
    """A click on a pixel of two regions, all equally likely: one draw; None if both are empty.

    It is positive on the first region and negative on the second.
    """
    first = false_negatives.area
    if not first + false_positives.area:
        return None
    drawn = int(rng.integers(first + false_positives.area))
    positive = drawn < first
    region = false_negatives if positive else false_positives
    index = np.flatnonzero(region.bits)[drawn if positive else drawn - first]
    return Click(pixel_at(region, int(index)), positive)


def random_click(observation: Observation, rng: np.random.Generator) -> Click | None:
    """A click on a wrong pixel, each as likely as the other, not clicked before.

    Its sign follows from where it falls: positive on the false negatives, negative on what is
    false positive. None when no such pixel is left.
    """
    sides = error_regions(observation.target, observation.mask)
    missed, added = (unclicked(side, observation.prompts) for side in sides)
    return drawn_click(missed, added, rng)


@catalogue.users.add("random-click", "clicks anywhere in the error region")
@dataclass(frozen=True, slots=True)
class RandomClick:
    """Clicks anywhere in the error region."""

    name: str = "random-click"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompt | None:
        return random_click(observation, rng)


@catalogue.users.add("random-first-click", "first click anywhere on the object")
@dataclass(frozen=True, slots=True)
class RandomFirstClick(Teamed):
    """First clicks anywhere on the object, then at the centre of the error region."""

    team: ClassVar[Team] = staticmethod(together)
    name: str = "random-first-click"

    def after(self, found: Found, draws: Draws) -> Prompt | None:
        now = found.observation
        return found.click if now.prompts else random_click(now, draws())


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


@catalogue.users.add("scribble", "draws along the middle of the deeper error region")
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
        wrong = false_negatives if positive else false_positives
        return Scribble(stroke(wrong, self.longest), positive)


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
    pairs = zip(predictions, sides, strict=True)
    return [_on_whole_error(prediction, *both) for prediction, both in pairs]


def random_point(target: Target, rng: np.random.Generator) -> Click:
    """A positive click on the object, every judged pixel as likely as the other: one draw."""
    nothing = Mask.empty(target.mask.shape)
    click = drawn_click(error_regions(target, nothing)[0], nothing, rng)
    assert click is not None
    return click


def _on_whole_error(prediction: Prediction, missed: Depth, added: Depth) -> Click | None:
    """As `next_points` breaks ties: by the components that the two deepest pixels belong to."""
    target, mask, protocol = prediction
    equal = missed.squared == added.squared
    if protocol == "corrected" and equal and missed.point and added.point:
        regions = zip(error_regions(target, mask), (missed.point, added.point), strict=True)
        areas = [next(p.area for p in parts(region) if p[point]) for region, point in regions]
        if areas[0] >= areas[1]:
            return Click(missed.point, True)
    return _chosen(mask, protocol, missed, added)


def _points(users: Sequence[Any], seen: Sequence[Observation], draws: Generators) -> Given:
    """The points of all such users of a scene, found in one call."""
    found: Given = [*next_points([(s.target, s.mask, s.protocol) for s in seen])]
    for k, now in enumerate(seen):
        if users[k].starts_anywhere and not now.prompts:
            found[k] = random_point(now.target, draws(k))
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

"""Scribbles: a stroke along the middle of the error region."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from segmeter.core import catalogue
from segmeter.core.capabilities import GivesPrompts, capable
from segmeter.core.error_regions import deepest, error_regions, squared_depth
from segmeter.core.masks import Mask
from segmeter.core.prompts import Point, Prompt, Scribble
from segmeter.core.users import Observation

__all__ = ["Scribbler", "stroke"]


def stroke(mask: Mask, longest: int = 200) -> tuple[Point, ...]:
    """A path of pixels through the deepest part of a mask, from end to end.

    Starts at the deepest pixel and walks both ways, each step to the deepest of the eight
    neighbours not yet passed that leads on; stops at the edge or after `longest` pixels.
    """
    depth = squared_depth(mask.bits)
    start = np.unravel_index(int(depth.argmax()), depth.shape)
    here = (int(start[0]), int(start[1]))
    passed = np.zeros(depth.shape, dtype=bool)
    forward = _walk(depth, here, passed, longest // 2)
    backward = _walk(depth, here, passed, longest // 2)
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
    passed: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    steps: int,
) -> list[tuple[int, int]]:
    """Greedy steps along the ridge; a small ring around each step is not entered again."""
    path = [start]
    y, x = start
    for _ in range(steps):
        ring = passed[max(0, y - 1) : y + 2, max(0, x - 1) : x + 2]
        around = np.where(ring, 0, depth[max(0, y - 1) : y + 2, max(0, x - 1) : x + 2])
        ring[...] = True
        if not around.any():
            break
        dy, dx = np.unravel_index(int(around.argmax()), around.shape)
        y, x = max(0, y - 1) + int(dy), max(0, x - 1) + int(dx)
        path.append((y, x))
    return path

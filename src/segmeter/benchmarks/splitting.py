"""What a run offers to be split by group: one number of each target or picture, and its groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from segmeter.core.benchmarks import Curves

__all__ = ["Key", "Said", "Splittable"]

Key = tuple[str, str, str]
"""Data set, scene and target; the target is empty where whole pictures are judged."""

Said = Mapping[Key, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Splittable:
    """Values in 0..1 of one measure by target and round, and what is known of each target.

    `rounds` are those that are told.
    """

    curves: tuple[Curves, ...]
    said: Said
    measure: str
    rounds: tuple[int, ...]

"""Draws of volume prompters: one generator in `corrected`, the original's stream in `published`."""

from __future__ import annotations

import random
from typing import Protocol

import numpy as np

from segmeter.core.models import ProtocolName

__all__ = ["PUBLISHED_SEED", "Draws", "FreeDraws", "PublishedDraws", "draws_of"]

PUBLISHED_SEED = 1
"""The original's runner passes this seed everywhere, whatever its configuration says."""


class Draws(Protocol):
    """Random draws of a prompter."""

    def restart(self) -> None:
        """Restart where the original sets its seed again; a free generator ignores it."""
        ...

    def choose(self, count: int, size: int) -> list[int]:
        """So many different numbers below `count`, in drawn order."""
        ...

    def repeat(self, count: int, size: int) -> list[int]:
        """So many numbers below `count`, which may repeat."""
        ...

    def below(self, count: int) -> int:
        """One number below `count`."""
        ...

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        ...

    def shifts(self, reach: int) -> list[int]:
        """Four whole numbers from -reach to reach."""
        ...

    def fraction(self) -> float:
        """A number in [0, 1) for where a scribble starts."""
        ...


class PublishedDraws:
    """The legacy generator of the original: every prompter shares one stream.

    Scribbles start at a draw of Python's own generator, seeded each time.

    >>> PublishedDraws().choose(10, 3)
    [2, 9, 6]
    """

    def __init__(self, seed: int = PUBLISHED_SEED) -> None:
        self._seed = seed
        self._stream = np.random.RandomState(seed)

    def restart(self) -> None:
        self._stream.seed(self._seed)

    def choose(self, count: int, size: int) -> list[int]:
        return [int(i) for i in self._stream.choice(count, size, replace=False)]

    def repeat(self, count: int, size: int) -> list[int]:
        return [int(i) for i in self._stream.choice(count, size, replace=True)]

    def below(self, count: int) -> int:
        return int(self._stream.randint(count))

    def chance(self, probability: float) -> bool:
        return bool(self._stream.binomial(1, probability))

    def shifts(self, reach: int) -> list[int]:
        return [int(i) for i in self._stream.randint(-reach, reach + 1, size=4)]

    def fraction(self) -> float:
        own = random.Random(self._seed)
        own.randint(2, 2)  # the original draws the dilation's radius, which is always 2
        return own.random()


class FreeDraws:
    """Independent draws from a generator that belongs to target, prompter and round."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def restart(self) -> None:
        return

    def choose(self, count: int, size: int) -> list[int]:
        return [int(i) for i in self._rng.choice(count, size, replace=False)]

    def repeat(self, count: int, size: int) -> list[int]:
        return [int(i) for i in self._rng.integers(count, size=size)]

    def below(self, count: int) -> int:
        return int(self._rng.integers(count))

    def chance(self, probability: float) -> bool:
        return bool(self._rng.random() < probability)

    def shifts(self, reach: int) -> list[int]:
        return [int(i) for i in self._rng.integers(-reach, reach + 1, size=4)]

    def fraction(self) -> float:
        return float(self._rng.random())


def draws_of(protocol: ProtocolName, rng: np.random.Generator) -> Draws:
    """Random draws of a protocol."""
    return PublishedDraws() if protocol == "published" else FreeDraws(rng)

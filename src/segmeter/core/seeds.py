"""Seeds by hashing: who draws what depends on names alone, never on order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    import numpy as np


def fingerprint(*parts: object, size: int = 16) -> str:
    """A short hexadecimal digest of the parts' texts, the same on every machine.

    >>> fingerprint("grabcut", 1) == fingerprint("grabcut", 1)
    True
    """
    digest = hashlib.blake2b(digest_size=size)
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


def generator(*parts: object) -> np.random.Generator:
    """A generator that depends on the parts alone.

    Plans use (plan seed, dataset, scene, target, user, round), so that the number of
    workers, their order and a resume change nothing.

    >>> int(generator('grabcut', 1).integers(100)) == int(generator('grabcut', 1).integers(100))
    True
    """
    return seeded(fingerprint(*parts))


def seeded(digest: str) -> np.random.Generator:
    """The generator of a fingerprint, for callers that keep the fingerprint as a key.

    >>> int(seeded(fingerprint('a')).integers(100)) == int(generator('a').integers(100))
    True
    """
    from numpy.random import default_rng  # names alone need no numpy

    return default_rng(int(digest, 16))


@dataclass(frozen=True, slots=True)
class LazyGenerators(Sequence["np.random.Generator"]):
    """Generators by index, each made when first used: most users never draw.

    Making one for each session of a scene takes longer than most users take to click
    (perf/session.py).

    >>> draws = LazyGenerators(lambda simulated: generator("round 1", simulated), range(1000))
    >>> int(draws[7].integers(100)) == int(generator("round 1", 7).integers(100))
    True
    """

    make: Callable[[int], np.random.Generator]
    places: Sequence[int]

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> np.random.Generator: ...

    @overload
    def __getitem__(self, index: slice) -> LazyGenerators: ...

    def __getitem__(self, index: int | slice) -> np.random.Generator | LazyGenerators:
        if isinstance(index, slice):
            return LazyGenerators(self.make, self.places[index])
        return self.make(self.places[index])

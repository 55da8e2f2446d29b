"""Candidates: what a view offers at each point of a grid, measured before masks are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from segmeter.core.capabilities import capability
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Request
from segmeter.core.prompts import Click
from segmeter.models._enlarging import Enlargement, Measured
from segmeter.models.automatic.regions import clean_logits

__all__ = [
    "Candidates",
    "Encoded",
    "Logits",
    "Masks",
    "PredictsGrids",
    "PredictsGridsSingly",
    "RefinesCandidates",
    "candidates_of",
]

Single = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]
Points = npt.NDArray[np.float64]


class Candidates(Protocol):
    """Candidates of many points, point by point.

    `scores` are the model's own; `places` tell which point each one answers.
    """

    @property
    def scores(self) -> Single: ...

    @property
    def places(self) -> Places: ...

    def measure(self, threshold: float, offset: float) -> Measured:
        """Areas and boxes at the size of what was looked at."""
        ...

    def take(self, kept: Places) -> Self:
        """Only these, in this order."""
        ...

    def masks(self, threshold: float) -> list[Mask]: ...

    def values(self) -> Single:
        """Logits at full size, `(n, H, W)`."""
        ...

    def cleaned(self, smallest: int, threshold: float) -> Self:
        """With small regions of the logits lifted or lowered, as SAM 2 does."""
        ...


@capability
class PredictsGrids(Protocol):
    """A view that answers thousands of single clicks with logits of all candidates."""

    def candidates(self, points: Points, above: float) -> Candidates:
        """Candidates of clicks `(n, 2)`, `(y, x)`, whose score is above a number.

        The comparison is strict and in single precision; a number of 0 or less lets all
        through.
        """
        ...


@capability
class PredictsGridsSingly(Protocol):
    """A view that also has a mask for each click as if it could mean one thing only."""

    def single_candidates(self, points: Points, above: float) -> Candidates:
        """One candidate for each click `(n, 2)`, `(y, x)`, whose score is above a number."""
        ...


@capability
class RefinesCandidates(Protocol):
    """A view that takes its candidates back and answers each once more."""

    def refined(self, points: Points, candidates: Candidates) -> Candidates:
        """One candidate for each, from its click and its own logits."""
        ...


@dataclass(frozen=True, slots=True)
class Logits:
    """Candidates as logit maps of low (or full) resolution in the host's memory."""

    scores: Single
    places: Places
    maps: Single
    to: Enlargement
    threads: int = 1

    def measure(self, threshold: float, offset: float) -> Measured:
        return self.to.measure(self.maps, threshold, offset, self.threads)

    def take(self, kept: Places) -> Logits:
        return Logits(self.scores[kept], self.places[kept], self.maps[kept], self.to, self.threads)

    def masks(self, threshold: float) -> list[Mask]:
        return self.to.masks(self.maps, threshold)

    def values(self) -> Single:
        return self.to.values(self.maps)

    def cleaned(self, smallest: int, threshold: float) -> Logits:
        maps = clean_logits(self.maps, smallest, threshold)
        return Logits(self.scores, self.places, maps, self.to, self.threads)

    def encoded(self, threshold: float) -> Encoded:
        """The finished masks as run lengths: a thousandth of the maps' memory."""
        counts = tuple(
            mask.to_coco() for few in self._few() for mask in self.to.masks(few, threshold)
        )
        return Encoded(self.scores, self.places, counts)

    def _few(self) -> Iterator[Single]:
        for start in range(0, len(self.maps), 16):
            yield self.maps[start : start + 16]


@dataclass(frozen=True, slots=True)
class Masks:
    """Candidates that are finished masks: no threshold moves them, so they are stable."""

    scores: Single
    places: Places
    finished: tuple[Mask, ...]

    def measure(self, threshold: float, offset: float) -> Measured:
        areas = np.array([m.area for m in self.finished], dtype=np.int64)
        boxes = [
            (m.low[1], m.low[0], m.high[1] - 1, m.high[0] - 1) if m else (0, 0, 0, 0)
            for m in self.finished
        ]
        return Measured(areas, areas, areas, np.array(boxes, dtype=np.int64).reshape(-1, 4))

    def take(self, kept: Places) -> Masks:
        return Masks(self.scores[kept], self.places[kept], tuple(self.finished[i] for i in kept))

    def masks(self, threshold: float) -> list[Mask]:
        return list(self.finished)

    def values(self) -> Single:
        raise BadInput("this model gives finished masks, no logits; edges cannot be made of them")

    def cleaned(self, smallest: int, threshold: float) -> Masks:
        raise BadInput("this model gives finished masks, no logits; clean the masks instead")


@dataclass(frozen=True, slots=True)
class Encoded:
    """Candidates that are finished masks, kept as run lengths until they are asked for."""

    scores: Single
    places: Places
    counts: tuple[Mapping[str, Any], ...]

    def measure(self, threshold: float, offset: float) -> Measured:
        return self._decoded().measure(threshold, offset)

    def take(self, kept: Places) -> Encoded:
        return Encoded(self.scores[kept], self.places[kept], tuple(self.counts[i] for i in kept))

    def masks(self, threshold: float) -> list[Mask]:
        return [Mask.from_coco(counts) for counts in self.counts]

    def values(self) -> Single:
        return self._decoded().values()

    def cleaned(self, smallest: int, threshold: float) -> Encoded:
        self._decoded().cleaned(smallest, threshold)
        return self

    def _decoded(self) -> Masks:
        return Masks(self.scores, self.places, tuple(self.masks(0.0)))


def candidates_of(encoded: EncodedScene, points: Points, above: float) -> Candidates:
    """Candidates of clicks `(n, 2)`, `(y, x)`, from any view that takes clicks."""
    if isinstance(encoded, PredictsGrids):
        return encoded.candidates(points, above)
    requests = [Request((Click((float(y), float(x))),)) for y, x in points]
    found = [
        (float(score), place, prediction.mask(candidate))
        for place, prediction in enumerate(encoded.predict(requests))
        for candidate, score in enumerate(prediction.scores)
    ]
    return _above(found, above)


def _above(found: Sequence[tuple[float, int, Mask]], above: float) -> Masks:
    scores = np.array([score for score, _, _ in found], dtype=np.float32)
    every = Masks(
        scores,
        np.array([place for _, place, _ in found], dtype=np.intp),
        tuple(mask for _, _, mask in found),
    )
    return every.take(np.flatnonzero(scores > np.float32(above))) if above > 0 else every

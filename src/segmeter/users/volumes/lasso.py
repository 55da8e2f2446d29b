"""Lasso: a closed line around an error in one slice, as nnInteractive takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from segmeter.core import catalogue
from segmeter.core.capabilities import CountsEffort, GivesPrompts, capable
from segmeter.core.connected_components import largest_component
from segmeter.core.effort import Effort
from segmeter.core.error_regions import error_regions
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Prompt, Prompts, Scribble
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.users.volumes.slices import check_target

__all__ = ["Lasso", "lasso"]


def lasso(region: Mask, positive: bool = True) -> Scribble:
    """A closed stroke around the largest part of a region, in the slice that holds most of it.

    The stroke runs over the part's outermost pixels and ends where it began; the first slice,
    and the first part in raster order, on a tie.
    """
    import cv2

    check_target(region)
    part = largest_component(region)
    z = int(part.bits.sum(axis=(1, 2)).argmax()) + part.low[0]
    flat = largest_component(part.slice(z))
    found, _ = cv2.findContours(
        flat.bits.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE
    )
    around = [(z, int(y) + flat.low[0], int(x) + flat.low[1]) for x, y in found[0][:, 0]]
    return Scribble((*around, around[0]), positive)


@catalogue.users.add(
    "lasso", summary="volumes: a closed line around the larger kind of error, in one slice"
)
@dataclass(frozen=True, slots=True)
@capable(CountsEffort, GivesPrompts)
class Lasso:
    """Draws around the largest part of whichever error has more voxels; a tie is positive."""

    gives: ClassVar[frozenset[str]] = frozenset({"scribble"})
    name: str = "lasso"
    paper_interactions: ClassVar[str] = "3/3"
    label: ClassVar[str] = "lasso"
    whole: ClassVar[bool] = True

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        negatives, positives = error_regions(observation.target, observation.mask)
        if not negatives and not positives:
            return None
        positive = negatives.area >= positives.area
        return lasso(negatives if positive else positives, positive)

    def effort(
        self, target: Target, protocol: ProtocolName, number: int, prompts: Sequence[Prompt]
    ) -> Effort:
        drawn = [p for p in prompts if isinstance(p, Scribble)]
        return Effort(scribbles=len(drawn), stroke_px=float(sum(len(p.points) for p in drawn)))

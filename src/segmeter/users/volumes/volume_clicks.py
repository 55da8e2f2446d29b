"""Volume clicks: users who click in the whole volume, one click a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from segmeter.clickability.groups import share_of_group
from segmeter.clickability.prior import Round
from segmeter.clickability.volume_prior import draw_voxel, volume_prior
from segmeter.core import catalogue
from segmeter.core.capabilities import CountsEffort, GivesLater, GivesPrompts, capable
from segmeter.core.distance_transform import deepest_voxel
from segmeter.core.effort import Effort
from segmeter.core.error_regions import error_regions
from segmeter.core.errors import BadInput
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Box, Click, Prompt, Prompts
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.users.volumes.cvpr25 import challenge_box, middle_click

__all__ = ["ChallengeClicks", "VolumeCentreClick", "VolumeClickingGroup"]


@catalogue.users.add(
    "volume-centre-click", summary="volumes: clicks the deepest wrong voxel, in millimetres"
)
@dataclass(frozen=True, slots=True)
@capable(CountsEffort)
class VolumeCentreClick:
    """Clicks the deepest wrong voxel that was not clicked before, by distance in mm.

    Positive when the false negatives are deeper; a tie is a negative click; first in raster
    order among equally deep voxels. Spacing is the volume's own, so that in a volume of thick
    slices depth is not counted in slices.
    """

    name: str = "volume-centre-click"
    paper_interactions: ClassVar[str] = "1/1"
    label: ClassVar[str] = "centre click"
    whole: ClassVar[bool] = True

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        return _centre(observation)

    def effort(
        self, target: Target, protocol: ProtocolName, number: int, prompts: Sequence[Prompt]
    ) -> Effort:
        return _clicking(prompts)


@catalogue.users.add(
    "volume-clicking-group",
    summary="volumes: clicks as one tenth of people do (group=1..10; 0 for all)",
)
@dataclass(frozen=True, slots=True)
@capable(CountsEffort)
class VolumeClickingGroup:
    """Clicks drawn from the click model of error regions, carried over to volumes.

    Which side is corrected is the centre click's choice. Group 1 holds the least likely tenth
    of clicks, 10 the likeliest, 0 all of them.
    """

    group: int = 0
    repeat: int = 1
    paper_interactions: ClassVar[str] = "1/1"
    label: ClassVar[str] = "clicking group"
    whole: ClassVar[bool] = True

    def __post_init__(self) -> None:
        share_of_group(self.group)

    @property
    def name(self) -> str:
        again = f"&repeat={self.repeat}" if self.repeat != 1 else ""
        return f"volume-clicking-group?group={self.group}{again}"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        click = _centre(observation)
        if click is None:
            return None
        side = error_regions(observation.target, observation.mask)[not click.positive]
        round: Round = "later" if observation.mask else "first"
        weights = volume_prior(side, _spacing(observation), round=round)
        share, done = share_of_group(self.group), _clicked(observation)
        voxel = draw_voxel(side, weights, share, float(rng.random()), done)
        return None if voxel is None else Click(voxel, click.positive)

    def effort(
        self, target: Target, protocol: ProtocolName, number: int, prompts: Sequence[Prompt]
    ) -> Effort:
        return _clicking(prompts)


@catalogue.users.add(
    "cvpr25-clicks", summary="volumes: a box, then clicks as in the CVPR 2025 challenge"
)
@dataclass(frozen=True, slots=True)
@capable(CountsEffort, GivesLater, GivesPrompts)
class ChallengeClicks:
    """The protocol of the CVPR 2025 challenge on interactive segmentation of volumes.

    In `published` ties of depth are drawn as the challenge's script draws them, by one seed;
    in `corrected` by the session's own generator.
    """

    box: bool = True
    paper_interactions: ClassVar[str] = "4/1"
    label: ClassVar[str] = "CVPR25"
    whole: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "cvpr25-clicks" if self.box else "cvpr25-clicks?box=false"

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"box"}) if self.box else frozenset()

    @property
    def gives_later(self) -> frozenset[str]:
        return frozenset({"click"})

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        if self.box and not observation.prompts:
            return challenge_box(observation.target.mask)
        own = None if observation.protocol == "published" else rng
        found = middle_click(observation.target.mask, observation.mask, own)
        return None if found is None else found.click

    def effort(
        self, target: Target, protocol: ProtocolName, number: int, prompts: Sequence[Prompt]
    ) -> Effort:
        return _clicking(prompts)


def _centre(observation: Observation) -> Click | None:
    """The deepest wrong voxel in millimetres that was not clicked before."""
    spacing, done = _spacing(observation), _clicked(observation)
    negatives, positives = error_regions(observation.target, observation.mask)
    deep, inside = deepest_voxel(negatives, spacing, done)
    other, outside = deepest_voxel(positives, spacing, done)
    if deep > other and inside is not None:
        return Click(inside, True)
    return None if outside is None else Click(outside, False)


def _spacing(observation: Observation) -> tuple[float, ...]:
    spacing = observation.scene.spacing_mm
    if spacing is None:
        raise BadInput(
            f"{observation.scene.name}: clicks in volumes need a volume with its spacing; "
            "images have 'centre-click' and 'clicking-group'"
        )
    return spacing


def _clicked(observation: Observation) -> list[tuple[int, ...]]:
    return [_voxel(p) for p in observation.prompts if isinstance(p, Click)]


def _clicking(prompts: Sequence[Prompt]) -> Effort:
    """A click is a point; the challenge's box is a box in one slice and two named slices."""
    boxes = sum(isinstance(p, Box) for p in prompts)
    return Effort(points=len(prompts) - boxes, boxes=boxes, slices=2 * boxes)


def _voxel(click: Click) -> tuple[int, ...]:
    return tuple(round(c) for c in click.point)

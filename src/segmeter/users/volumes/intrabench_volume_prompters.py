"""Users who prompt a volume once, for models that see all of it: prompters of IntRaBench."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from segmeter.core.effort import Effort
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Prompt
from segmeter.users.volumes.boxes import box_3d
from segmeter.users.volumes.intrabench_prompters import (
    DrawnPoints,
    PromptContext,
    Prompter,
    prompter,
    slices_scrolled,
)
from segmeter.users.volumes.points_per_volume import (
    centre_points_per_volume,
    centroid,
    points_per_volume,
)

__all__ = ["Box3d", "CentrePointsPerVolume", "Centroid", "PointsPerVolume"]

BOX = frozenset({"box"})


@prompter("points-per-volume", "volumes: n random points in the whole", label="{n}PPV", count="{n}")
@dataclass(frozen=True, slots=True)
class PointsPerVolume(DrawnPoints):
    """Random voxels of the target."""

    whole: ClassVar[bool] = True
    draw = staticmethod(points_per_volume)

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        return _clicked(target, prompts)


@prompter("centroid", "volumes: the mean voxel, wherever it lies", label="centroid", count="1")
@dataclass(frozen=True, slots=True)
class Centroid(Prompter):
    """The target's mean voxel, which may lie outside of it."""

    whole: ClassVar[bool] = True

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return centroid(context.target)

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        return Effort(points=1)


@prompter(
    "centre-points-per-volume",
    "volumes: n points along the target's middle line",
    label="{n} center PPV",
    count="{n}",
)
@dataclass(frozen=True, slots=True)
class CentrePointsPerVolume(Prompter):
    """Points spaced along the middle line; `patch` 0 takes all of it, as for SegVol."""

    whole: ClassVar[bool] = True
    n: int = 1
    patch: int = 128
    along: Literal["z", "x"] = "z"

    def __post_init__(self) -> None:
        Prompter.__post_init__(self)  # super() fails in a dataclass with slots
        if self.along not in ("z", "x"):
            raise BadInput(f"centre points are ordered along z or x, not '{self.along}'")

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return centre_points_per_volume(
            context.target, self.n, context.protocol, patch=self.patch or None, along=self.along
        )

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        return _clicked(target, prompts)


@prompter("box-3d", "volumes: one box around the whole target", label="3D Box", count="3")
@dataclass(frozen=True, slots=True)
class Box3d(Prompter):
    """One box around the whole target, for models that take it."""

    gives: ClassVar[frozenset[str]] = BOX
    whole: ClassVar[bool] = True

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return [box_3d(context.target)]

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        return Effort(boxes_3d=1, scrolled=slices_scrolled(target))


def _clicked(target: Mask, prompts: Sequence[Prompt]) -> Effort:
    """Points in the whole volume; a single one needs no scrolling."""
    scrolled = slices_scrolled(target) if len(prompts) > 1 else 0
    return Effort(points=len(prompts), scrolled=scrolled)

"""Users who prompt a volume once, for models that see all of it: prompters of IntRaBench."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from segmeter.core import catalogue
from segmeter.core.effort import Effort
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Reading
from segmeter.core.prompts import Prompt
from segmeter.users.volumes.boxes import box_3d
from segmeter.users.volumes.intrabench_prompters import Asking, Prompter, slices_scrolled
from segmeter.users.volumes.points_per_volume import (
    centre_points_per_volume,
    centroid,
    points_per_volume,
)
from segmeter.users.volumes.random_streams import Draws

__all__ = ["Box3d", "CentrePointsPerVolume", "Centroid", "PointsPerVolume"]

BOX = frozenset({"box"})


@catalogue.users.add("points-per-volume", summary="volumes: n random points in the whole")
@dataclass(frozen=True, slots=True)
class PointsPerVolume(Prompter):
    """Random voxels of the target."""

    kind: ClassVar[str] = "points-per-volume"
    paper_label: ClassVar[str] = "{n}PPV"
    paper_count: ClassVar[str] = "{n}"
    whole: ClassVar[bool] = True
    n: int = 1

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return points_per_volume(asking.target, self.n, asking.draws)

    def drawn(self, target: Mask, draws: Draws) -> None:
        points_per_volume(target, self.n, draws)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return _clicked(target, prompts)


@catalogue.users.add("centroid", summary="volumes: the mean voxel, wherever it lies")
@dataclass(frozen=True, slots=True)
class Centroid(Prompter):
    """The target's mean voxel, which may lie outside of it."""

    kind: ClassVar[str] = "centroid"
    paper_label: ClassVar[str] = "centroid"
    paper_count: ClassVar[str] = "1"
    whole: ClassVar[bool] = True

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return centroid(asking.target)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return Effort(points=1)


@catalogue.users.add(
    "centre-points-per-volume", summary="volumes: n points along the target's middle line"
)
@dataclass(frozen=True, slots=True)
class CentrePointsPerVolume(Prompter):
    """Points spaced along the middle line; `patch` 0 takes all of it, as for SegVol."""

    kind: ClassVar[str] = "centre-points-per-volume"
    paper_label: ClassVar[str] = "{n} center PPV"
    paper_count: ClassVar[str] = "{n}"
    whole: ClassVar[bool] = True
    n: int = 1
    patch: int = 128
    along: Literal["z", "x"] = "z"

    def __post_init__(self) -> None:
        Prompter.__post_init__(self)  # super() knows no class that was made anew with slots
        if self.along not in ("z", "x"):
            raise BadInput(f"centre points are ordered along z or x, not '{self.along}'")

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return centre_points_per_volume(
            asking.target, self.n, asking.reading, patch=self.patch or None, along=self.along
        )

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return _clicked(target, prompts)


@catalogue.users.add("box-3d", summary="volumes: one box around the whole target")
@dataclass(frozen=True, slots=True)
class Box3d(Prompter):
    """One box around the whole target, for models that take it."""

    kind: ClassVar[str] = "box-3d"
    paper_label: ClassVar[str] = "3D Box"
    paper_count: ClassVar[str] = "3"
    gives: ClassVar[frozenset[str]] = BOX
    whole: ClassVar[bool] = True

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return [box_3d(asking.target)]

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return Effort(boxes_3d=1, scrolled=slices_scrolled(target))


def _clicked(target: Mask, prompts: Sequence[Prompt]) -> Effort:
    """Points in the whole; nobody scrolls for a single one."""
    scrolled = slices_scrolled(target) if len(prompts) > 1 else 0
    return Effort(points=len(prompts), scrolled=scrolled)

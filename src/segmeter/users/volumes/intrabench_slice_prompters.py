"""Users who prompt a volume once, slice by slice: prompters of IntRaBench."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from segmeter.core import catalogue
from segmeter.core.effort import Effort
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Reading
from segmeter.core.prompts import Prompt
from segmeter.users.volumes.boxes import box_per_slice, boxes_from_3d_box
from segmeter.users.volumes.interpolation import (
    box_seeds,
    interpolated_boxes,
    interpolated_points,
)
from segmeter.users.volumes.intrabench_prompters import Asking, Prompter, slices_scrolled
from segmeter.users.volumes.points_per_slice import (
    alternating_points_per_slice,
    centre_point_per_slice,
    points_per_slice,
)
from segmeter.users.volumes.propagation import (
    box_propagation,
    point_propagation,
    propagation_seeds,
)
from segmeter.users.volumes.random_streams import Draws
from segmeter.users.volumes.slices import Centre, foreground_slices

__all__ = [
    "AlternatingPointsPerSlice",
    "BoxInterpolation",
    "BoxPerSlice",
    "BoxPropagation",
    "BoxesFrom3dBox",
    "CentrePointPerSlice",
    "PointInterpolation",
    "PointPropagation",
    "PointsPerSlice",
]

BOX = frozenset({"box"})


@catalogue.users.add("points-per-slice", summary="volumes: n random points in every slice")
@dataclass(frozen=True, slots=True)
class PointsPerSlice(Prompter):
    """Random pixels of the target in each of its slices."""

    kind: ClassVar[str] = "points-per-slice"
    paper_label: ClassVar[str] = "{n}PPS"
    paper_count: ClassVar[str] = "{n}X"
    n: int = 1

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return points_per_slice(asking.target, self.n, asking.draws)

    def drawn(self, target: Mask, draws: Draws) -> None:
        points_per_slice(target, self.n, draws)


@catalogue.users.add(
    "alternating-points-per-slice",
    summary="volumes: n random points in every slice, half of them outside",
)
@dataclass(frozen=True, slots=True)
class AlternatingPointsPerSlice(Prompter):
    """Pixels of the target and of a ring around it, in each of its slices."""

    kind: ClassVar[str] = "alternating-points-per-slice"
    paper_label: ClassVar[str] = "{n}±PPS"
    paper_count: ClassVar[str] = "{n}X"
    n: int = 2

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return alternating_points_per_slice(asking.target, self.n, asking.draws)

    def drawn(self, target: Mask, draws: Draws) -> None:
        alternating_points_per_slice(target, self.n, draws)


@catalogue.users.add("centre-point-per-slice", summary="volumes: the centre of every slice")
@dataclass(frozen=True, slots=True)
class CentrePointPerSlice(Prompter):
    """The middle of the largest part in each slice."""

    kind: ClassVar[str] = "centre-point-per-slice"
    paper_label: ClassVar[str] = "1 Center P"
    paper_count: ClassVar[str] = "1"  # as printed, though it is one per slice
    centre: Centre = "mass"

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return centre_point_per_slice(asking.target, self.centre)


@catalogue.users.add("box-per-slice", summary="volumes: a tight box in every slice")
@dataclass(frozen=True, slots=True)
class BoxPerSlice(Prompter):
    """A tight box around the target in each of its slices."""

    kind: ClassVar[str] = "box-per-slice"
    paper_label: ClassVar[str] = "Box PS"
    paper_count: ClassVar[str] = "2X"
    gives: ClassVar[frozenset[str]] = BOX

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return box_per_slice(asking.target)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return Effort(boxes=len(prompts), scrolled=slices_scrolled(target))


@catalogue.users.add("boxes-from-3d-box", summary="volumes: one 3D box, cut into slices")
@dataclass(frozen=True, slots=True)
class BoxesFrom3dBox(Prompter):
    """One box around the whole target, given to every slice it passes."""

    kind: ClassVar[str] = "boxes-from-3d-box"
    paper_label: ClassVar[str] = "from 3D Box"
    paper_count: ClassVar[str] = "3"
    gives: ClassVar[frozenset[str]] = BOX

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return boxes_from_3d_box(asking.target)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return Effort(boxes_3d=1, scrolled=slices_scrolled(target))


@catalogue.users.add(
    "point-interpolation", summary="volumes: a point in n slices, a line through the others"
)
@dataclass(frozen=True, slots=True)
class PointInterpolation(Prompter):
    """The middle of a few slices, interpolated over those between."""

    kind: ClassVar[str] = "point-interpolation"
    paper_label: ClassVar[str] = "{n}P Inter"
    paper_count: ClassVar[str] = "{n}"
    n: int = 3
    centre: Centre = "box"

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return interpolated_points(asking.target, self.n, asking.reading, self.centre)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        points = min(self.n, len(foreground_slices(target)))
        return Effort(points=points, scrolled=slices_scrolled(target))


@catalogue.users.add(
    "box-interpolation", summary="volumes: a box in n slices, interpolated over the others"
)
@dataclass(frozen=True, slots=True)
class BoxInterpolation(Prompter):
    """Boxes in a few slices, perhaps drawn badly, interpolated over those between."""

    kind: ClassVar[str] = "box-interpolation"
    gives: ClassVar[frozenset[str]] = BOX
    n: int = 3
    shaken: int = 0

    def __post_init__(self) -> None:
        Prompter.__post_init__(self)  # super() knows no class that was made anew with slots
        if isinstance(self.shaken, bool) or not isinstance(self.shaken, int) or self.shaken < 0:
            raise BadInput(f"boxes are shaken by 0 or more pixels, not {self.shaken!r}")

    @property
    def label(self) -> str:
        return f"{self.n}B Inter" + (f" ±{self.shaken}" if self.shaken else "")

    @property
    def nominal(self) -> str:
        return str(2 * self.n)

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return interpolated_boxes(asking.target, self.n, asking.reading, self.shaken, asking.draws)

    def drawn(self, target: Mask, draws: Draws) -> None:
        box_seeds(target, self.n, "published", self.shaken, draws)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        boxes = len(box_seeds(target, self.n, reading))
        return Effort(boxes=boxes, scrolled=slices_scrolled(target))


@catalogue.users.add(
    "point-propagation",
    summary="volumes: five points in the middle slice, then the centre of each answer",
)
@dataclass(frozen=True, slots=True)
class PointPropagation(Prompter):
    """Points in the middle slice, carried on by the model's own answers."""

    kind: ClassVar[str] = "point-propagation"
    paper_label: ClassVar[str] = "5P Prop"
    paper_count: ClassVar[str] = "7"
    centre: Centre = "box"

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return point_propagation(
            asking.target, asking.answers, asking.draws, asking.reading, self.centre
        )

    def drawn(self, target: Mask, draws: Draws) -> None:
        propagation_seeds(target, draws)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        first = prompts[0].point[0] if prompts else 0  # type: ignore[union-attr]  # clicks
        seeds = sum(p.point[0] == first for p in prompts)  # type: ignore[union-attr]
        return Effort(points=seeds, slices=2, scrolled=slices_scrolled(target))


@catalogue.users.add(
    "box-propagation", summary="volumes: a box in the middle slice, then the box of each answer"
)
@dataclass(frozen=True, slots=True)
class BoxPropagation(Prompter):
    """A box in the middle slice, carried on by the model's own answers."""

    kind: ClassVar[str] = "box-propagation"
    paper_label: ClassVar[str] = "B Prop"
    paper_count: ClassVar[str] = "4"
    gives: ClassVar[frozenset[str]] = BOX

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return box_propagation(asking.target, asking.answers, asking.reading)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return Effort(boxes=1, slices=2, scrolled=slices_scrolled(target))

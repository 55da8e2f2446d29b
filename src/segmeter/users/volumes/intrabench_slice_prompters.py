"""Users who prompt a volume once, slice by slice: prompters of IntRaBench."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from segmeter.core.effort import Effort
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Prompt
from segmeter.users.volumes.boxes import box_per_slice, boxes_from_3d_box
from segmeter.users.volumes.interpolation import (
    box_seeds,
    interpolated_boxes,
    interpolated_points,
)
from segmeter.users.volumes.intrabench_prompters import (
    DrawnPoints,
    PromptContext,
    Prompter,
    prompter,
    slices_scrolled,
)
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


@prompter(
    "points-per-slice", "volumes: n random points in every slice", label="{n}PPS", count="{n}X"
)
@dataclass(frozen=True, slots=True)
class PointsPerSlice(DrawnPoints):
    """Random pixels of the target in each of its slices."""

    draw = staticmethod(points_per_slice)
    n: int = 1


@prompter(
    "alternating-points-per-slice",
    "volumes: n random points in every slice, half of them outside",
    label="{n}±PPS",
    count="{n}X",
)
@dataclass(frozen=True, slots=True)
class AlternatingPointsPerSlice(DrawnPoints):
    """Pixels of the target and of a ring around it, in each of its slices."""

    draw = staticmethod(alternating_points_per_slice)
    n: int = 2


@prompter(
    "centre-point-per-slice", "volumes: the centre of every slice", label="1 Center P", count="1"
)  # as printed, though it is one per slice
@dataclass(frozen=True, slots=True)
class CentrePointPerSlice(Prompter):
    """The middle of the largest part in each slice."""

    centre: Centre = "mass"

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return centre_point_per_slice(context.target, self.centre)


@prompter("box-per-slice", "volumes: a tight box in every slice", label="Box PS", count="2X")
@dataclass(frozen=True, slots=True)
class BoxPerSlice(Prompter):
    """A tight box around the target in each of its slices."""

    gives: ClassVar[frozenset[str]] = BOX

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return box_per_slice(context.target)

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        return Effort(boxes=len(prompts), scrolled=slices_scrolled(target))


@prompter(
    "boxes-from-3d-box", "volumes: one 3D box, cut into slices", label="from 3D Box", count="3"
)
@dataclass(frozen=True, slots=True)
class BoxesFrom3dBox(Prompter):
    """One box around the whole target, given to every slice it passes."""

    gives: ClassVar[frozenset[str]] = BOX

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return boxes_from_3d_box(context.target)

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        return Effort(boxes_3d=1, scrolled=slices_scrolled(target))


@prompter(
    "point-interpolation",
    "volumes: a point in n slices, a line through the others",
    label="{n}P Inter",
    count="{n}",
)
@dataclass(frozen=True, slots=True)
class PointInterpolation(Prompter):
    """The middle of a few slices, interpolated over those between."""

    n: int = 3
    centre: Centre = "box"

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return interpolated_points(context.target, self.n, context.protocol, self.centre)

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        points = min(self.n, len(foreground_slices(target)))
        return Effort(points=points, scrolled=slices_scrolled(target))


@prompter("box-interpolation", "volumes: a box in n slices, interpolated over the others")
@dataclass(frozen=True, slots=True)
class BoxInterpolation(Prompter):
    """Boxes in a few slices, perhaps drawn badly, interpolated over those between."""

    gives: ClassVar[frozenset[str]] = BOX
    n: int = 3
    shaken: int = 0
    repeat: int = 1

    def __post_init__(self) -> None:
        Prompter.__post_init__(self)  # super() fails in a dataclass with slots
        if isinstance(self.shaken, bool) or not isinstance(self.shaken, int) or self.shaken < 0:
            raise BadInput(f"boxes are shaken by 0 or more pixels, not {self.shaken!r}")

    @property
    def label(self) -> str:
        return f"{self.n}B Inter" + (f" ±{self.shaken}" if self.shaken else "")

    @property
    def paper_interactions(self) -> str:
        return str(2 * self.n)

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return interpolated_boxes(
            context.target, self.n, context.protocol, self.shaken, context.draws
        )

    def drawn(self, target: Mask, draws: Draws) -> None:
        box_seeds(target, self.n, "published", self.shaken, draws)

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        boxes = len(box_seeds(target, self.n, protocol))
        return Effort(boxes=boxes, scrolled=slices_scrolled(target))


@prompter(
    "point-propagation",
    "volumes: five points in the middle slice, then the centre of each answer",
    label="5P Prop",
    count="7",
)
@dataclass(frozen=True, slots=True)
class PointPropagation(Prompter):
    """Points in the middle slice, carried on by the model's own predictions."""

    centre: Centre = "box"
    repeat: int = 1

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return point_propagation(
            context.target, context.answers, context.draws, context.protocol, self.centre
        )

    def drawn(self, target: Mask, draws: Draws) -> None:
        propagation_seeds(target, draws)

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        first = prompts[0].point[0] if prompts else 0  # type: ignore[union-attr]  # clicks
        seeds = sum(p.point[0] == first for p in prompts)  # type: ignore[union-attr]
        return Effort(points=seeds, slices=2, scrolled=slices_scrolled(target))


@prompter(
    "box-propagation",
    "volumes: a box in the middle slice, then the box of each answer",
    label="B Prop",
    count="4",
)
@dataclass(frozen=True, slots=True)
class BoxPropagation(Prompter):
    """A box in the middle slice, carried on by the model's own answers."""

    gives: ClassVar[frozenset[str]] = BOX

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return box_propagation(context.target, context.answers, context.protocol)

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        return Effort(boxes=1, slices=2, scrolled=slices_scrolled(target))

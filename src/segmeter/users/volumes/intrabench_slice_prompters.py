"""Users who prompt a volume once, slice by slice: prompters of IntRaBench."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from segmeter.core.effort import Effort
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Box, Click, Prompt
from segmeter.users.volumes.initial_prompts import (
    alternating_points_per_slice,
    box_per_slice,
    box_seeds,
    boxes_from_3d_box,
    centre_point_per_slice,
    interpolated_boxes,
    interpolated_points,
    points_per_slice,
)
from segmeter.users.volumes.intrabench_prompters import (
    Answers,
    DrawnPoints,
    PromptContext,
    Prompter,
    prompter,
    slices_scrolled,
)
from segmeter.users.volumes.slices import (
    Centre,
    Draws,
    centre_of,
    foreground_slices,
    median_slice,
    tight_box,
)

__all__ = ["BoxInterpolation"]


_SEEDS = 5


def propagation_seeds(target: Mask, draws: Draws, count: int = _SEEDS) -> list[Click]:
    """Random pixels of the target's middle slice."""
    draws.restart()
    z = median_slice(target)
    here = target.slice(z)
    pixels = np.argwhere(here.bits) + here.low
    chosen = draws.choose(len(pixels), min(count, len(pixels)))
    return [Click((z, int(pixels[i][0]), int(pixels[i][1])), True) for i in chosen]


def point_propagation(
    target: Mask, answers: Answers, draws: Draws, protocol: ProtocolName, centre: Centre = "box"
) -> list[Click]:
    """Seeds in the middle slice, then the middle of each slice's answer in the next slice.

    A way ends where an answer is empty. `published` leaves out the first five points of the
    way down even when there were fewer seeds, so that slices go without a prompt.
    """
    seeds = propagation_seeds(target, draws)
    own = foreground_slices(target)
    middle = int(seeds[0].point[0])

    def after(z: int, answered: Mask) -> tuple[Prompt, ...]:
        return (Click((z, *centre_of(answered, centre)), True),)

    ways = _ways(tuple(seeds), middle, (own[0], own[-1]), answers, after)
    up, down = ([p for step in way for p in step if isinstance(p, Click)] for way in ways)
    dropped = max(0, _SEEDS - len(seeds)) if protocol == "published" else 0
    return [*seeds, *up, *down[dropped:]]


def box_propagation(target: Mask, answers: Answers, protocol: ProtocolName) -> list[Box]:
    """A box in the middle slice, then the box of each slice's answer in the next slice.

    `published` gives both neighbours the drawn box itself and asks from there on; `corrected`
    asks for the middle slice first, as the paper says.
    """
    own = foreground_slices(target)
    middle = median_slice(target)
    seed = tight_box(target.slice(middle), middle)

    def after(z: int, answered: Mask) -> tuple[Prompt, ...]:
        return (tight_box(answered, z),)

    first: tuple[Prompt, ...] = (seed,)
    ways = _ways(first, middle, (own[0], own[-1]), answers, after, copied=protocol == "published")
    boxes = [p for way in ways for step in way for p in step if isinstance(p, Box)]
    return sorted([seed, *boxes], key=lambda box: box.low[0])


def stray_box(box: Box, shape: Sequence[int], flipped: Sequence[bool]) -> Box:
    """Position of the original's seed box in a file with flipped axes `(z, y, x)`.

    It stays in the file's coordinates while all others are in canonical ones. Nothing in
    segmeter uses it; it shows what a published number of such a file rests on.

    >>> stray_box(Box((4, 0, 31), (4, 10, 39)), (24, 48, 40), (False, True, True))
    Box(low=(4, 36, -1), high=(4, 46, 7))
    """
    low, high = list(box.low), list(box.high)
    for axis, turned in enumerate(flipped):
        if turned:
            # It turns the end, one past the last pixel, as if it were a pixel; a slice has none.
            past = 0 if axis == 0 else 1
            last = shape[axis] - 1 - past
            low[axis], high[axis] = last - box.high[axis], last - box.low[axis]
    return Box(tuple(low), tuple(high))


Step = Callable[[int, Mask], tuple[Prompt, ...]]


def _ways(
    seeds: tuple[Prompt, ...],
    middle: int,
    ends: tuple[int, int],
    answers: Answers,
    after: Step,
    copied: bool = False,
) -> list[list[tuple[Prompt, ...]]]:
    """Prompts of the slices above and below the middle, each way until an answer is empty."""
    ways: list[list[tuple[Prompt, ...]]] = [[], []]
    at = [middle, middle]
    last = [seeds, seeds]
    going = [ends[1] > middle, ends[0] < middle]
    if copied:
        for i, step in enumerate((1, -1)):
            if going[i]:
                at[i] += step
                last[i] = tuple(_moved(p, at[i]) for p in seeds)
                ways[i].append(last[i])
                going[i] = at[i] != ends[1 - i]
    while any(going):
        active = [i for i in (0, 1) if going[i]]
        masks = answers([last[i] for i in active])
        for i, mask in zip(active, masks, strict=True):
            answered = mask.slice(at[i])
            if not answered:
                going[i] = False
                continue
            at[i] += 1 if i == 0 else -1
            last[i] = after(at[i], answered)
            ways[i].append(last[i])
            going[i] = at[i] != ends[1 - i]
    return ways


def _moved(prompt: Prompt, z: int) -> Prompt:
    """The same box in another slice."""
    if not isinstance(prompt, Box):
        return prompt
    return Box((z, *prompt.low[1:]), (z, *prompt.high[1:]))


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

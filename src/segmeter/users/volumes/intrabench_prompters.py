"""Users who prompt a volume once, with IntRaBench's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np

from segmeter.core import catalogue
from segmeter.core.capabilities import CountsEffort, GivesPrompts, capable
from segmeter.core.catalogue import Spec
from segmeter.core.effort import Effort
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, ProtocolName, Request, render
from segmeter.core.prompts import Prompt, Prompts
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.users.volumes import initial_prompts as initial
from segmeter.users.volumes.slices import Centre, Draws, draws_of, foreground_slices

__all__ = ["BoxInterpolation", "Prompter"]


@dataclass(frozen=True, slots=True)
class PromptContext:
    """Input of a prompter: target, protocol, random draws, and the model's predictions."""

    target: Mask
    protocol: ProtocolName
    draws: Draws
    answers: initial.Answers


@capable(CountsEffort, GivesPrompts)
class Prompter(ABC):
    """Prompts in the first round and stops afterwards.

    Prompters that draw at random have a field `repeat`: another number, other draws.

    `whole` tells that the prompts are for models that see the whole volume; `label` is the
    paper's name, `paper_interactions` the number of interactions that it prints. Both are
    `paper_label` and `paper_count` with the prompter's own options in their places.
    """

    __slots__ = ()
    kind: ClassVar[str]
    paper_label: ClassVar[str]
    paper_count: ClassVar[str]
    gives: ClassVar[frozenset[str]] = frozenset()
    whole: ClassVar[bool] = False

    def __post_init__(self) -> None:
        options = self.options
        _check_count(options.get("n", 1))
        if options.get("centre", "box") not in ("box", "mass", "edt"):
            raise BadInput(
                f"a centre is that of the box, the mass or the edt, not '{options['centre']}'"
            )

    @property
    def options(self) -> Mapping[str, Any]:
        """Options it was made with."""
        own = fields(self)  # type: ignore[arg-type]  # every prompter is a dataclass
        return {f.name: getattr(self, f.name) for f in own}

    @property
    def name(self) -> str:
        defaults = {f.name: f.default for f in fields(self)}  # type: ignore[arg-type]
        shown = {k: v for k, v in self.options.items() if k == "n" or v != defaults[k]}
        return str(Spec(self.kind, shown))

    @property
    def label(self) -> str:
        return self.paper_label.format(**self.options)

    @property
    def paper_interactions(self) -> str:
        return self.paper_count.format(**self.options)

    @abstractmethod
    def start(self, context: PromptContext) -> Sequence[Prompt]:
        """The prompts of the first round."""

    def drawn(self, target: Mask, draws: Draws) -> None:  # noqa: B027  # most draw nothing
        """Draw what `start` draws, so that a shared stream stands where it would."""

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        """Effort of a person for these prompts: one click each unless overridden."""
        return Effort(points=len(prompts), scrolled=slices_scrolled(target))

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        if observation.prompts:
            return None
        return tuple(self.start(context_of(observation, rng)))

    def effort(
        self, target: Target, protocol: ProtocolName, number: int, prompts: Sequence[Prompt]
    ) -> Effort:
        return self.work(target.mask, protocol, prompts) if prompts else Effort()


class _Draw(Protocol):
    def __call__(self, target: Mask, count: int, draws: Draws, /) -> Sequence[Prompt]: ...


@dataclass(frozen=True, slots=True)
class DrawnPoints(Prompter):
    """Gives `n` points, or so many per slice, that are drawn by chance."""

    draw: ClassVar[_Draw]
    n: int = 1
    repeat: int = 1

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return self.draw(context.target, self.n, context.draws)

    def drawn(self, target: Mask, draws: Draws) -> None:
        self.draw(target, self.n, draws)


Made = TypeVar("Made", bound=Prompter)


def prompter(
    name: str, summary: str, *, label: str = "", count: str = ""
) -> Callable[[type[Made]], type[Made]]:
    """Register a prompter under its name, with the paper's words for it."""

    def register(made: type[Made]) -> type[Made]:
        made.kind, made.paper_label, made.paper_count = name, label, count
        catalogue.users.add(name, summary=summary)(made)
        return made

    return register


def context_of(observation: Observation, rng: np.random.Generator) -> PromptContext:
    """The parts of an observation that a prompter sees."""
    protocol = observation.protocol
    draws, answers = draws_of(protocol, rng), answers_of(observation.encoded)
    return PromptContext(observation.target.mask, protocol, draws, answers)


def answers_of(encoded: EncodedScene) -> initial.Answers:
    """Answers of a view to prompters that ask while they prompt; the same is asked once."""

    def answers(sets: Sequence[tuple[Prompt, ...]]) -> list[Mask]:
        unique = list(dict.fromkeys(sets))
        masks = render(encoded, encoded.predict([Request(prompts) for prompts in unique]))
        return [masks[unique.index(prompts)] for prompts in sets]

    return answers


def slices_scrolled(target: Mask) -> int:
    """Slices scrolled from the target's first to its last."""
    return int(target.bits.shape[0]) - 1


def _check_count(n: int) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise BadInput(f"a prompter gives n = 1 or more prompts, not {n!r}")


BOX = frozenset({"box"})


@prompter("points-per-volume", "volumes: n random points in the whole", label="{n}PPV", count="{n}")
@dataclass(frozen=True, slots=True)
class PointsPerVolume(DrawnPoints):
    """Random voxels of the target."""

    whole: ClassVar[bool] = True
    draw = staticmethod(initial.points_per_volume)

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        return _clicked(target, prompts)


@prompter(
    "centroid", "volumes: the mean voxel, even outside the object", label="centroid", count="1"
)
@dataclass(frozen=True, slots=True)
class Centroid(Prompter):
    """The target's mean voxel, which may lie outside of it."""

    whole: ClassVar[bool] = True

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return initial.centroid(context.target)

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
        return initial.centre_points_per_volume(
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
        return [initial.box_3d(context.target)]

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        return Effort(boxes_3d=1, scrolled=slices_scrolled(target))


def _clicked(target: Mask, prompts: Sequence[Prompt]) -> Effort:
    """Points in the whole volume; a single one needs no scrolling."""
    scrolled = slices_scrolled(target) if len(prompts) > 1 else 0
    return Effort(points=len(prompts), scrolled=scrolled)


@prompter(
    "points-per-slice", "volumes: n random points in every slice", label="{n}PPS", count="{n}X"
)
@dataclass(frozen=True, slots=True)
class PointsPerSlice(DrawnPoints):
    """Random pixels of the target in each of its slices."""

    draw = staticmethod(initial.points_per_slice)
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

    draw = staticmethod(initial.alternating_points_per_slice)
    n: int = 2


@prompter(
    "centre-point-per-slice", "volumes: the centre of every slice", label="1 Center P", count="1"
)  # as printed, though it is one per slice
@dataclass(frozen=True, slots=True)
class CentrePointPerSlice(Prompter):
    """The middle of the largest part in each slice."""

    centre: Centre = "mass"

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return initial.centre_point_per_slice(context.target, self.centre)


@prompter("box-per-slice", "volumes: a tight box in every slice", label="Box PS", count="2X")
@dataclass(frozen=True, slots=True)
class BoxPerSlice(Prompter):
    """A tight box around the target in each of its slices."""

    gives: ClassVar[frozenset[str]] = BOX

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return initial.box_per_slice(context.target)

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
        return initial.boxes_from_3d_box(context.target)

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
        return initial.interpolated_points(context.target, self.n, context.protocol, self.centre)

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
        return initial.interpolated_boxes(
            context.target, self.n, context.protocol, self.shaken, context.draws
        )

    def drawn(self, target: Mask, draws: Draws) -> None:
        initial.box_seeds(target, self.n, "published", self.shaken, draws)

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        boxes = len(initial.box_seeds(target, self.n, protocol))
        return Effort(boxes=boxes, scrolled=slices_scrolled(target))


@prompter(
    "point-propagation",
    "volumes: five points in the middle slice, then the centre of each predicted mask",
    label="5P Prop",
    count="7",
)
@dataclass(frozen=True, slots=True)
class PointPropagation(Prompter):
    """Points in the middle slice, carried on by the model's own predictions."""

    centre: Centre = "box"
    repeat: int = 1

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return initial.point_propagation(
            context.target, context.answers, context.draws, context.protocol, self.centre
        )

    def drawn(self, target: Mask, draws: Draws) -> None:
        initial.propagation_seeds(target, draws)

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        first = prompts[0].point[0] if prompts else 0  # type: ignore[union-attr]  # clicks
        seeds = sum(p.point[0] == first for p in prompts)  # type: ignore[union-attr]
        return Effort(points=seeds, slices=2, scrolled=slices_scrolled(target))


@prompter(
    "box-propagation",
    "volumes: a box in the middle slice, then the box of each predicted mask",
    label="B Prop",
    count="4",
)
@dataclass(frozen=True, slots=True)
class BoxPropagation(Prompter):
    """A box in the middle slice, carried on by the model's own answers."""

    gives: ClassVar[frozenset[str]] = BOX

    def start(self, context: PromptContext) -> Sequence[Prompt]:
        return initial.box_propagation(context.target, context.answers, context.protocol)

    def work(self, target: Mask, protocol: ProtocolName, prompts: Sequence[Prompt]) -> Effort:
        return Effort(boxes=1, slices=2, scrolled=slices_scrolled(target))

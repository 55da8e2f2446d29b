"""Users who prompt a volume once: the prompters of IntRaBench, by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

import numpy as np

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.effort import Effort
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import Ask, Reading, View, render
from segmeter.core.prompts import Prompt, Prompts
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.users.volumes.boxes import box_3d, box_per_slice, boxes_from_3d_box
from segmeter.users.volumes.interpolation import (
    box_seeds,
    interpolated_boxes,
    interpolated_points,
)
from segmeter.users.volumes.points_per_slice import (
    alternating_points_per_slice,
    centre_point_per_slice,
    points_per_slice,
)
from segmeter.users.volumes.points_per_volume import (
    centre_points_per_volume,
    centroid,
    points_per_volume,
)
from segmeter.users.volumes.propagation import (
    Answers,
    box_propagation,
    point_propagation,
    propagation_seeds,
)
from segmeter.users.volumes.random_streams import Draws, draws_of
from segmeter.users.volumes.slices import Centre, foreground_slices

__all__ = [
    "AlternatingPointsPerSlice",
    "Asking",
    "Box3d",
    "BoxInterpolation",
    "BoxPerSlice",
    "BoxPropagation",
    "BoxesFrom3dBox",
    "CentrePointPerSlice",
    "CentrePointsPerVolume",
    "Centroid",
    "PointInterpolation",
    "PointPropagation",
    "PointsPerSlice",
    "PointsPerVolume",
    "Prompter",
    "answers_of",
]

BOX = frozenset({"box"})


@dataclass(frozen=True, slots=True)
class Asking:
    """What a prompter may use: the target, the reading, draws, and the model's answers."""

    target: Mask
    reading: Reading
    draws: Draws
    answers: Answers


class Prompter(ABC):
    """Prompts in the first round and is content afterwards.

    `whole` tells that the prompts are for models that see the whole volume; `label` is the
    paper's name, `nominal` the number of interactions that it prints.
    """

    __slots__ = ()
    kind: ClassVar[str]
    gives: ClassVar[frozenset[str]] = frozenset()
    whole: ClassVar[bool] = False

    @property
    def name(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        defaults = {f.name: f.default for f in fields(self)}  # type: ignore[arg-type]
        shown = {k: v for k, v in given.items() if k == "n" or v != defaults[k]}
        return str(Spec(self.kind, shown))

    @property
    @abstractmethod
    def label(self) -> str: ...

    @property
    @abstractmethod
    def nominal(self) -> str: ...

    @abstractmethod
    def start(self, asking: Asking) -> Sequence[Prompt]:
        """The prompts of the first round."""

    def drawn(self, target: Mask, draws: Draws) -> None:  # noqa: B027  # most draw nothing
        """Draw what `start` draws, so that a shared stream stands where it would."""

    @abstractmethod
    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        """What a person did for these prompts."""

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        if observation.prompts:
            return None
        return tuple(self.start(asking_of(observation, rng)))

    def effort(
        self, target: Target, reading: Reading, number: int, prompts: Sequence[Prompt]
    ) -> Effort:
        return self.work(target.mask, reading, prompts) if prompts else Effort()


def asking_of(observation: Observation, rng: np.random.Generator) -> Asking:
    """What a prompter gets to see of an observation."""
    reading = observation.reading
    draws, answers = draws_of(reading, rng), answers_of(observation.view)
    return Asking(observation.target.mask, reading, draws, answers)


def answers_of(view: View) -> Answers:
    """Answers of a view to prompters that ask while they prompt; the same is asked once."""

    def answers(sets: Sequence[tuple[Prompt, ...]]) -> list[Mask]:
        unique = list(dict.fromkeys(sets))
        masks = render(view, view.answer([Ask(prompts) for prompts in unique]))
        return [masks[unique.index(prompts)] for prompts in sets]

    return answers


def _check_count(n: int) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise BadInput(f"a prompter gives n = 1 or more prompts, not {n!r}")


def _check_centre(centre: str) -> None:
    if centre not in ("box", "mass", "edt"):
        raise BadInput(f"a centre is that of the box, the mass or the edt, not '{centre}'")


def _span(target: Mask) -> int:
    """Slices scrolled from the target's first to its last."""
    return int(target.bits.shape[0]) - 1


@catalogue.users.add("points-per-slice", summary="volumes: n random points in every slice")
@dataclass(frozen=True, slots=True)
class PointsPerSlice(Prompter):
    """Random pixels of the target in each of its slices."""

    kind: ClassVar[str] = "points-per-slice"
    n: int = 1

    def __post_init__(self) -> None:
        _check_count(self.n)

    @property
    def label(self) -> str:
        return f"{self.n}PPS"

    @property
    def nominal(self) -> str:
        return f"{self.n}X"

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return points_per_slice(asking.target, self.n, asking.draws)

    def drawn(self, target: Mask, draws: Draws) -> None:
        points_per_slice(target, self.n, draws)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return Effort(points=len(prompts), scrolled=_span(target))


@catalogue.users.add(
    "alternating-points-per-slice",
    summary="volumes: n random points in every slice, half of them outside",
)
@dataclass(frozen=True, slots=True)
class AlternatingPointsPerSlice(Prompter):
    """Pixels of the target and of a ring around it, in each of its slices."""

    kind: ClassVar[str] = "alternating-points-per-slice"
    n: int = 2

    def __post_init__(self) -> None:
        _check_count(self.n)

    @property
    def label(self) -> str:
        return f"{self.n}±PPS"

    @property
    def nominal(self) -> str:
        return f"{self.n}X"

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return alternating_points_per_slice(asking.target, self.n, asking.draws)

    def drawn(self, target: Mask, draws: Draws) -> None:
        alternating_points_per_slice(target, self.n, draws)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return Effort(points=len(prompts), scrolled=_span(target))


@catalogue.users.add("centre-point-per-slice", summary="volumes: the centre of every slice")
@dataclass(frozen=True, slots=True)
class CentrePointPerSlice(Prompter):
    """The middle of the largest part in each slice."""

    kind: ClassVar[str] = "centre-point-per-slice"
    centre: Centre = "mass"

    def __post_init__(self) -> None:
        _check_centre(self.centre)

    @property
    def label(self) -> str:
        return "1 Center P"

    @property
    def nominal(self) -> str:
        return "1"  # as printed, though it is one per slice

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return centre_point_per_slice(asking.target, self.centre)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return Effort(points=len(prompts), scrolled=_span(target))


@catalogue.users.add("box-per-slice", summary="volumes: a tight box in every slice")
@dataclass(frozen=True, slots=True)
class BoxPerSlice(Prompter):
    """A tight box around the target in each of its slices."""

    kind: ClassVar[str] = "box-per-slice"
    gives: ClassVar[frozenset[str]] = BOX

    @property
    def label(self) -> str:
        return "Box PS"

    @property
    def nominal(self) -> str:
        return "2X"

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return box_per_slice(asking.target)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return Effort(boxes=len(prompts), scrolled=_span(target))


@catalogue.users.add("boxes-from-3d-box", summary="volumes: one 3D box, cut into slices")
@dataclass(frozen=True, slots=True)
class BoxesFrom3dBox(Prompter):
    """One box around the whole target, given to every slice it passes."""

    kind: ClassVar[str] = "boxes-from-3d-box"
    gives: ClassVar[frozenset[str]] = BOX

    @property
    def label(self) -> str:
        return "from 3D Box"

    @property
    def nominal(self) -> str:
        return "3"

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return boxes_from_3d_box(asking.target)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return Effort(boxes_3d=1, scrolled=_span(target))


@catalogue.users.add(
    "point-interpolation", summary="volumes: a point in n slices, a line through the others"
)
@dataclass(frozen=True, slots=True)
class PointInterpolation(Prompter):
    """The middle of a few slices, interpolated over those between."""

    kind: ClassVar[str] = "point-interpolation"
    n: int = 3
    centre: Centre = "box"

    def __post_init__(self) -> None:
        _check_count(self.n)
        _check_centre(self.centre)

    @property
    def label(self) -> str:
        return f"{self.n}P Inter"

    @property
    def nominal(self) -> str:
        return str(self.n)

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return interpolated_points(asking.target, self.n, asking.reading, self.centre)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        points = min(self.n, len(foreground_slices(target)))
        return Effort(points=points, scrolled=_span(target))


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
        _check_count(self.n)
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
        return Effort(boxes=boxes, scrolled=_span(target))


@catalogue.users.add(
    "point-propagation",
    summary="volumes: five points in the middle slice, then the centre of each answer",
)
@dataclass(frozen=True, slots=True)
class PointPropagation(Prompter):
    """Points in the middle slice, carried on by the model's own answers."""

    kind: ClassVar[str] = "point-propagation"
    centre: Centre = "box"

    def __post_init__(self) -> None:
        _check_centre(self.centre)

    @property
    def label(self) -> str:
        return "5P Prop"

    @property
    def nominal(self) -> str:
        return "7"

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return point_propagation(
            asking.target, asking.answers, asking.draws, asking.reading, self.centre
        )

    def drawn(self, target: Mask, draws: Draws) -> None:
        propagation_seeds(target, draws)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        first = prompts[0].point[0] if prompts else 0  # type: ignore[union-attr]  # clicks
        seeds = sum(p.point[0] == first for p in prompts)  # type: ignore[union-attr]
        return Effort(points=seeds, slices=2, scrolled=_span(target))


@catalogue.users.add(
    "box-propagation", summary="volumes: a box in the middle slice, then the box of each answer"
)
@dataclass(frozen=True, slots=True)
class BoxPropagation(Prompter):
    """A box in the middle slice, carried on by the model's own answers."""

    kind: ClassVar[str] = "box-propagation"
    gives: ClassVar[frozenset[str]] = BOX

    @property
    def label(self) -> str:
        return "B Prop"

    @property
    def nominal(self) -> str:
        return "4"

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return box_propagation(asking.target, asking.answers, asking.reading)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return Effort(boxes=1, slices=2, scrolled=_span(target))


@catalogue.users.add("points-per-volume", summary="volumes: n random points in the whole")
@dataclass(frozen=True, slots=True)
class PointsPerVolume(Prompter):
    """Random voxels of the target."""

    kind: ClassVar[str] = "points-per-volume"
    whole: ClassVar[bool] = True
    n: int = 1

    def __post_init__(self) -> None:
        _check_count(self.n)

    @property
    def label(self) -> str:
        return f"{self.n}PPV"

    @property
    def nominal(self) -> str:
        return str(self.n)

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return points_per_volume(asking.target, self.n, asking.draws)

    def drawn(self, target: Mask, draws: Draws) -> None:
        points_per_volume(target, self.n, draws)

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return Effort(points=len(prompts), scrolled=_span(target) if len(prompts) > 1 else 0)


@catalogue.users.add("centroid", summary="volumes: the mean voxel, wherever it lies")
@dataclass(frozen=True, slots=True)
class Centroid(Prompter):
    """The target's mean voxel, which may lie outside of it."""

    kind: ClassVar[str] = "centroid"
    whole: ClassVar[bool] = True

    @property
    def label(self) -> str:
        return "centroid"

    @property
    def nominal(self) -> str:
        return "1"

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
    whole: ClassVar[bool] = True
    n: int = 1
    patch: int = 128
    along: Literal["z", "x"] = "z"

    def __post_init__(self) -> None:
        _check_count(self.n)
        if self.along not in ("z", "x"):
            raise BadInput(f"centre points are ordered along z or x, not '{self.along}'")

    @property
    def label(self) -> str:
        return f"{self.n} center PPV"

    @property
    def nominal(self) -> str:
        return str(self.n)

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return centre_points_per_volume(
            asking.target, self.n, asking.reading, patch=self.patch or None, along=self.along
        )

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return Effort(points=len(prompts), scrolled=_span(target) if len(prompts) > 1 else 0)


@catalogue.users.add("box-3d", summary="volumes: one box around the whole target")
@dataclass(frozen=True, slots=True)
class Box3d(Prompter):
    """One box around the whole target, for models that take it."""

    kind: ClassVar[str] = "box-3d"
    gives: ClassVar[frozenset[str]] = BOX
    whole: ClassVar[bool] = True

    @property
    def label(self) -> str:
        return "3D Box"

    @property
    def nominal(self) -> str:
        return "3"

    def start(self, asking: Asking) -> Sequence[Prompt]:
        return [box_3d(asking.target)]

    def work(self, target: Mask, reading: Reading, prompts: Sequence[Prompt]) -> Effort:
        return Effort(boxes_3d=1, scrolled=_span(target))

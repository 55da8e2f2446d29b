"""Users who correct a volume over several rounds: IntRaBench's refinements, by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

import numpy as np

from segmeter.core import catalogue
from segmeter.core.capabilities import CountsEffort, ForgetsPrompts, GivesPrompts, capable
from segmeter.core.catalogue import Spec
from segmeter.core.effort import Effort
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.prompts import Click, Prompt, Prompts, Scribble
from segmeter.core.scenes import Target
from segmeter.core.users import Observation
from segmeter.measures.objects import dice
from segmeter.users.volumes.intrabench_prompters import Prompter, context_of
from segmeter.users.volumes.refinement_prompts import (
    Correction,
    near,
    point_per_wrong_slice,
    point_per_wrong_volume,
    scribble_correction,
    scribble_correction_3d,
)
from segmeter.users.volumes.slices import Draws, draws_of

__all__ = ["Refiner"]

Earlier = Literal["keep", "forget"]


@dataclass(frozen=True, slots=True)
@capable(CountsEffort, ForgetsPrompts, GivesPrompts)
class Refiner(ABC):
    """Prompts like another user first, then corrects the mask round by round.

    `earlier` decides whether the model gets all prompts so far again (`keep`, the paper's
    WithPrev) or only the new ones and its own state (`forget`, NoPrev). Stops when the
    mask is right, when its Dice reaches `until_dice`, or when the prompts so far have fixed
    `until_dof` degrees of freedom; 0 sets no such bound.
    """

    kind: ClassVar[str]
    per_step: ClassVar[str] = "3"
    step_label: ClassVar[str] = "Scribble Refine"
    whole: ClassVar[bool] = False
    start: str = "points-per-slice"
    n: int = 1
    earlier: Earlier = "keep"
    until_dice: float = 0.0
    until_dof: int = 0
    repeat: int = 1

    def __post_init__(self) -> None:
        if self.earlier not in ("keep", "forget"):
            raise BadInput(f"earlier prompts are kept or forgotten, not '{self.earlier}'")
        self.first  # noqa: B018  # refuses a start that is none

    @property
    def first(self) -> Prompter:
        """The user who prompts in the first round."""
        spec = Spec.parse(self.start)
        made = catalogue.users.make(Spec(spec.name, {**spec.options, **self._count(spec)}))
        if not isinstance(made, Prompter):
            raise BadInput(f"a refinement starts with a prompter of volumes, not '{self.start}'")
        return made

    def _count(self, spec: Spec) -> dict[str, int]:
        return {"n": self.n} if self.n and "n" not in spec.options else {}

    @property
    def name(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        usual = {"n": 0, "until_dice": 0, "until_dof": 0, "repeat": 1, "drawn": "points"}
        return str(Spec(self.kind, {k: v for k, v in given.items() if v != usual.get(k)}))

    @property
    def label(self) -> str:
        return f"{self.first.label} + {self.step_label}{'*' if self.earlier == 'keep' else ''}"

    @property
    def paper_interactions(self) -> str:
        return f"{self.first.paper_interactions}/{self.per_step}"

    @property
    def gives(self) -> frozenset[str]:
        return self.first.gives

    @property
    def forgets_prompts(self) -> bool:
        return self.earlier == "forget"

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts:
        if not observation.prompts:
            return tuple(self.first.start(context_of(observation, rng)))
        if self._bounded(observation):
            return None
        found = self.found(observation, observation.mask, self._draws(observation, rng))
        return () if found is None else self.said(found)

    @abstractmethod
    def found(self, observation: Observation, prediction: Mask, draws: Draws) -> Correction | None:
        """The correction of a mask; None when nothing is wrong."""

    def said(self, correction: Correction) -> tuple[Prompt, ...]:
        """The prompts of a correction."""
        return correction.clicks

    def effort(
        self, target: Target, protocol: ProtocolName, number: int, prompts: Sequence[Prompt]
    ) -> Effort:
        if not prompts or number == 1:
            return self.first.effort(target, protocol, number, prompts)
        points = [p for prompt in prompts for p in _points(prompt)]
        levels = [int(z) for z, *_ in points]
        scrolled = max(levels) - min(levels)
        if self.per_step == "3":
            return Effort(scribbles=1, stroke_px=float(len(points)), scrolled=scrolled)
        return Effort(points=len(prompts), scrolled=scrolled)

    def _bounded(self, observation: Observation) -> bool:
        target, protocol = observation.target, observation.protocol
        if self.until_dice and dice(target.mask, observation.mask) >= self.until_dice:
            return True
        made = [self.effort(target, protocol, r.number, r.prompts) for r in observation.rounds]
        return bool(self.until_dof) and sum(e.degrees_of_freedom for e in made) >= self.until_dof

    def _draws(self, observation: Observation, rng: np.random.Generator) -> Draws:
        """In published the original's single stream, past the start and earlier corrections."""
        draws = draws_of(observation.protocol, rng)
        if observation.protocol == "published" and self.per_step == "3":
            self.first.advance(observation.target.mask, draws)
            for made in observation.rounds[:-1]:
                self.found(observation, made.mask, draws)
        return draws


def _points(prompt: Prompt) -> Sequence[tuple[float, ...]]:
    match prompt:
        case Scribble(points):
            return points
        case Click(point):
            return [point]
    return []


@catalogue.users.add(
    "point-per-slice-refinement",
    summary="volumes: points in every slice, then one on an error of each",
)
@dataclass(frozen=True, slots=True)
class PointPerSliceRefinement(Refiner):
    """One random wrong pixel in each slice of the target, round by round."""

    kind: ClassVar[str] = "point-per-slice-refinement"
    per_step: ClassVar[str] = "1X"
    step_label: ClassVar[str] = "1PPS Refine"

    def found(self, observation: Observation, prediction: Mask, draws: Draws) -> Correction | None:
        return Correction.of(point_per_wrong_slice(observation.target.mask, prediction, draws))


@catalogue.users.add(
    "scribble-refinement",
    summary="volumes: prompts in slices, then a scribble over the larger kind of error",
)
@dataclass(frozen=True, slots=True)
class ScribbleRefinement(Refiner):
    """A stroke through false negatives, or along the outline where the mask went over it.

    `drawn` tells whether the model gets the stroke as single points, as in the original, or
    as a stroke, which few models take.
    """

    kind: ClassVar[str] = "scribble-refinement"
    n: int = 0
    drawn: Literal["points", "stroke"] = "points"

    def __post_init__(self) -> None:
        Refiner.__post_init__(self)  # super() fails in a dataclass with slots
        if self.drawn not in ("points", "stroke"):
            raise BadInput(f"a scribble is drawn as points or as a stroke, not '{self.drawn}'")

    @property
    def gives(self) -> frozenset[str]:
        return self.first.gives | ({"scribble"} if self.drawn == "stroke" else frozenset())

    def found(self, observation: Observation, prediction: Mask, draws: Draws) -> Correction | None:
        return scribble_correction(observation.target.mask, prediction, draws, observation.protocol)

    def said(self, correction: Correction) -> tuple[Prompt, ...]:
        stroke = correction.stroke if self.drawn == "stroke" else None
        return (stroke,) if stroke else correction.clicks


@catalogue.users.add(
    "point-per-volume-refinement",
    summary="volumes: points for the whole, then one on an error in each round",
)
@dataclass(frozen=True, slots=True)
class PointPerVolumeRefinement(Refiner):
    """One random wrong voxel, round by round."""

    kind: ClassVar[str] = "point-per-volume-refinement"
    per_step: ClassVar[str] = "1"
    step_label: ClassVar[str] = "1 PPV Refine"
    whole: ClassVar[bool] = True
    start: str = "points-per-volume"

    def found(self, observation: Observation, prediction: Mask, draws: Draws) -> Correction | None:
        seen = _seen(observation, prediction)
        return Correction.of(point_per_wrong_volume(*seen, draws, observation.protocol))


@catalogue.users.add(
    "scribble-per-volume-refinement",
    summary="volumes: points for the whole, then points of a scribble in each round",
)
@dataclass(frozen=True, slots=True)
class ScribblePerVolumeRefinement(Refiner):
    """Points of a stroke through the larger kind of error, for models that see the whole."""

    kind: ClassVar[str] = "scribble-per-volume-refinement"
    whole: ClassVar[bool] = True
    start: str = "centre-points-per-volume"

    def found(self, observation: Observation, prediction: Mask, draws: Draws) -> Correction | None:
        return scribble_correction_3d(*_seen(observation, prediction), draws, observation.protocol)


def _seen(observation: Observation, prediction: Mask) -> tuple[Mask, Mask]:
    """Target and mask as the original compares them: in the patch around the first point."""
    target, first = observation.target.mask, observation.prompts[0]
    if observation.protocol == "corrected" or not isinstance(first, Click):
        return target, prediction
    return near(target, first.point), near(prediction, first.point)

"""Shared parts of volume prompters: users who prompt once, with IntRaBench's names."""

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
from segmeter.users.volumes.initial_prompts import (
    box_3d,
    centre_points_per_volume,
    centroid,
    points_per_volume,
)
from segmeter.users.volumes.slices import Draws, draws_of

__all__ = ["Prompter"]

Answers = Callable[[Sequence[tuple[Prompt, ...]]], Sequence[Mask]]
"""Masks that a model answers, for each set of prompts."""


@dataclass(frozen=True, slots=True)
class PromptContext:
    """Input of a prompter: target, protocol, random draws, and the model's predictions."""

    target: Mask
    protocol: ProtocolName
    draws: Draws
    answers: Answers


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


def answers_of(encoded: EncodedScene) -> Answers:
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

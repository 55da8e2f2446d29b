"""Shared parts of volume prompters: users who prompt once, with IntRaBench's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, TypeVar

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
from segmeter.users.volumes.propagation import Answers
from segmeter.users.volumes.random_streams import Draws, draws_of

__all__ = [
    "DrawnPoints",
    "PromptContext",
    "Prompter",
    "answers_of",
    "context_of",
    "prompter",
    "slices_scrolled",
]


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

"""Users: simulated annotators, who see the current mask and return the next prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene, Prediction, ProtocolName
from segmeter.core.prompts import Prompt, Prompts
from segmeter.core.scenes import Scene, Target

if TYPE_CHECKING:
    from segmeter.core.sessions import Round, Session


@dataclass(frozen=True, slots=True)
class Observation:
    """The state of a session that a simulated user sees before the next prompt.

    `encoded` and `last` are for users that query the model itself, such as the one that searches
    for the worst click. `round` counts from 1; `rounds` are the session's rounds so far.

    >>> from segmeter.models.conformance import drawn_scene
    >>> from segmeter.models.synthetic import Disc
    >>> scene = drawn_scene()
    >>> nothing = Mask.empty(scene.shape)
    >>> seen = Observation(
    ...     scene, scene.targets[0], nothing, (), "corrected", Disc().encode(scene)
    ... )
    >>> (seen.target.mask - seen.mask).area == seen.target.mask.area
    True
    """

    scene: Scene
    target: Target
    mask: Mask
    prompts: tuple[Prompt, ...]
    protocol: ProtocolName
    encoded: EncodedScene
    last: Prediction | None = None
    round: int = 1
    rounds: Sequence[Round] = ()

    @classmethod
    def of(cls, session: Session, target: Target, number: int) -> Observation:
        """The state of a session before the round of this number."""
        seen = session.mask, session.prompts, session.protocol, session.encoded, session.last
        return cls(session.scene, target, *seen, number, session.rounds)


@runtime_checkable
class User(Protocol):
    """Returns the next prompt, several at once, or None to accept the mask.

    Stateless; randomness comes from the generator it is given. Where many users at once are
    cheaper than one by one, they may share a `team` (`core.capabilities.Team`); a user with prompts
    other than clicks declares them in `gives` (`core.capabilities.GivesPrompts`).
    """

    @property
    def name(self) -> str: ...

    def next(self, observation: Observation, rng: np.random.Generator) -> Prompts: ...

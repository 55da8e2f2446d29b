"""Users: simulated people who look at a mask and say what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from segmeter.core.masks import Mask
from segmeter.core.models import Prediction, Reading, View
from segmeter.core.prompts import Prompt
from segmeter.core.scenes import Scene, Target

__all__ = ["Sight", "User"]


@dataclass(frozen=True, slots=True)
class Sight:
    """All that a user sees before the next prompt.

    `view` and `last` are there for users who try out the model itself, such as the one
    who looks for the worst click; people do not use them. `round` counts from 1.
    """

    scene: Scene
    target: Target
    mask: Mask
    prompts: tuple[Prompt, ...]
    reading: Reading
    view: View
    last: Prediction | None = None
    round: int = 1


@runtime_checkable
class User(Protocol):
    """Gives the next prompt, or None when content.

    Holds no state and draws only from the generator it is handed. Where many at once are
    cheaper than one by one, a user may also have a `team`: an object with
    `next_for(users, sights, generators) -> list` that it shares with others. One who gives
    other prompts than clicks names them in `gives`, so that a model which does not take
    them is refused before the run and not at every object.
    """

    @property
    def name(self) -> str: ...

    def next(self, sight: Sight, rng: np.random.Generator) -> Prompt | None: ...

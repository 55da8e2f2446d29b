"""Users who click as people do: one group of them, or all, for one click or for a session."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from segmeter.clickability.groups import GROUPS, Draw, Share, share_of_group
from segmeter.clickability.map_sources import FirstRounds, check_source, source
from segmeter.core import catalogue
from segmeter.core.capabilities import RepeatsDraws, Team, capable
from segmeter.core.errors import BadInput
from segmeter.core.prompts import Click
from segmeter.core.seeds import fingerprint
from segmeter.core.users import Observation
from segmeter.users.error_prompts import Draws, Found, Teamed, together

# The original seeds its generator with this at every image, so that all groups, models and
# images share the same numbers; a further object of an image continues the stream.
_PUBLISHED_SEED = 42
_PUBLISHED_ROUNDS = 20


class _FromMap(Teamed):
    """A user whose clicks are drawn from a clickability map of what is wrong."""

    __slots__ = ()
    draw: int
    map: str
    checkpoint: str | None

    def __post_init__(self) -> None:
        if self.draw < 1:
            raise BadInput(f"draws count from 1, there is no draw {self.draw}")
        check_source(self.map, self._weights)

    @property
    def source(self) -> FirstRounds:
        return source(self.map, self._weights)

    @property
    def _weights(self) -> Path | None:
        return None if self.checkpoint is None else Path(self.checkpoint)

    def wanted_draw(self, observation: Observation) -> tuple[Share, float] | None:
        """The share of the mass to draw from, and the number of a published draw."""
        raise NotImplementedError

    def after(self, found: Found, draws: Draws) -> Draw | None:
        """The draw of a user; None to accept the mask."""
        now, wanted_draw = found.observation, self.wanted_draw(found.observation)
        if found.click is None or wanted_draw is None:
            return None
        share, uniform = wanted_draw
        seed, first = None, not now.prompts and not now.mask
        if now.protocol != "published":
            uniform = float(draws().random())
            # One order of equally likely pixels per target.
            seed = int(fingerprint(now.scene.name, now.target.id, size=8), 16)
        return Draw(
            now.scene, now.target, now.mask, found.click.positive, first, found.clicked,
            share, uniform, seed,
        )  # fmt: skip


@catalogue.users.add("clicking-group", "clicks of an RClicks group (group=1..10; 0 for all)")
@dataclass(frozen=True, slots=True)
@capable(RepeatsDraws)
class ClickingGroup(_FromMap):
    """Clicks drawn from one group of the clickability map of what is wrong.

    The centre click's rule chooses whether false negatives or false positives are corrected. In
    the protocol `published` groups are cut by value and draws follow the original's stream of
    numbers; `corrected` cuts exact tenths and draws from the session's own generator.
    """

    team: ClassVar[Team] = staticmethod(together)
    group: int = 0  # 1 (least likely) to 10 (most likely), or 0 for draws from the whole map
    draw: int = 1  # which of several independent draws; in `published` all are the same
    map: str = "prior"  # or uniform, distance, saliency, saliency-crop, network
    checkpoint: str | None = None  # weights of the last three

    def __post_init__(self) -> None:
        share_of_group(self.group)
        _FromMap.__post_init__(self)

    @property
    def name(self) -> str:
        kind = f"clicking-group-{self.group}" if self.group else "clicking-map"
        return kind if self.draw == 1 else f"{kind}-draw-{self.draw}"

    def wanted_draw(self, observation: Observation) -> tuple[Share, float] | None:
        # Clicks at the corner, made when nothing was wrong, drew no number of the image's stream.
        corner = sum(p == Click((0, 0), False) for p in observation.prompts)
        before = [t.id for t in observation.scene.targets].index(observation.target.id)
        number = _number(before * _PUBLISHED_ROUNDS + len(observation.prompts) - corner)
        return share_of_group(self.group, GROUPS), number


@catalogue.users.add(
    "map-sample", "one click drawn from the whole clickability map (draw=1, 2, ...)"
)
@dataclass(frozen=True, slots=True)
@capable(RepeatsDraws)
class MapSample(_FromMap):
    """One click on the target, drawn from its whole clickability map; then the mask is accepted.

    In `published` sample after sample takes the next number of the original's stream, which
    has given `before` numbers to earlier objects of the image.
    """

    team: ClassVar[Team] = staticmethod(together)
    draw: int = 1
    before: int = 0
    map: str = "prior"
    checkpoint: str | None = None

    @property
    def name(self) -> str:
        return f"map-sample-{self.draw}"

    def wanted_draw(self, observation: Observation) -> tuple[Share, float] | None:
        number = _number(self.before + self.draw - 1)
        return None if observation.prompts else (share_of_group(0), number)


@cache
def _number(place: int) -> float:
    """The original's uniform number at a place of an image's stream."""
    return float(np.random.RandomState(_PUBLISHED_SEED).random_sample(place + 1)[place])

"""The clicking-group user: clicks as people of one tenth do, from the least to the most likely."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from segmeter.clickability.groups import GROUPS, draw_published, draw_sound, share_of_group
from segmeter.clickability.sources import source
from segmeter.core import catalogue
from segmeter.core.mistakes import mistakes
from segmeter.core.prompts import Click, Prompt
from segmeter.core.seeds import fingerprint
from segmeter.core.users import Sight
from segmeter.users.centre_click import centre_click

__all__ = ["ClickingGroup"]

# The original seeds its generator with this at every picture, so that all groups, models and
# pictures share the same numbers; a further object of a picture goes on with the stream.
_PUBLISHED_SEED = 42
_PUBLISHED_ROUNDS = 20


@catalogue.users.add(
    "clicking-group", summary="clicks as one tenth of people do (group=1..10; 0 for all)"
)
@dataclass(frozen=True, slots=True)
class ClickingGroup:
    """Clicks drawn from one group of the click map of what is wrong.

    Which side is mended, missed or spilled, is the centre click's choice. In the reading
    `published` groups are cut by value and draws follow the original's stream of numbers;
    `sound` cuts exact tenths and draws from the session's own generator.

    Attributes
    ----------
    group
        1 (least likely) to 10 (most likely), or 0 for draws from the whole map.
    draw
        Which of several independent draws this is; only its number in the name differs.
    map
        The click source: prior, uniform, distance, saliency, saliency-crop or network.
    checkpoint
        Weights of the last three.
    """

    group: int = 0
    draw: int = 1
    map: str = "prior"
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        share_of_group(self.group)

    @property
    def name(self) -> str:
        kind = f"clicking-group-{self.group}" if self.group else "clicking-map"
        return kind if self.draw == 1 else f"{kind}-draw-{self.draw}"

    def next(self, sight: Sight, rng: np.random.Generator) -> Prompt | None:
        centre = centre_click(sight)
        if centre is None:
            return None
        clicked = [p.point for p in sight.prompts if isinstance(p, Click)]
        missed, spilled = mistakes(sight.target, sight.mask)
        mistake = missed if centre.positive else spilled
        maps = source(self.map, None if self.checkpoint is None else Path(self.checkpoint))
        first = not sight.prompts
        weights = maps.map(sight.scene, sight.target, mistake, first, sight.reading)
        weights = weights.without(clicked)
        share = share_of_group(self.group, GROUPS)
        if sight.reading == "published":
            point = draw_published(weights, share, _published_number(sight))
        else:
            seed = int(fingerprint(sight.scene.name, sight.target.id, size=8), 16)
            point = draw_sound(weights, share, float(rng.random()), seed)
        # A map without mass on what is wrong leaves only the centre to click.
        return centre if point is None else Click(point, centre.positive)


def _published_number(sight: Sight) -> float:
    """The original's next uniform number at this place of the picture's stream.

    Clicks at the corner, made when nothing was wrong, drew none.
    """
    corner = sum(p == Click((0, 0), False) for p in sight.prompts)
    before = [t.id for t in sight.scene.targets].index(sight.target.id)
    place = before * _PUBLISHED_ROUNDS + len(sight.prompts) - corner
    return _stream(1 + place // 1000)[place]


@cache
def _stream(thousands: int) -> tuple[float, ...]:
    numbers = np.random.RandomState(_PUBLISHED_SEED).random_sample(1000 * thousands)
    return tuple(float(u) for u in numbers)

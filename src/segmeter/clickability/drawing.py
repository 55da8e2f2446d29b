"""Drawing: clicks from the prior of what many guesses got wrong, in one go.

A player of a session wants one click, not a map: the kernel goes from masks to clicks without
a box of weights in between, for all players of a round at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from segmeter.clickability.groups import Point, Share, draw_published, draw_sound
from segmeter.clickability.prior import Round, law, prior_on, shipped
from segmeter.core.masks import Mask
from segmeter.core.mistakes import Numbered, mistake
from segmeter.core.scenes import Target
from segmeter.core.threads import threads
from segmeter.kernels import compiled

__all__ = ["Draw", "drawn"]


@dataclass(frozen=True, slots=True)
class Draw:
    """One click to be drawn.

    Attributes
    ----------
    target, guess, missed
        The mistake: what the guess misses of the target, or what it spills.
    clicked
        Pixels that were clicked before; nobody clicks the same pixel twice.
    share, uniform
        Between which shares of the mass the click lies, and a number that says where.
    seed
        Of the order of equally likely pixels; None for a published draw.
    """

    target: Target
    guess: Mask
    missed: bool
    clicked: tuple[Point, ...]
    share: Share
    uniform: float
    seed: int | None


def drawn(draws: Sequence[Draw], round: Round = "later") -> list[Point | None]:
    """A pixel for each draw, on as many threads as kernels may use; None if there is no mass."""
    if compiled is None or not draws:
        return [_plain(draw, round) for draw in draws]
    masks = Numbered()
    tasks = [
        (
            *masks.sides(draw.target, draw.guess)[not draw.missed],
            draw.clicked,
            draw.share,
            draw.uniform,
            draw.seed,
        )
        for draw in draws
    ]
    height, width = draws[0].guess.shape
    numbers = law(shipped(round), (height, width))
    found = compiled.prior_clicks(masks.boxes, tasks, (height, width), numbers, threads())
    return [None if y < 0 else (y, x) for y, x in found]


def _plain(draw: Draw, round: Round) -> Point | None:
    wrong = mistake(draw.target, draw.guess, draw.missed)
    map = prior_on(wrong, round=round).without(draw.clicked)
    if draw.seed is None:
        return draw_published(map, draw.share, draw.uniform)
    return draw_sound(map, draw.share, draw.uniform, draw.seed)

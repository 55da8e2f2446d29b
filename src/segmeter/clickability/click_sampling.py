"""Sampling clicks: which click is wanted, and clicks from the prior for many players at once.

A player of a session wants one click, not a map: for the prior the kernel goes from masks to
clicks without a box of weights in between, for all players of a round in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from segmeter.clickability.groups import Point, Share, draw_corrected, draw_published
from segmeter.clickability.maps import ClickMap
from segmeter.clickability.prior import Round, kernel_numbers, prior_on, shipped
from segmeter.core.error_regions import Numbered, false_negatives, false_positives
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.scenes import Scene, Target
from segmeter.kernels import compiled, threads

__all__ = ["Draw", "drawn_on_prior"]


@dataclass(frozen=True, slots=True)
class Draw:
    """One click to be drawn.

    Attributes
    ----------
    target, prediction, positive
        The error region: false negatives of the prediction when positive, else false positives.
    first
        Whether nothing was segmented yet.
    clicked
        Pixels that were clicked before; no pixel is clicked twice.
    share, uniform
        The range of the mass that the click is drawn from, and the position within it.
    seed
        64 bits for the order of equally likely pixels; None for a published draw.
    """

    scene: Scene
    target: Target
    prediction: Mask
    positive: bool
    first: bool
    clicked: tuple[tuple[int, ...], ...]
    share: Share
    uniform: float
    seed: int | None

    @property
    def protocol(self) -> ProtocolName:
        return "published" if self.seed is None else "corrected"

    def error_region(self) -> Mask:
        side = false_negatives if self.positive else false_positives
        return side(self.target, self.prediction)

    def on(self, map: ClickMap) -> Point | None:
        """The click on a map of the error region; None if there is no mass."""
        left = map.without(self.clicked)
        if self.seed is None:
            return draw_published(left, self.share, self.uniform)
        return draw_corrected(left, self.share, self.uniform, self.seed)


def drawn_on_prior(draws: Sequence[Draw], round: Round = "later") -> list[Point | None]:
    """The clicks of players of one image; None if there is no mass."""
    if compiled is None or not draws:
        return [draw.on(prior_on(draw.error_region(), round=round)) for draw in draws]
    masks = Numbered()
    tasks = []
    for draw in draws:
        side = masks.sides(draw.target, draw.prediction)[not draw.positive]
        tasks.append((*side, draw.clicked, draw.share, draw.uniform, draw.seed))
    height, width = draws[0].prediction.shape
    numbers = kernel_numbers(shipped(round), (height, width))
    found = compiled.prior_clicks(masks.boxes, tasks, (height, width), numbers, threads())
    return [None if y < 0 else (y, x) for y, x in found]

"""Judging click maps on lessons: how well maps foretell where people clicked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from segmeter.clickability import maps
from segmeter.clickability.lessons import Floats, Lesson
from segmeter.clickability.network import apply
from segmeter.clickability.prior import prior
from segmeter.core.masks import Mask
from segmeter.core.seeds import generator
from segmeter.measures.clickmaps import compare

if TYPE_CHECKING:
    from segmeter.clickability._segnext import Clickability

__all__ = ["SCORES", "Maker", "judge", "network_maps", "rivals", "scores_of"]

# From picture, object and mistake (0..1) to a map, all of one size.
Maker = Callable[[npt.NDArray[np.uint8], npt.NDArray[np.bool_], Floats], Floats]
SCORES = ("nss", "pde", "ks", "pl1", "wd", "energy")


def rivals() -> dict[str, Maker]:
    """The maps that need no training: uniform, by depth, and the shipped prior."""
    laws = {"uniform": maps.uniform, "depth": maps.distance, "prior": prior}
    return {name: partial(_by_shape, law) for name, law in laws.items()}


def network_maps(network: Clickability) -> Maker:
    """The maps of a network."""
    return partial(apply, network)


def judge(
    lessons: Sequence[Lesson], makers: Mapping[str, Maker], rows: int = 20
) -> dict[str, dict[str, float]]:
    """Mean scores of each map over lessons, in the sound reading."""
    found = scores_of(lessons, makers, rows)
    return {
        name: {score: float(np.mean([row[score] for row in each])) for score in SCORES}
        for name, each in found.items()
    }


def scores_of(
    lessons: Sequence[Lesson], makers: Mapping[str, Maker], rows: int = 20
) -> dict[str, list[dict[str, float]]]:
    """Scores of each map on each lesson with two clicks or more.

    Maps are cut to the mistake, which all of them know; PDE is in units of its area.
    """
    found: dict[str, list[dict[str, float]]] = {name: [] for name in makers}
    for lesson in lessons:
        picture, target, wrong = lesson.show()
        mistake = Mask.of(wrong > 0.5)
        clicks = lesson.clicks((picture.shape[0], picture.shape[1]))
        if not mistake or len(clicks) < 2:
            continue
        sides = Mask.of(target).bits.shape
        for name, make in makers.items():
            map = make(picture, target, wrong) * mistake.dense()
            rng = generator("judge", lesson.name)
            scores = compare(clicks, map, (sides[0], sides[1]), rng, rows=rows, area=mistake.area)
            found[name].append({score: getattr(scores, score) for score in SCORES})
    return found


def _by_shape(
    law: Callable[[Mask], maps.ClickMap],
    picture: npt.NDArray[np.uint8],
    target: npt.NDArray[np.bool_],
    wrong: Floats,
) -> Floats:
    return law(Mask.of(wrong > 0.5)).dense()

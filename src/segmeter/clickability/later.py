"""Later rounds: the prior's numbers for clicks that mend a mistake.

The masks that people were shown in later rounds are not published, only statistics of the
clicks on them. So mistakes of real models on pictures at hand stand in, chosen as the study
chose its own: of several first clicks the best mask that is not yet good. Distributions are
compared, never single targets, and mistakes are matched by size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.clickability.calibration import Seen
from segmeter.clickability.foretelling import Shape, foretell, shape_of
from segmeter.clickability.groups import draw_sound
from segmeter.clickability.prior import Numbers, prior
from segmeter.core.masks import Mask
from segmeter.core.mistakes import mistakes
from segmeter.core.models import Ask, Model, render
from segmeter.core.prompts import Click
from segmeter.core.scenes import Scene

__all__ = ["LaterFit", "Mistake", "Recovered", "fit_later", "mistakes_of", "recover"]

_GOOD_ENOUGH = 0.95
_SMALLEST_PX = 10
_NEIGHBOURS = 5
_EPSILON = 1e-9
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A real model's mistake: missed (`fn`) or spilled (`fp`), its share of the picture."""

    kind: str
    share: float
    shape: Shape


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the tables say of a mistake that nobody published: its size, and three statistics."""

    kind: str
    share: float
    inside: float
    gain: float
    pl1: float


@dataclass(frozen=True, slots=True)
class LaterFit:
    """Numbers for later rounds and how far the distributions stay apart, in deviations."""

    numbers: Numbers
    apart: dict[str, float]
    seen_means: dict[str, float]
    foretold_means: dict[str, float]
    mistakes: int
    keys: int


def recover(seen: Seen, pixels: int) -> Recovered | None:
    """Size of the mistake and share of clicks on it, from NSS and PDE of the uniform map.

    Both are functions of these two alone: `nss = (pde - 1/N) / sqrt(1/(A N) - 1/N^2)`.
    """
    if seen.nss_uniform <= 0:
        return None
    deviation = (seen.pde_uniform - 1 / pixels) / seen.nss_uniform - _EPSILON
    area = 1 / (pixels * (deviation**2 + 1 / pixels**2))
    inside = seen.pde_uniform * area
    if not _SMALLEST_PX <= area < pixels or inside > 1.05:
        return None
    return Recovered(
        seen.kind, area / pixels, min(1.0, inside), seen.pde_depth * area, seen.pl1_uniform
    )


def mistakes_of(
    model: Model, scene: Scene, rng: np.random.Generator, clicks: int = 12
) -> list[Mistake]:
    """Mistakes that a model leaves after one likely click, as the study chose its own."""
    view = model.look(scene)
    found = []
    for target in scene.targets:
        map = prior(target.mask)
        points = [draw_sound(map, (0.0, 1.0), rng.random(), 0) for _ in range(clicks)]
        asks = [Ask((Click(point, True),)) for point in points if point is not None]
        guesses = render(view, view.answer(asks))
        unfinished = [g for g in guesses if _iou(target.mask, g) <= _GOOD_ENOUGH]
        if not unfinished:
            continue
        best = max(unfinished, key=lambda guess: _iou(target.mask, guess))
        pixels = math.prod(scene.shape)
        sides = (target.mask.bits.shape[0], target.mask.bits.shape[1])
        for kind, wrong in zip(("fn", "fp"), mistakes(target, best), strict=True):
            if wrong.area >= _SMALLEST_PX:
                found.append(Mistake(kind, wrong.area / pixels, shape_of(wrong, sides)))
    return found


def fit_later(seen: Sequence[Recovered], stand_ins: Sequence[Mistake], start: Numbers) -> LaterFit:
    """Depth and spread that bring the distributions of gain, PL1 and inside nearest.

    Each seen key is matched with the stand-ins of its kind that are nearest in size; the
    share and size of jitter stay those of the first round, where masks were at hand.
    """
    from scipy.optimize import minimize

    matched = _matched(seen, stand_ins)
    targets = {name: np.array([getattr(s, name) for s in seen]) for name in ("gain", "pl1")}

    def numbers_at(logs: Values) -> Numbers:
        return Numbers(float(np.exp(logs[0])), float(np.exp(logs[1])), start.sloppy, start.jitter)

    def distance(logs: Values) -> float:
        told = _told(stand_ins, numbers_at(logs), matched)
        return sum(_apart(targets[name], told[name]) for name in targets)

    begin = np.log([start.depth, start.spread])
    best = minimize(distance, begin, method="Nelder-Mead", options={"maxfev": 120})
    numbers = numbers_at(best.x)
    told = _told(stand_ins, numbers, matched)
    targets["inside"] = np.array([s.inside for s in seen])
    return LaterFit(
        numbers,
        {name: _apart(values, told[name]) for name, values in targets.items()},
        {name: float(values.mean()) for name, values in targets.items()},
        {name: float(told[name].mean()) for name in targets},
        len(stand_ins),
        len(seen),
    )


def _matched(seen: Sequence[Recovered], stand_ins: Sequence[Mistake]) -> npt.NDArray[np.intp]:
    """For each key the stand-ins of its kind that are nearest in size, by ratio."""
    sizes = np.log([m.share for m in stand_ins])
    kinds = np.array([m.kind for m in stand_ins])
    rows = []
    for key in seen:
        away = np.abs(sizes - math.log(key.share)) + np.where(kinds == key.kind, 0.0, 1e6)
        rows.append(np.argsort(away, kind="stable")[:_NEIGHBOURS])
    return np.concatenate(rows)


def _told(
    stand_ins: Sequence[Mistake], numbers: Numbers, matched: npt.NDArray[np.intp]
) -> dict[str, Values]:
    told = [foretell(m.shape, numbers) for m in stand_ins]
    values = {
        "gain": np.array([t.gain for t in told]),
        "pl1": np.array([t.pl1_uniform for t in told]),
        "inside": np.array([t.inside for t in told]),
    }
    return {name: column[matched] for name, column in values.items()}


def _apart(seen: Values, told: Values) -> float:
    """Distance of two distributions by quantiles, in standard deviations of the seen one."""
    levels = (np.arange(50) + 0.5) / 50
    gap = np.abs(np.quantile(seen, levels) - np.quantile(told, levels)).mean()
    return float(gap / seen.std())


def _iou(truth: Mask, guess: Mask) -> float:
    both = truth.overlap(guess)
    return both / max(1, truth.area + guess.area - both)

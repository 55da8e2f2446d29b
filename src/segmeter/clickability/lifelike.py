"""Lifelike clicks: a file like the real one, drawn from the click model.

For trying out everything that reads clicks, at full size, without the real file. Clicks of
the first round come from the prior on the object; clicks of later rounds from the prior on
what a moved copy of the object misses or spills.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from segmeter.clickability.prior import prior
from segmeter.clickability.records import COLUMNS
from segmeter.core.masks import Mask
from segmeter.core.seeds import generator

__all__ = ["Thing", "lifelike_rows", "write_lifelike"]

_MODELS = ("ritm", "sam", "simple", "mivos")


@dataclass(frozen=True, slots=True)
class Thing:
    """An object to click on: which picture of which data set, and its mask."""

    dataset: str
    image: str
    mask: Mask
    object: str = ""


def write_lifelike(
    path: Path, things: Iterable[Thing], seed: int = 0, per_target: int = 48, later: bool = True
) -> int:
    """Write a clicks file and return its number of rows."""
    count = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for thing in things:
            for row in lifelike_rows(thing, seed, per_target, later):
                writer.writerow([row[name] for name in COLUMNS])
                count += 1
    return count


def lifelike_rows(
    thing: Thing, seed: int, per_target: int, later: bool = True
) -> Iterator[Mapping[str, object]]:
    """The rows of one object: its first round, and one missed and one spilled part."""
    rng = generator(seed, "lifelike", thing.dataset, thing.image, thing.object)
    stem = f"{thing.image}_______{thing.object}" if thing.object else thing.image
    rounds = [("first", "", stem, thing.mask)]
    if later:
        moved = _moved(thing.mask, rng)
        for kind, part in (("fn", thing.mask.without(moved)), ("fp", moved.without(thing.mask))):
            model = _MODELS[int(rng.integers(len(_MODELS)))]
            rounds.append((kind, model, f"{stem}_{model}_{kind}", part))
    height, width = thing.mask.shape
    for kind, model, full, part in rounds:
        if not part:
            continue
        for y, x in _draws(part, per_target, rng):
            yield {
                "dataset": thing.dataset,
                "image_stem": thing.image,
                "object_stem": thing.object,
                "model_type": model,
                "click_type": kind,
                "full_stem": full,
                "device": "pc" if rng.random() < 0.5 else "mobile",
                "x": x,
                "y": y,
                "w": width,
                "h": height,
            }


def _draws(part: Mask, count: int, rng: np.random.Generator) -> list[list[int]]:
    map = prior(part)
    sums = np.cumsum(map.weights.ravel(), dtype=np.float64)
    places = np.searchsorted(sums, rng.random(count) * sums[-1], side="right")
    y, x = np.unravel_index(np.minimum(places, sums.size - 1), map.weights.shape)
    points: npt.NDArray[np.int64] = np.stack([y + map.low[0], x + map.low[1]], axis=1)
    rows: list[list[int]] = points.tolist()
    return rows


def _moved(mask: Mask, rng: np.random.Generator) -> Mask:
    """The mask shifted by up to a sixth of its sides, cut at the picture's border."""
    shift = [round(n * float(rng.uniform(-1, 1)) / 6) for n in mask.bits.shape]
    whole = np.zeros(mask.shape, dtype=bool)
    y, x = np.nonzero(mask.bits)
    y, x = y + mask.low[0] + shift[0], x + mask.low[1] + shift[1]
    keep = (y >= 0) & (x >= 0) & (y < mask.shape[0]) & (x < mask.shape[1])
    whole[y[keep], x[keep]] = True
    return Mask.of(whole)

"""Simulated click files: like the real one, drawn from the click prior.

For trying out everything that reads clicks, at full size, without the real file. Clicks of
the first round come from the prior on the object; clicks of later rounds from the prior on
what a moved copy of the object misses or adds; the copy is the previous mask.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.clickability.prior import prior
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.seeds import generator
from segmeter.datasets.recorded_clicks import COLUMNS

__all__ = ["Round", "Thing", "rounds_of", "write_simulated"]

Kind = Literal["first", "fn", "fp"]
_MODELS = ("ritm", "sam", "simple", "mivos")


@dataclass(frozen=True, slots=True)
class Thing:
    """An object to click on: which image of which data set, and its mask."""

    dataset: str
    image: str
    mask: Mask
    object: str = ""


def write_simulated(
    path: Path,
    things: Iterable[Thing],
    seed: int = 0,
    per_target: int = 48,
    later: bool = True,
    masks: Path | None = None,
) -> int:
    """Write a clicks file and return its number of rows.

    `masks` is a folder for the previous masks of later rounds, `<full_stem>.png`. The file is
    written whole or not at all.
    """
    count = 0
    part = path.with_name(f"{path.name}.part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for thing in things:
            for round in rounds_of(thing, seed, later):
                rows = list(_rows(thing, round, seed, per_target))
                writer.writerows([row[name] for name in COLUMNS] for row in rows)
                count += len(rows)
                if masks is not None and rows and round.previous is not None:
                    _write_mask(masks / f"{round.full_stem}.png", round.previous)
    part.replace(path)
    return count


@dataclass(frozen=True, slots=True)
class Round:
    """The region to click on: the object, or the false negatives or positives of a mask."""

    kind: Kind
    model: str
    full_stem: str
    part: Mask
    previous: Mask | None = None


def rounds_of(thing: Thing, seed: int, later: bool = True) -> list[Round]:
    """An object's first round, and with `later` one missed and one false positive part."""
    rng = generator(seed, "lifelike rounds", thing.dataset, thing.image, thing.object)
    stem = f"{thing.image}_______{thing.object}" if thing.object else thing.image
    rounds = [Round("first", "", stem, thing.mask)]
    if later:
        moved = _moved(thing.mask, rng)
        sides: tuple[tuple[Kind, Mask], ...] = (
            ("fn", thing.mask - moved),
            ("fp", moved - thing.mask),
        )
        for kind, part in sides:
            model = _MODELS[int(rng.integers(len(_MODELS)))]
            rounds.append(Round(kind, model, f"{stem}_{model}_{kind}", part, moved))
    return [round for round in rounds if round.part]


def _rows(thing: Thing, round: Round, seed: int, per_target: int) -> Iterator[Mapping[str, object]]:
    rng = generator(seed, "lifelike clicks", thing.dataset, round.full_stem)
    height, width = thing.mask.shape
    for y, x in _draws(round, per_target, rng):
        yield {
            "dataset": thing.dataset,
            "image_stem": thing.image,
            "object_stem": thing.object,
            "model_type": round.model,
            "click_type": round.kind,
            "full_stem": round.full_stem,
            "device": "pc" if rng.random() < 0.5 else "mobile",
            "x": x,
            "y": y,
            "w": width,
            "h": height,
        }


def _write_mask(path: Path, mask: Mask) -> None:
    import cv2

    if not cv2.imwrite(str(path), mask.dense().astype(np.uint8) * 255):
        raise BadInput(f"the mask '{path}' could not be written")


def _draws(round: Round, count: int, rng: np.random.Generator) -> list[list[int]]:
    map = prior(round.part, round="first" if round.kind == "first" else "later")
    sums = np.cumsum(map.weights.ravel(), dtype=np.float64)
    places = np.searchsorted(sums, rng.random(count) * sums[-1], side="right")
    y, x = np.unravel_index(np.minimum(places, sums.size - 1), map.weights.shape)
    points: npt.NDArray[np.int64] = np.stack([y + map.low[0], x + map.low[1]], axis=1)
    rows: list[list[int]] = points.tolist()
    return rows


def _moved(mask: Mask, rng: np.random.Generator) -> Mask:
    """The mask shifted by up to a sixth of its sides, cut at the image's border."""
    shift = [round(n * float(rng.uniform(-1, 1)) / 6) for n in mask.bits.shape]
    whole = np.zeros(mask.shape, dtype=bool)
    y, x = np.nonzero(mask.bits)
    y, x = y + mask.low[0] + shift[0], x + mask.low[1] + shift[1]
    keep = (y >= 0) & (x >= 0) & (y < mask.shape[0]) & (x < mask.shape[1])
    whole[y[keep], x[keep]] = True
    return Mask.of(whole)

"""Similarity of clicks, over a whole clicks file: devices, display modes, people and people.

Scores are computed for each key and averaged; the bootstrap resamples images, since keys of one
image are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.models import ProtocolName
from segmeter.core.seeds import generator
from segmeter.datasets.recorded_clicks import Clicks, Key
from segmeter.measures import clickability_maps
from segmeter.measures.clickability_maps import SampleScores
from segmeter.measures.clicks import Sides

# The published comparison takes keys with at least so many clicks of each device.
ENOUGH = 10
# A half has two clicks at least.
HALVES = 4
REFERENCE = "Text_Description"
MODES = ("Object_CutOut", "Shifted_CutOut", "Silhouette_Mask", "Highlighted_Instance")
_DRAWS = 1000
_SCORES = ("pl1", "ks", "wd", "energy")
Points = npt.NDArray[np.float64]
SidesOf = Callable[[Key], Sides]


@dataclass(frozen=True, slots=True)
class Row:
    """A mean over keys with its 95 % interval, from draws of images."""

    what: str
    score: str
    value: float
    low: float
    high: float
    keys: int


def devices(clicks: Clicks, sides: SidesOf, protocol: ProtocolName = "corrected") -> list[Row]:
    """Computers against phones, for every dataset of the file."""
    found: dict[str, list[tuple[str, SampleScores]]] = {}
    for key, places in clicks.groups():
        mobile = clicks.mobile[places]
        if min(int(mobile.sum()), int((~mobile).sum())) < ENOUGH:
            continue
        points = clicks.points[places].astype(np.float64)
        scores = clickability_maps.compare_devices(
            points[~mobile], points[mobile], sides(key), protocol
        )
        found.setdefault(key.dataset, []).append((key.image, scores))
    if not found:
        raise BadInput(f"no target has {ENOUGH} clicks of each device")
    return summarised(found, _SCORES)


def display_modes(
    clicks: Clicks,
    sides: SidesOf,
    protocol: ProtocolName = "corrected",
    reference: str = REFERENCE,
) -> list[Row]:
    """Each display mode against a reference, and people against people within the reference."""
    by_mode: dict[str, dict[tuple[str, str], tuple[Key, Points]]] = {}
    for key, places in clicks.groups():
        target = (key.image, key.object)
        points = clicks.points[places].astype(np.float64)
        by_mode.setdefault(key.dataset, {})[target] = (key, points)
    if reference not in by_mode:
        raise BadInput(f"the file has no clicks of the display mode '{reference}'")
    own = by_mode.pop(reference)
    compare = partial(clickability_maps.compare_samples, protocol=protocol)
    found = {
        mode: [
            (target[0], compare(points, own[target][1], sides(key)))
            for target, (key, points) in of_mode.items()
            if target in own
        ]
        for mode, of_mode in by_mode.items()
    }
    found[f"{reference} (halves)"] = list(_halves(own.values(), sides))
    return summarised({mode: each for mode, each in found.items() if each}, _SCORES)


def ceilings(clicks: Clicks, sides: SidesOf) -> list[Row]:
    """People against people: halves of each key's clicks, for every dataset."""
    found: dict[str, list[tuple[str, SampleScores]]] = {}
    for key, places in clicks.groups():
        group = [(key, clicks.points[places].astype(np.float64))]
        found.setdefault(key.dataset, []).extend(_halves(group, sides))
    if not any(found.values()):
        raise BadInput("no target has the four clicks that a split into halves needs")
    return summarised({name: each for name, each in found.items() if each}, _SCORES)


def _halves(
    groups: Iterable[tuple[Key, Points]], sides: SidesOf
) -> Iterator[tuple[str, SampleScores]]:
    for key, points in groups:
        if len(points) >= HALVES:
            rng = generator("halves", key.dataset, key.full_stem, key.kind)
            yield key.image, clickability_maps.ceiling(points, sides(key), rng)


def summarised(found: Mapping[str, Sequence[tuple[str, Any]]], names: Sequence[str]) -> list[Row]:
    """Means over keys of the named scores; each key comes with its image."""
    rows = []
    for what, each in found.items():
        images = [image for image, _ in each]
        for score in names:
            values = [getattr(scores, score) for _, scores in each]
            if None not in values:
                low, high = _interval(images, values, what)
                rows.append(Row(what, score, float(np.mean(values)), low, high, len(values)))
    return rows


def _interval(images: list[str], values: list[float], what: str) -> tuple[float, float]:
    """From draws of images with all their keys."""
    _, index = np.unique(images, return_inverse=True)
    sums = np.stack([np.bincount(index, weights=values), np.bincount(index)], axis=1)
    rng = generator("interval", what)
    drawn = sums[rng.integers(len(sums), size=(_DRAWS, len(sums)))].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], (0.025, 0.975))
    return float(low), float(high)

"""Click files: warnings about recorded ones, simulated ones in the same layout, and similarity.

Simulated files are for trying out everything that reads clicks, at full size, without the real
file. Clicks of the first round come from the prior on the object; clicks of later rounds from the
prior on what a moved copy of the object misses or adds; the copy is the previous mask.

Similarity compares devices, display modes, people and people. Scores are computed for each key and
averaged; the bootstrap resamples images, since keys of one image are not independent.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.clickability.maps import prior
from segmeter.core.errors import BadInput, SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.scenes import Dataset
from segmeter.core.seeds import generator
from segmeter.core.wording import counted
from segmeter.datasets.recorded_clicks import COLUMNS, Clicks, Key, full_stem
from segmeter.measures import clickability_maps
from segmeter.measures.clickability_maps import SampleScores
from segmeter.measures.clicks import Sides

Kind = Literal["first", "fn", "fp"]
_MODELS = ("ritm", "sam", "simple", "mivos")
Ints = npt.NDArray[np.int64]
Why = Callable[[Key, Ints], str]
# Number of objects to check, spread over the file: reading all images would take long.
_CHECKED = 20
# A person's click counts as on the object up to this share of the image's diagonal off it.
_RADIUS = 0.01
_MOST_TOLD = 8
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
class ClickTarget:
    """An object to click on: which image of which dataset, and its mask."""

    dataset: str
    image: str
    mask: Mask
    object: str = ""


def write_simulated(
    path: Path,
    things: Iterable[ClickTarget],
    seed: int = 0,
    per_target: int = 48,
    later: bool = True,
    masks: Path | None = None,
) -> int:
    """Write a clicks file and return its number of rows.

    `masks` is a folder for the previous masks of later rounds, `<full_stem>.png`. The file is
    written whole or not at all.
    """
    import cv2

    count = 0
    part = path.with_name(f"{path.name}.part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for thing in things:
            for round in rounds_of(thing, seed, later):
                rows = list(_rows(thing, round, seed, per_target))
                writer.writerows(rows)
                count += len(rows)
                if masks is not None and rows and round.previous is not None:
                    shown = masks / f"{round.full_stem}.png"
                    if not cv2.imwrite(str(shown), 255 * round.previous.dense().astype(np.uint8)):
                        raise BadInput(f"the mask '{shown}' could not be written")
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


def rounds_of(thing: ClickTarget, seed: int, later: bool = True) -> list[Round]:
    """An object's first round, and with `later` one missed and one false positive part."""
    rng = generator(seed, "lifelike rounds", thing.dataset, thing.image, thing.object)
    name = thing.image, thing.object
    rounds = [Round("first", "", full_stem(*name), thing.mask)]
    if later:
        # The mask shifted by up to a sixth of its sides, cut at the image's border.
        shift = [round(n * float(rng.uniform(-1, 1)) / 6) for n in thing.mask.bits.shape]
        ends = tuple(n - s for n, s in zip(thing.mask.shape, shift, strict=True))
        moved = Mask.of(thing.mask.crop(tuple(-s for s in shift), ends))
        sides: tuple[tuple[Kind, Mask], ...] = (
            ("fn", thing.mask - moved),
            ("fp", moved - thing.mask),
        )
        for kind, part in sides:
            model = _MODELS[int(rng.integers(len(_MODELS)))]
            rounds.append(Round(kind, model, full_stem(*name, model, kind), part, moved))
    return [round for round in rounds if round.part]


def _rows(
    thing: ClickTarget, round: Round, seed: int, per_target: int
) -> Iterator[Sequence[object]]:
    """Rows of a clicks file, in the order of its columns."""
    rng = generator(seed, "lifelike clicks", thing.dataset, round.full_stem)
    height, width = thing.mask.shape
    key = (thing.dataset, thing.image, thing.object, round.model, round.kind, round.full_stem)
    map = prior(round.part, round="first" if round.kind == "first" else "later")
    sums = np.cumsum(map.weights.ravel(), dtype=np.float64)
    places = np.searchsorted(sums, rng.random(per_target) * sums[-1], side="right")
    places = np.minimum(places, sums.size - 1)
    for y, x in np.transpose(np.unravel_index(places, map.weights.shape)) + map.low:
        yield *key, "pc" if rng.random() < 0.5 else "mobile", int(x), int(y), width, height


def left_out(clicks: Clicks, *reasons: Why) -> str:
    """One line on how many clicks are left out and why, empty if none is.

    A reason is a function of a key and its clicks that gives words, or none if they are used;
    the first that gives words counts.
    """
    keys, count = Counter[str](), Counter[str]()
    for key, places in clicks.groups():
        why = next(filter(None, (reason(key, places) for reason in reasons)), "")
        if why:
            keys[why] += 1
            count[why] += len(places)
    parts = [f"{count[why]} ({counted(keys[why], 'key')}) {why}" for why in [*keys][:_MOST_TOLD]]
    if len(keys) > _MOST_TOLD:
        parts.append("and more")
    total = f"{count.total()} of {len(clicks)} clicks are left out"
    return f"{total}: {'; '.join(parts)}" if parts else ""


def unasked(names: Collection[str]) -> Why:
    """Clicks on datasets that are not among those named."""
    return lambda key, _: (
        "" if key.dataset in names else f"on '{key.dataset[:60]}', which no --dataset names"
    )


def without_masks(key: Key, _: Ints) -> str:
    """Later rounds, where the masks that people saw are not available."""
    if key.kind == "first":
        return ""
    return "of later rounds, which need the masks that people saw (--previous FOLDER)"


def few_of_a_device(clicks: Clicks, enough: int) -> Why:
    """Keys with too few clicks of either device to compare the two."""

    def why(_: Key, places: Ints) -> str:
        mobile = int(clicks.mobile[places].sum())
        if min(mobile, len(places) - mobile) >= enough:
            return ""
        return f"with fewer than {enough} clicks of pc or of mobile"

    return why


def too_few(enough: int) -> Why:
    return lambda _, places: "" if len(places) >= enough else f"with fewer than {enough} a key"


def without_partner(clicks: Clicks, reference: str) -> Why:
    """Objects that were not clicked in the display mode that all others are compared with."""
    known = {(key.image, key.object) for key in clicks.keys if key.dataset == reference}
    return lambda key, _: (
        "" if (key.image, key.object) in known else f"on objects without clicks in '{reference}'"
    )


def outside_run(scenes: Mapping[str, Collection[str]]) -> tuple[Why, ...]:
    """Clicks that a benchmark does not use: other datasets and images, and later rounds."""

    def later(key: Key, _: Ints) -> str:
        return "" if key.kind == "first" else "of later rounds, made on other models' masks"

    def elsewhere(key: Key, _: Ints) -> str:
        return "" if key.image in scenes[key.dataset] else "on images outside the run"

    return unasked(scenes), later, elsewhere


def astray(
    clicks: Clicks, datasets: Mapping[str, Dataset], scenes: Mapping[str, Collection[str]]
) -> str:
    """A warning if most first clicks on an object miss it; empty otherwise.

    A sample of the objects of `scenes`, by dataset, is checked. Unreadable scenes are skipped
    here; running or training on them reports the error.
    """
    firsts = clicks.first_rounds().items()
    wanted = [(place, rows) for place, rows in firsts if place[1] in scenes.get(place[0], ())]
    some = {int(i) for i in np.linspace(0, len(wanted) - 1, min(len(wanted), _CHECKED))}
    checked, wrong = 0, []
    for (name, image, object), rows in (wanted[i] for i in sorted(some)):
        try:
            targets = datasets[name].load(image).targets
            masks = [t.mask for t in targets if t.id == object or (not object and len(targets) < 2)]
        except SegmeterError:
            continue
        if masks:
            checked += 1
            if _share_on(masks[0], clicks, rows) < 0.5:
                wrong.append(f"{name}/{image}" + (f"/{object}" if object else ""))
    if not wrong:
        return ""
    return (
        f"most first clicks lie outside the object on {len(wrong)} of {checked} objects checked, "
        f"such as '{wrong[0]}'; are x, y, w and h right?"
    )


def _share_on(mask: Mask, clicks: Clicks, rows: Ints) -> float:
    """The share of clicks that lie on the mask or at most a dot's radius off it."""
    import cv2

    shape = (mask.shape[0], mask.shape[1])
    outside = (~mask.dense()).astype(np.uint8)
    off = cv2.distanceTransform(outside, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    points = np.clip(np.rint(clicks.scaled(rows, shape)), 0, np.array(shape) - 1).astype(np.int64)
    return float(np.mean(off[points[:, 0], points[:, 1]] <= _RADIUS * np.hypot(*shape)))


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
    clicks: Clicks, sides: SidesOf, protocol: ProtocolName = "corrected", reference: str = REFERENCE
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

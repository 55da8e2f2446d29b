"""Warnings about a click file: what was left out of it, what looks wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import SegmeterError
from segmeter.core.masks import Mask
from segmeter.core.scenes import Dataset
from segmeter.datasets.recorded_clicks import Clicks, Key

__all__ = [
    "astray",
    "few_of_a_device",
    "left_out",
    "too_few",
    "unasked",
    "unplayed",
    "without_masks",
    "without_partner",
]

Ints = npt.NDArray[np.int64]
Why = Callable[[Key, Ints], str]
# Objects that are looked at, spread over the file: reading all images would take long.
_LOOKED_AT = 20
# A person's click counts as on the object up to this share of the image's diagonal off it.
_RADIUS = 0.01
_MOST_TOLD = 8


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
    parts = [f"{count[why]} ({_keys(keys[why])}) {why}" for why in list(keys)[:_MOST_TOLD]]
    if len(keys) > _MOST_TOLD:
        parts.append("and more")
    total = f"{count.total()} of {len(clicks)} clicks are left out"
    return f"{total}: {'; '.join(parts)}" if parts else ""


def unasked(names: Collection[str]) -> Why:
    """Clicks on data sets that are not among those named."""
    return lambda key, _: (
        "" if key.dataset in names else f"on '{key.dataset[:60]}', which no --dataset names"
    )


def without_masks(key: Key, _: Ints) -> str:
    """Later rounds, where the masks that people saw are not at hand."""
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
    """Keys with too few clicks."""
    return lambda _, places: "" if len(places) >= enough else f"with fewer than {enough} a key"


def without_partner(clicks: Clicks, reference: str) -> Why:
    """Objects that were not clicked in the display mode that all others are compared with."""
    known = {(key.image, key.object) for key in clicks.keys if key.dataset == reference}
    return lambda key, _: (
        "" if (key.image, key.object) in known else f"on objects without clicks in '{reference}'"
    )


def unplayed(scenes: Mapping[str, Collection[str]]) -> tuple[Why, ...]:
    """Clicks that a benchmark does not use: other data sets and images, and later rounds."""

    def later(key: Key, _: Ints) -> str:
        return "" if key.kind == "first" else "of later rounds, made on other models' masks"

    def elsewhere(key: Key, _: Ints) -> str:
        return "" if key.image in scenes[key.dataset] else "on images that are not played"

    return unasked(scenes), later, elsewhere


def astray(
    clicks: Clicks, datasets: Mapping[str, Dataset], scenes: Mapping[str, Collection[str]]
) -> str:
    """A warning if most first clicks on an object miss it; empty otherwise.

    A sample of the objects of `scenes`, by data set, is checked. Unreadable scenes are skipped
    here; running or training on them reports the error.
    """
    wanted = [
        (place, rows)
        for place, rows in clicks.first_rounds().items()
        if place[1] in scenes.get(place[0], ())
    ]
    some = {int(i) for i in np.linspace(0, len(wanted) - 1, min(len(wanted), _LOOKED_AT))}
    looked, wrong = 0, []
    for (name, image, object), rows in (wanted[i] for i in sorted(some)):
        try:
            targets = datasets[name].load(image).targets
            masks = [t.mask for t in targets if t.id == object or (not object and len(targets) < 2)]
        except SegmeterError:
            continue
        if masks:
            looked += 1
            if _share_on(masks[0], clicks, rows) < 0.5:
                wrong.append(f"{name}/{image}" + (f"/{object}" if object else ""))
    if not wrong:
        return ""
    return (
        f"most first clicks lie outside the object on {len(wrong)} of {looked} objects looked at, "
        f"such as '{wrong[0]}'; are x, y, w and h right?"
    )


def _share_on(mask: Mask, clicks: Clicks, rows: Ints) -> float:
    """The share of clicks that lie on the mask or at most a dot's radius off it."""
    import cv2

    shape = (mask.shape[0], mask.shape[1])
    off = cv2.distanceTransform(
        (~mask.dense()).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE
    )
    points = np.clip(np.rint(clicks.scaled(rows, shape)), 0, np.array(shape) - 1).astype(np.int64)
    return float(np.mean(off[points[:, 0], points[:, 1]] <= _RADIUS * np.hypot(*shape)))


def _keys(count: int) -> str:
    return f"{count} key" if count == 1 else f"{count} keys"

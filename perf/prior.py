"""Clicks from the embedded click model: maps in NumPy and OpenCV against the kernel.

    python perf/prior.py

A frame of 480 x 854 with an object of about 60 000 pixels. Its prediction misses all of it, as
before the first click, or thin slivers along its outline, as after a few. One thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import cv2
import numpy as np

from segmeter.clickability.groups import Draw, drawn_on_prior, share_of_group
from segmeter.clickability.maps import ClickabilityMap, prior, prior_on
from segmeter.core.error_regions import error_regions
from segmeter.core.masks import Mask
from segmeter.core.scenes import Image, Target
from stopwatch import milliseconds, row

SHAPE = (480, 854)


def blob(wobble_px: float) -> Mask:
    """A disc whose outline swings by so many pixels."""
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    angle = np.arctan2(y - 240, x - 427)
    return Mask.of(np.hypot(y - 240, x - 427) < 138 + wobble_px * np.sin(23 * angle))


def draws(target: Target, prediction: Mask, published: bool) -> list[Draw]:
    """Click distributions of ten groups after some clicks."""
    scene = Image("perf", "blob", np.zeros((*SHAPE, 3), np.uint8), [target])
    before = ((240, 427), (105, 427), (250, 560))
    seed = None if published else 7
    return [
        Draw(scene, target, prediction, True, False, before, share_of_group(g), 0.37, seed)
        for g in range(1, 11)
    ]


def plain(wanted: list[Draw]) -> Sequence[object]:
    """One map after the other, each with all its box."""
    maps = []
    for draw in wanted:
        wrong = draw.region.mask
        maps.append(draw.on(_plain_map(wrong)))
    return maps


def _plain_map(wrong: Mask) -> ClickabilityMap:
    return prior(wrong, round="later").on(wrong)


def main() -> None:
    cv2.setNumThreads(1)
    target = Target("1", blob(4))
    print(f"{'':<44} {'plain':>13} {'kernel':>13} {'ratio':>10}")
    for name, prediction in {"whole object": Mask.empty(SHAPE), "slivers": blob(0)}.items():
        wrong, _ = error_regions(target, prediction)
        theirs = milliseconds(partial(_plain_map, wrong))
        ours = milliseconds(partial(prior_on, wrong, round="later"))
        row(f"map of {wrong.area} pixels, {name}", theirs, ours)
        for protocol in ("published", "corrected"):
            wanted = draws(target, prediction, protocol == "published")
            theirs = milliseconds(partial(plain, wanted))
            ours = milliseconds(partial(drawn_on_prior, wanted))
            row(f"ten clicks, {name}, {protocol}", theirs, ours)


if __name__ == "__main__":
    main()

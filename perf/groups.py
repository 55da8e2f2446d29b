"""One draw from a clicking group on a 12-megapixel image: the published sort against ours.

Run as `python perf/groups.py`; one thread, ratios within one run. The map covers an ellipse
of 24 % of the image (the first round), or the part that a shifted prediction missed: distances
(many equal values), the same blurred (few equal ones), or all alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import cv2
import numpy as np

from segmeter.clickability.groups import draw_corrected, draw_published, share_of_group
from segmeter.clickability.maps import ClickabilityMap, distance, uniform
from segmeter.core.masks import Mask

SHAPE = (3000, 4000)


def published_sort(weights: np.ndarray, share: tuple[float, float], uniform: float) -> int:
    """The original's way: sort every pixel of the image, running sums, a legacy draw."""
    ordered = np.sort(weights.ravel())
    total, sums = ordered.sum(), np.cumsum(ordered)
    first = np.searchsorted(sums, share[0] * total)
    last = min(np.searchsorted(sums, share[1] * total, side="right"), ordered.size - 1)
    kept = np.where((weights >= ordered[first]) & (weights <= ordered[last]), weights, 0)
    steps = np.cumsum((kept / kept.sum()).ravel().astype(np.float64))
    steps /= steps[-1]
    return int(np.searchsorted(steps, uniform, side="right"))


def ellipse(centre: tuple[float, float]) -> np.ndarray:
    """24 % of the image, around a centre in shares of its sides."""
    y, x = np.ogrid[: SHAPE[0], : SHAPE[1]]
    down, across = y / SHAPE[0] - centre[0], x / SHAPE[1] - centre[1]
    return (down / 0.276) ** 2 + (across / 0.276) ** 2 < 1


def milliseconds(call: Callable[[], object], times: int) -> float:
    took = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    return min(took) * 1000


def blurred(error_region: Mask) -> ClickabilityMap:
    """A smooth map, as a network gives it: equal values are rare."""
    smooth = cv2.GaussianBlur(distance(error_region).dense(), (0, 0), 30)
    return ClickabilityMap.of(np.asarray(smooth, dtype=np.float32)).on(error_region)


def show(name: str, map: ClickabilityMap) -> None:
    whole, share = map.dense(), share_of_group(7)
    place = divmod(published_sort(whole, share, 0.37), SHAPE[1])
    same = "same pixel" if place == draw_published(map, share, 0.37) else "DIFFERENT pixel"
    slow = milliseconds(lambda: published_sort(whole, share, 0.37), 3)
    exact = milliseconds(lambda: draw_published(map, share, 0.37), 5)
    corrected = milliseconds(lambda: draw_corrected(map, share, 0.37, 1), 5)
    filled = map.weights[map.weights > 0]
    print(f"{name}: {filled.size / 1e6:.2f} of {whole.size / 1e6:.0f} megapixels,", end=" ")
    print(f"values that differ: {np.unique(filled).size}")
    print(f"  published sort      {slow:8.1f} ms")
    print(f"  ours, published     {exact:8.1f} ms  {slow / exact:6.1f} x  {same}")
    print(f"  ours, corrected         {corrected:8.1f} ms  {slow / corrected:6.1f} x")


def main() -> None:
    ground_truth = ellipse((0.5, 0.5))
    show("first round, whole object", distance(Mask.of(ground_truth)))
    show("later round, missed part", distance(Mask.of(ground_truth & ~ellipse((0.52, 0.525)))))
    show("whole object, smooth map", blurred(Mask.of(ground_truth)))
    show("whole object, flat map", uniform(Mask.of(ground_truth)))


if __name__ == "__main__":
    main()

"""Centre click, IoU and Boundary IoU: the published way against ours, one thread.

Also the box of a mask, by NumPy and by the kernel.

    python perf/clicks.py

Ours starts from the same boolean array: the time to find its box is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import cv2
import numpy as np
import numpy.typing as npt

import published_way
from segmeter.core.error_regions import deepest, error_regions
from segmeter.core.masks import Mask, _plain_tight, _tight
from segmeter.core.scenes import Target
from segmeter.measures.objects import boundary_iou, iou
from stopwatch import milliseconds, row

SIZES = {"1 Mpx": (866, 1155), "3 Mpx": (1500, 2000), "12 Mpx": (3000, 4000)}


def ellipse(shape: tuple[int, int], cy: float, cx: float) -> npt.NDArray[np.bool_]:
    """An ellipse of about 24 % of the image around a centre in shares of the sides."""
    h, w = shape
    y, x = np.ogrid[:h, :w]
    return ((y - cy * h) / (0.3 * h)) ** 2 + ((x - cx * w) / (0.255 * w)) ** 2 <= 1


def with_local_error(ground_truth: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The ground truth with a square hole of 2 % of the image."""
    h, w = ground_truth.shape
    half = int((0.02 * h * w) ** 0.5 / 2)
    prediction = ground_truth.copy()
    prediction[h // 2 - half : h // 2 + half, w // 2 - half : w // 2 + half] = False
    return prediction


def _measured(
    measure: Callable[[Mask, Mask], float], ground_truth: Mask, prediction: npt.NDArray[np.bool_]
) -> float:
    """Ours begins with the array too: making a mask of it is part of the cost."""
    return measure(ground_truth, Mask.of(prediction))


def main() -> None:
    cv2.setNumThreads(1)
    print(f"{'':<44} {'published':>13} {'segmeter':>13} {'ratio':>10}")
    for name, shape in SIZES.items():
        ground_truth = ellipse(shape, 0.5, 0.5)
        predictions = {
            "shifted": ellipse(shape, 0.55, 0.56),
            "local error": with_local_error(ground_truth),
        }
        labels, target = ground_truth.astype(np.int32), Target("1", Mask.of(ground_truth))
        for kind, prediction in predictions.items():
            compare(f"{name}, {kind}", labels, target, prediction)


def compare(
    name: str, labels: npt.NDArray[np.int32], target: Target, prediction: npt.NDArray[np.bool_]
) -> None:
    theirs = published_way.Clicker(labels)

    def their_click() -> None:
        theirs.fresh[...] = True
        theirs.click(prediction)

    def our_click() -> None:
        for error_region in error_regions(target, Mask.of(prediction)):
            deepest(error_region)

    row(f"centre click, {name}", milliseconds(their_click), milliseconds(our_click))
    box, plain_box = partial(_tight, prediction), partial(_plain_tight, prediction)
    row(f"box, {name}", milliseconds(plain_box, 99), milliseconds(box, 99))
    for title, plain, measure in (
        ("IoU", published_way.iou, iou),
        ("Boundary IoU", published_way.boundary_iou, boundary_iou),
    ):
        assert abs(plain(labels, prediction) - measure(target.mask, Mask.of(prediction))) < 1e-12
        slow = milliseconds(partial(plain, labels, prediction))
        fast = milliseconds(partial(_measured, measure, target.mask, prediction))
        row(f"{title}, {name}", slow, fast)


if __name__ == "__main__":
    main()

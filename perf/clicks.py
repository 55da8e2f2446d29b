"""Centre click, IoU and Boundary IoU: the published way against ours, one thread.

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
from segmeter.core.masks import Mask
from segmeter.core.scenes import Target
from segmeter.measures.bands import boundary_iou
from segmeter.measures.objects import iou
from stopwatch import milliseconds, row

SIZES = {"1 Mpx": (866, 1155), "3 Mpx": (1500, 2000), "12 Mpx": (3000, 4000)}


def ellipse(shape: tuple[int, int], cy: float, cx: float) -> npt.NDArray[np.bool_]:
    """An ellipse of about 24 % of the picture around a centre in shares of the sides."""
    h, w = shape
    y, x = np.ogrid[:h, :w]
    return ((y - cy * h) / (0.3 * h)) ** 2 + ((x - cx * w) / (0.255 * w)) ** 2 <= 1


def with_local_error(truth: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The truth with a square hole of 2 % of the picture."""
    h, w = truth.shape
    half = int((0.02 * h * w) ** 0.5 / 2)
    guess = truth.copy()
    guess[h // 2 - half : h // 2 + half, w // 2 - half : w // 2 + half] = False
    return guess


def _measured(
    measure: Callable[[Mask, Mask], float], truth: Mask, guess: npt.NDArray[np.bool_]
) -> float:
    """Ours begins with the array too: making a mask of it is part of the cost."""
    return measure(truth, Mask.of(guess))


def main() -> None:
    cv2.setNumThreads(1)
    print(f"{'':<44} {'published':>13} {'segmeter':>13} {'ratio':>10}")
    for name, shape in SIZES.items():
        truth = ellipse(shape, 0.5, 0.5)
        guesses = {"shifted": ellipse(shape, 0.55, 0.56), "local error": with_local_error(truth)}
        labels, target = truth.astype(np.int32), Target("1", Mask.of(truth))
        for kind, guess in guesses.items():
            compare(f"{name}, {kind}", labels, target, guess)


def compare(
    name: str, labels: npt.NDArray[np.int32], target: Target, guess: npt.NDArray[np.bool_]
) -> None:
    theirs = published_way.Clicker(labels)

    def their_click() -> None:
        theirs.fresh[...] = True
        theirs.click(guess)

    def our_click() -> None:
        for error_region in error_regions(target, Mask.of(guess)):
            deepest(error_region)

    row(f"centre click, {name}", milliseconds(their_click), milliseconds(our_click))
    for title, plain, measure in (
        ("IoU", published_way.iou, iou),
        ("Boundary IoU", published_way.boundary_iou, boundary_iou),
    ):
        assert abs(plain(labels, guess) - measure(target.mask, Mask.of(guess))) < 1e-12
        slow = milliseconds(partial(plain, labels, guess))
        fast = milliseconds(partial(_measured, measure, target.mask, guess))
        row(f"{title}, {name}", slow, fast)


if __name__ == "__main__":
    main()

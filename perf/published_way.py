"""The published way of clicking and scoring, written plainly from its description.

Whole-image distance transforms, whole-image boolean passes, repeated erosions: what the
click benchmarks' own code does on every click. Only here to be timed against.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int32]  # 1 object, 0 background, -1 not judged
Bits = npt.NDArray[np.bool_]


class Clicker:
    """Keeps which pixels were clicked, as the original does."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.fresh = np.ones(labels.shape, dtype=bool)

    def click(self, prediction: Bits) -> tuple[int, int, bool]:
        judged = self.labels != -1
        ground_truth = self.labels == 1
        false_negatives = np.logical_and(
            np.logical_and(ground_truth, np.logical_not(prediction)), judged
        )
        false_positives = np.logical_and(
            np.logical_and(np.logical_not(ground_truth), prediction), judged
        )
        depths = [self._depth(error_region) for error_region in (false_negatives, false_positives)]
        tops = [depth.max() for depth in depths]
        positive = bool(tops[0] > tops[1])
        ys, xs = np.where(depths[0] == tops[0] if positive else depths[1] == tops[1])
        self.fresh[ys[0], xs[0]] = False
        return int(ys[0]), int(xs[0]), positive

    def _depth(self, error_region: Bits) -> npt.NDArray[np.float32]:
        ringed = np.pad(error_region, 1, "constant").astype(np.uint8)
        depth = cv2.distanceTransform(ringed, cv2.DIST_L2, 0)[1:-1, 1:-1]
        return np.asarray(depth * self.fresh, np.float32)


def iou(labels: Labels, prediction: Bits) -> float:
    judged = labels != -1
    ground_truth = labels == 1
    both = np.logical_and(np.logical_and(prediction, ground_truth), judged).sum()
    either = np.logical_and(np.logical_or(prediction, ground_truth), judged).sum()
    return float(both / either)


def boundary_iou(labels: Labels, prediction: Bits) -> float:
    ground_truth, shown = (_boundary(m) for m in ((labels == 1), prediction))
    judged = labels != -1
    both = np.logical_and(np.logical_and(ground_truth, shown), judged).sum()
    either = np.logical_and(np.logical_or(ground_truth, shown), judged).sum()
    return float(both / either)


def _boundary(mask: Bits) -> Bits:
    height, width = mask.shape
    steps = max(1, round(0.02 * np.sqrt(height**2 + width**2)))
    ringed = cv2.copyMakeBorder(mask.astype(np.uint8), 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    eroded = cv2.erode(ringed, np.ones((3, 3), np.uint8), iterations=steps)[1:-1, 1:-1]
    return (mask.astype(np.uint8) - eroded).astype(bool)

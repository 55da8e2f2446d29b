"""Instance measures: whole label maps, object by object, 0 for background.

All take `(ground_truth, prediction)`, two label maps of one shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.models import ProtocolName

Labels = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PanopticQuality:
    """PQ = SQ x RQ with its counts; NaN where both maps are empty."""

    pq: float
    sq: float
    rq: float
    matched: int
    spurious: int
    missed: int


@dataclass(frozen=True, slots=True)
class SplitsAndMerges:
    """How objects were cut and joined.

    An object is inside another one if more than half of its pixels are.
    """

    split_objects: int  # objects with several predictions inside
    extra_pieces: int  # predictions inside them, without the first of each
    merged_predictions: int  # predictions with several objects inside
    merged_away: int  # objects inside them, without the first of each
    missed: int  # objects inside no prediction and with none inside
    spurious: int  # the same of predictions


def mean_segmentation_accuracy(
    ground_truth: Labels, prediction: Labels, protocol: ProtocolName = "corrected"
) -> float:
    """Mean of TP / (TP + FP + FN) over matchings at the IoU thresholds 0.5, 0.55, ... 0.95.

    `published`, as elf and micro-sam compute it: thresholds carry a rounding error, so that an
    IoU of exactly 0.6 misses its own, and two empty maps give 0. `corrected`: neither; two empty
    maps agree.

    >>> mean_segmentation_accuracy(np.array([[1, 1, 0, 2]]), np.array([[1, 1, 0, 2]]))
    1.0
    """
    iou = _iou(ground_truth, prediction)
    if protocol == "corrected" and not iou.shape[0] and not iou.shape[1]:
        return 1.0
    slack = 0.0 if protocol == "published" else 1e-9
    return float(np.mean([_accuracy(iou, t - slack) for t in np.arange(0.5, 1.0, 0.05)]))


def matched_iou(ground_truth: Labels, prediction: Labels) -> tuple[Floats, int, int]:
    """IoU of the pairs of a best matching at 0.5; how many objects and predictions there are.

    >>> matched_iou(np.array([[1, 1, 0, 2]]), np.array([[1, 1, 0, 0]]))
    (array([1.]), 2, 1)
    """
    iou = _iou(ground_truth, prediction)
    return _matched(iou, 0.5), *iou.shape


def panoptic_quality(ground_truth: Labels, prediction: Labels) -> PanopticQuality:
    """PQ of objects matched at an IoU of at least 0.5.

    Kirillov et al., Panoptic segmentation, CVPR 2019. Matches are the pairs of a best assignment.

    >>> panoptic_quality(np.array([[1, 1, 0, 2]]), np.array([[1, 1, 0, 0]])).rq
    0.6666666666666666
    """
    matched, objects, predictions = matched_iou(ground_truth, prediction)
    if not objects and not predictions:
        return PanopticQuality(np.nan, np.nan, np.nan, 0, 0, 0)
    n = len(matched)
    sq = float(np.mean(matched)) if n else 0.0
    rq = n / (n + (predictions - n) / 2 + (objects - n) / 2)
    return PanopticQuality(sq * rq, sq, rq, n, predictions - n, objects - n)


def splits_and_merges(ground_truth: Labels, prediction: Labels) -> SplitsAndMerges:
    """Count objects that were cut into pieces, joined, missed or made up.

    >>> splits_and_merges(np.array([[1, 1, 1, 1]]), np.array([[1, 1, 2, 2]])).extra_pieces
    1
    """
    shared, objects, predictions = _overlaps(ground_truth, prediction)
    in_object = 2 * shared > predictions[None]  # a prediction is inside an object
    in_prediction = 2 * shared > objects[:, None]
    pieces, joined = in_object.sum(1), in_prediction.sum(0)
    alone = ~in_object.any(1) & ~in_prediction.any(1)
    made_up = ~in_object.any(0) & ~in_prediction.any(0)
    return SplitsAndMerges(
        int((pieces >= 2).sum()),
        int(np.maximum(pieces - 1, 0).sum()),
        int((joined >= 2).sum()),
        int(np.maximum(joined - 1, 0).sum()),
        int(alone.sum()),
        int(made_up.sum()),
    )


def split_and_merge_information(ground_truth: Labels, prediction: Labels) -> tuple[float, float]:
    """Variation of information in bits, in its two parts: H(P | G) splits, H(G | P) merges.

    Background counts as a segment.

    >>> split_and_merge_information(np.array([[1, 1, 1, 1]]), np.array([[1, 1, 2, 2]]))
    (1.0, 0.0)
    """
    from skimage.metrics import variation_of_information

    information: Any = variation_of_information  # untyped
    # Numbered from 0: skimage counts in a table as long as the largest label.
    numbered = (np.unique(each, return_inverse=True)[1] for each in (ground_truth, prediction))
    splits, merges = information(*numbered).tolist()
    return splits, merges


def _accuracy(iou: Floats, threshold: float) -> float:
    n = len(_matched(iou, threshold))
    return n / (iou.shape[0] + iou.shape[1] - n) if n else 0.0


def _matched(iou: Floats, threshold: float) -> Floats:
    """IoU of the pairs of a best matching: most pairs above the threshold, then most IoU."""
    from scipy.optimize import linear_sum_assignment  # a third of a second

    if 0 in iou.shape:
        return np.empty(0)
    enough = iou >= threshold
    pairs = linear_sum_assignment(-enough.astype(float) - iou / (2 * min(iou.shape)))
    return np.asarray(iou[pairs][enough[pairs]])


def _iou(ground_truth: Labels, prediction: Labels) -> Floats:
    shared, objects, predictions = _overlaps(ground_truth, prediction)
    return np.asarray(shared / (objects[:, None] + predictions[None] - shared))


def _overlaps(ground_truth: Labels, prediction: Labels) -> tuple[Floats, Floats, Floats]:
    """Shared pixels `(objects, predictions)` and the areas of both, background left out."""
    if ground_truth.shape != prediction.shape:
        raise BadInput(
            f"the ground truth is {ground_truth.shape} but the prediction {prediction.shape}; "
            "both must have one shape"
        )
    names, rows = np.unique(_and_zero(ground_truth), return_inverse=True)
    others, columns = np.unique(_and_zero(prediction), return_inverse=True)
    table = np.zeros((len(names), len(others)))
    np.add.at(table, (rows[:-1], columns[:-1]), 1)
    there, found = names != 0, others != 0
    return table[there][:, found], table.sum(1)[there], table.sum(0)[found]


def _and_zero(labels: Labels) -> Labels:
    """All labels and one 0, in their own type: as floats, labels of 64 bits would collide."""
    return np.append(labels.ravel(), np.zeros(1, labels.dtype))

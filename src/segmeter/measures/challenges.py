"""Scores of challenges: CVPR 2025 interactive 3D and its text track, and autoPET IV.

`published` computes what the organisers' scripts compute, `corrected` fixes their flaws. Label
maps are `(z, y, x)`; those of autoPET `(x, y, z)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Bits, Mask
from segmeter.core.models import ProtocolName
from segmeter.core.morphology import components
from segmeter.measures.instances import matched_iou
from segmeter.measures.objects import dice
from segmeter.measures.surfaces import nsd

Labels = npt.NDArray[np.integer]
TOLERANCE_MM = 2.0
GATE = 0.2
"""Mean Dice of a case up to which `published` counts its NSD as 0."""


@dataclass(frozen=True, slots=True)
class TextScores:
    """Scores of the text track: Dice and NSD of classes, or F1 and Dice of matched instances."""

    dsc: float | None = None
    nsd: float | None = None
    f1: float | None = None
    dsc_tp: float | None = None


@dataclass(frozen=True, slots=True)
class LesionScores:
    """Dice, and ml of false positive and false negative components; NaN without a lesion."""

    dice: float
    fpv: float
    fnv: float


def challenge_labels(ground_truth: Labels, protocol: ProtocolName = "published") -> list[int]:
    """Classes of a case: all labels without the smallest, or in `corrected` without 0.

    >>> challenge_labels(np.array([1, 2])), challenge_labels(np.array([1, 2]), "corrected")
    ([2], [1, 2])
    """
    found = [int(label) for label in np.unique(ground_truth)]
    return found[1:] if protocol == "published" else [label for label in found if label]


def step_scores(
    ground_truth: Labels,
    prediction: Labels,
    spacing: Sequence[float],
    protocol: ProtocolName = "published",
) -> tuple[float, float]:
    """DSC and NSD at 2 mm of a step, means over classes.

    `spacing` is as the file stores it, (x, y, z); `published` takes it for (z, y, x), and counts
    NSD 0 where mean Dice is at most 0.2.

    >>> labels = np.zeros((4, 6, 6), int); labels[1:3, 2:5, 2:5] = 1
    >>> step_scores(labels, labels, (1, 1, 1))
    (1.0, 1.0)
    """
    labels = challenge_labels(ground_truth, protocol)
    gate = GATE if protocol == "published" else -1.0
    found = _class_scores(ground_truth, prediction, labels, spacing, protocol, gate)
    return found if labels else (0.0, 0.0)


def area_over_steps(scores: Sequence[float]) -> float:
    """Trapezoids over steps at unit distance.

    >>> area_over_steps([0.5, 1.0, 1.0])
    1.75
    """
    return float(np.trapezoid(scores))


def text_scores(
    ground_truth: Labels,
    prediction: Labels,
    prompts: Mapping[str, Any],
    spacing: Sequence[float],
    protocol: ProtocolName = "published",
) -> TextScores:
    """Scores of one case of the text track; `prompts["instance_label"]` chooses which.

    >>> labels = np.zeros((4, 6, 6), int); labels[1:3, 2:5, 2:5] = 1
    >>> text_scores(labels, labels, {"1": "a liver", "instance_label": 0}, (1, 1, 1)).dsc
    1.0
    """
    if protocol == "published":
        ground_truth, prediction = (a.astype(np.uint8) for a in (ground_truth, prediction))
    if int(prompts["instance_label"]) == 1:
        return _instances(ground_truth, prediction, protocol)
    labels = [k for k in challenge_labels(ground_truth, protocol) if str(k) in prompts]
    return TextScores(*_class_scores(ground_truth, prediction, labels, spacing, protocol))


def lesion_scores(
    ground_truth: Bits,
    prediction: Bits,
    spacing_mm: Sequence[float],
    protocol: ProtocolName = "published",
) -> LesionScores:
    """Scores of autoPET IV; one shared voxel rescues a component (18 neighbours).

    `corrected`: Dice of a case without lesion is 1 if nothing is predicted, else 0.

    >>> lesions = np.zeros((4, 4, 4), bool); lesions[1, 1, 1] = True
    >>> lesion_scores(lesions, lesions, (10, 10, 10))
    LesionScores(dice=1.0, fpv=0.0, fnv=0.0)
    """
    voxel_ml = float(np.prod(np.asarray(spacing_mm, float))) / 1000
    fpv = voxel_ml * _untouched(prediction, ground_truth)
    if not ground_truth.any():
        corrected = float(not prediction.any())
        return LesionScores(float("nan") if protocol == "published" else corrected, fpv,
                            float("nan"))  # fmt: skip
    overlap = dice(Mask.of(ground_truth), Mask.of(prediction))
    return LesionScores(overlap, fpv, voxel_ml * _untouched(ground_truth, prediction))


def _class_scores(
    ground_truth: Labels, prediction: Labels, labels: Sequence[int], spacing: Sequence[float],
    protocol: ProtocolName, gate: float = -1.0,
) -> tuple[float, float]:  # fmt: skip
    """Mean Dice and NSD of classes; NSD is 0 where Dice is at most `gate`. NaN without a class."""
    grid = tuple(spacing) if protocol == "published" else tuple(spacing)[::-1]
    pairs = [(Mask.of(ground_truth == k), Mask.of(prediction == k)) for k in labels]
    if not pairs:
        return float("nan"), float("nan")
    dsc = float(np.mean([dice(*pair) for pair in pairs]))
    if dsc <= gate:
        return dsc, 0.0
    return dsc, float(np.mean([nsd(*pair, grid, TOLERANCE_MM) for pair in pairs]))


def _instances(ground_truth: Labels, prediction: Labels, protocol: ProtocolName) -> TextScores:
    if len(np.unique(prediction)) == 2:  # a mask, even of one labelled instance
        prediction = components(prediction > prediction.min(), 6 if prediction.ndim == 3 else 4)[0]
    if not prediction.any() and protocol == "published":
        return TextScores(f1=0.0, dsc_tp=0.0)
    iou, objects, predictions = matched_iou(ground_truth, prediction)
    both = objects + predictions
    f1 = 2 * len(iou) / both if both else 1.0
    return TextScores(f1=f1, dsc_tp=float(np.mean(2 * iou / (1 + iou))) if len(iou) else 0.0)


def _untouched(mask: Bits, other: Bits) -> int:
    """Voxels of components that share none with the other mask."""
    labels, count = components(mask, 18 if mask.ndim == 3 else 8)
    sizes = np.bincount(labels.ravel(), minlength=count + 1)
    touched = np.unique(labels[other])
    return int(sizes[1:].sum() - sizes[touched[touched > 0]].sum())

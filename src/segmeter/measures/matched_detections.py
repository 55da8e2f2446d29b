"""Matched detections: average precision of boundaries, and of resampled images.

Ground truth and detections are in COCO's layout, as in `detections`; for masks and boxes the
values are those of the library that counts there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.measures.detection_matching import (
    Cell,
    Matched,
    Real,
    match,
    precision_and_recall,
    resampled_precision,
)
from segmeter.measures.detections import Detections, GroundTruth, Kind, size_ranges
from segmeter.measures.objects import band, band_reach

__all__ = ["Rules", "cells", "matched_scores", "resampled_scores"]

_AT = {"ap50": 0, "ap75": 5}


@dataclass(frozen=True, slots=True)
class Rules:
    """How detections are matched.

    Attributes
    ----------
    kind
        What overlaps: boxes, masks, or `boundary`, the smaller of mask IoU and boundary IoU
        (Cheng et al. 2021).
    federated
        LVIS: classes that an image was not searched for are left out there, and a detection
        of a class that was not outlined exhaustively is no error.
    by_class
        Whether a detection must have the ground_truth's class.
    most
        Detections that count: of an image and class (COCO), of an image (LVIS).
    """

    kind: Kind = "segm"
    federated: bool = False
    by_class: bool = True
    most: int = 100


def cells(ground_truth: GroundTruth, found: Detections, rules: Rules) -> list[Cell]:
    """Images times classes that have a ground_truth or a detection, ready to be matched.

    Masks must be run lengths here. Without classes, ground_truths and detections are listed by
    class and then in the order of their file, as the evaluator lists them.

    >>> from segmeter.measures.detections import one_object
    >>> ground_truth = one_object()
    >>> len(cells(ground_truth, [], Rules('bbox')))
    1
    """
    place = {image: k for k, image in enumerate(sorted(i["id"] for i in ground_truth["images"]))}
    records = {image["id"]: image for image in ground_truth["images"]}
    ground_truths, predictions = (
        _by_cell(ground_truth["annotations"], rules),
        _by_cell(_cut(found, rules), rules),
    )
    searched = _searched(ground_truth) if rules.federated else None
    made = []
    for key in sorted(ground_truths.keys() | predictions.keys()):
        image, category = key
        theirs, ours = ground_truths.get(key, []), predictions.get(key, [])
        if searched is not None:
            ours = [d for d in ours if d["category_id"] in searched[image]]
        if not theirs and not ours:
            continue
        open_ended = records[image].get("not_exhaustive_category_ids") or ()
        forgiving = rules.federated and rules.by_class and category in open_ended
        made.append(_cell(place[image], category, theirs, ours, rules.kind, forgiving))
    return made


def matched_scores(
    found: Sequence[Cell], rules: Rules, protocol: ProtocolName = "published"
) -> dict[str, float]:
    """AP, AP50, AP75 and AR of matched cells, by size too; the library's values for masks.

    >>> from segmeter.measures.detections import one_object
    >>> ground_truth = one_object()
    >>> rules = Rules('bbox')
    >>> round(matched_scores(cells(ground_truth, [], rules), rules)['ap'], 3)
    0.0
    """
    scores: dict[str, float] = {}
    for size, limits in size_ranges(protocol).items():
        end = "" if size == "all" else f"-{size}"
        curves = [made for c in _classes(found, limits, rules) if (made := precision_and_recall(c))]
        precision = np.array([p for p, _ in curves]).reshape(-1, 10, 101)
        scores[f"ap{end}"] = _mean(precision)
        if size == "all":
            scores |= {name: _mean(precision[:, t]) for name, t in _AT.items()}
        scores[f"ar{end}"] = _mean(np.array([r for _, r in curves]))
    return scores


def resampled_scores(
    found: Sequence[Cell], rules: Rules, weights: Real, protocol: ProtocolName = "published"
) -> dict[str, Real]:
    """AP, AP50, AP75 and AP by size of resampled images, one value per row of `weights`.

    Images are in order of their ids; a class none of whose ground_truths was drawn is left out
    of that resample's mean.

    >>> from segmeter.measures.detections import one_object
    >>> ground_truth = one_object()
    >>> rules = Rules('bbox')
    >>> resampled_scores(cells(ground_truth, [], rules), rules, np.ones((3, 2)))['ap'].shape
    (3,)
    """
    # Few images are drawn in few different ways; each is counted once.
    distinct, back = np.unique(weights, axis=0, return_inverse=True)
    back = back.ravel()
    scores: dict[str, Real] = {}
    for size, limits in size_ranges(protocol).items():
        classes = [c for c in _classes(found, limits, rules) if any(m.ground_truths for m in c)]
        if not classes:
            continue
        each = np.stack([resampled_precision(c, distinct)[back] for c in classes])
        end = "" if size == "all" else f"-{size}"
        scores[f"ap{end}"] = _mean_known(each.mean(axis=2))
        if size == "all":
            scores |= {name: _mean_known(each[:, :, t]) for name, t in _AT.items()}
    return scores


def _cut(found: Detections, rules: Rules) -> Detections:
    """LVIS counts the best `most` of an image over all classes; others keep file order."""
    if not rules.federated:
        return found
    by_image: dict[Any, list[int]] = {}
    for number, record in enumerate(found):
        by_image.setdefault(record["image_id"], []).append(number)
    kept: list[int] = []
    for numbers in by_image.values():
        if len(numbers) > rules.most:
            numbers = sorted(numbers, key=lambda n: -found[n]["score"])[: rules.most]
        kept += numbers
    return [found[n] for n in kept]


Grouped = dict[tuple[Any, int], list[Mapping[str, Any]]]


def _by_cell(records: Iterable[Mapping[str, Any]], rules: Rules) -> Grouped:
    grouped: Grouped = {}
    for record in records:
        category = record["category_id"] if rules.by_class else 0
        grouped.setdefault((record["image_id"], category), []).append(record)
    if not rules.by_class:
        for listed in grouped.values():
            listed.sort(key=lambda r: r["category_id"])
    return grouped


def _searched(ground_truth: GroundTruth) -> dict[Any, set[int]]:
    """Classes that an image has or is known not to have."""
    found = {i["id"]: set(i.get("neg_category_ids") or ()) for i in ground_truth["images"]}
    for annotation in ground_truth["annotations"]:
        found[annotation["image_id"]].add(annotation["category_id"])
    return found


def _cell(
    image: int,
    category: int,
    ground_truths: Sequence[Mapping[str, Any]],
    found: Sequence[Mapping[str, Any]],
    kind: Kind,
    forgiving: bool,
) -> Cell:
    crowd = np.array([bool(t.get("iscrowd")) for t in ground_truths], dtype=bool)
    overlaps, areas = _overlaps(ground_truths, found, crowd, kind)
    return Cell(
        image,
        category,
        np.array([d["score"] for d in found], dtype=float),
        areas,
        np.array([t["area"] for t in ground_truths], dtype=float),
        crowd,
        overlaps,
        forgiving,
    )


def _overlaps(
    ground_truths: Sequence[Mapping[str, Any]],
    found: Sequence[Mapping[str, Any]],
    crowd: npt.NDArray[np.bool_],
    kind: Kind,
) -> tuple[Real, Real]:
    """IoU of all pairs, detections x ground truths, and the detections' areas."""
    if kind == "bbox":
        boxes = np.array([d["bbox"] for d in found], dtype=float).reshape(-1, 4)
        theirs = np.array([t["bbox"] for t in ground_truths], dtype=float).reshape(-1, 4)
        return _box_ious(boxes, theirs, crowd), boxes[:, 2] * boxes[:, 3]
    masks = [Mask.from_coco(d["segmentation"]) for d in found]
    others = [Mask.from_coco(t["segmentation"]) for t in ground_truths]
    ious = _mask_ious(masks, others, crowd)
    if kind == "boundary":
        bands = [[band(m, band_reach(m.shape)) for m in side] for side in (masks, others)]
        ious = np.minimum(ious, _mask_ious(bands[0], bands[1], crowd))
    return ious, np.array([m.area for m in masks], dtype=float)


def _mask_ious(masks: Sequence[Mask], others: Sequence[Mask], crowd: npt.NDArray[np.bool_]) -> Real:
    both = np.array([[m.overlap(o) for o in others] for m in masks], dtype=float)
    both = both.reshape(len(masks), len(others))
    areas = np.array([m.area for m in masks], dtype=float)[:, None]
    theirs = np.array([o.area for o in others], dtype=float)
    return _shares(both, np.where(crowd, areas, areas + theirs - both))


def _box_ious(boxes: Real, others: Real, crowd: npt.NDArray[np.bool_]) -> Real:
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum((boxes[:, :2] + boxes[:, 2:])[:, None], (others[:, :2] + others[:, 2:])[None])
    both = np.prod(np.maximum(high - low, 0.0), axis=2)
    areas = np.prod(boxes[:, 2:], axis=1)[:, None]
    return _shares(both, np.where(crowd, areas, areas + np.prod(others[:, 2:], axis=1) - both))


def _shares(part: Real, whole: Real) -> Real:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _classes(
    found: Sequence[Cell], limits: tuple[float, float], rules: Rules
) -> list[list[Matched]]:
    """Matched cells of each class, in order of their images."""
    by_class: dict[int, list[Matched]] = {}
    for cell in found:
        by_class.setdefault(cell.category, []).append(match(cell, limits, rules.most))
    return list(by_class.values())


def _mean(values: npt.NDArray[Any]) -> float:
    return float(values.mean()) if values.size else math.nan


def _mean_known(values: Real) -> Real:
    """Means over classes of each resample, those without a ground truth left out."""
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))

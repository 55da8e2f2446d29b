"""Detections scored as COCO and LVIS score them: average precision and average recall.

Ground truth and detections are plain data in COCO's layout, as their JSON files have them.
Areas: a ground truth's is its field `area`; a detection's is that of its mask, or of its box where
boxes are scored. `published` counts an object of 32 x 32 pixels as small *and* medium (and
one of 96 x 96 as medium and large), `corrected` as medium (large) only. A number without
anything to count is NaN.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, check_choice
from segmeter.core.grouping import grouped
from segmeter.core.masks import Mask
from segmeter.core.models import PROTOCOLS, ProtocolName
from segmeter.measures.detection_matching import (
    Cell,
    Matched,
    Real,
    average_precision,
    match,
    pairwise_iou,
    recall_of,
)
from segmeter.measures.objects import band, band_reach

GroundTruth = Mapping[str, Any]
Detections = Sequence[Mapping[str, Any]]
Kind = Literal["bbox", "segm", "boundary"]

_SMALL, _LARGE, _ENDLESS = 32.0**2, 96.0**2, 1e10
_ALL = (0.0, _ENDLESS)
_AT = {"ap50": 0, "ap75": 5}
_FREQUENCIES = {"rare": "r", "common": "c", "frequent": "f"}
_RECALLS_BY_SIZE = ("ar-small", "ar-medium", "ar-large")
_PRECISIONS = ("ap", "ap50", "ap75", "ap-small", "ap-medium", "ap-large")


def one_object() -> dict[str, Any]:
    """The smallest ground truth, for trying things out: one cup of 4 x 4 pixels in one image.

    >>> [record['area'] for record in one_object()['annotations']]
    [16]
    """
    outline = [[0, 0, 4, 0, 4, 4, 0, 4]]
    box = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4], "area": 16}
    searched: dict[str, Any] = {"neg_category_ids": [], "not_exhaustive_category_ids": []}
    return {
        "images": [{"id": 1, "width": 8, "height": 8} | searched],
        "annotations": [box | {"id": 1, "iscrowd": 0, "segmentation": outline}],
        "categories": [{"id": 1, "name": "cup", "frequency": "f"}],
    }


def size_ranges(protocol: ProtocolName) -> dict[str, tuple[float, float]]:
    """Areas of each size, both ends in it.

    >>> size_ranges("published")["small"]
    (0.0, 1024.0)
    """
    check_choice("protocol", protocol, PROTOCOLS)
    under = (lambda x: math.nextafter(x, 0.0)) if protocol == "corrected" else float
    return {
        "all": _ALL,
        "small": (0.0, under(_SMALL)),
        "medium": (_SMALL, under(_LARGE)),
        "large": (_LARGE, _ENDLESS),
    }


@dataclass(frozen=True, slots=True)
class Rules:
    """How detections are matched.

    `boundary` compares by the smaller of mask IoU and boundary IoU (Cheng et al. 2021). `federated`
    (LVIS): classes that an image was not searched for are left out there, and a detection of a
    class that was not outlined exhaustively is no error.
    """

    kind: Kind = "segm"
    federated: bool = False
    by_class: bool = True  # a detection must have the ground truth's class
    most: int = 100  # detections that count: of an image and class (COCO), of an image (LVIS)


def cells(ground_truth: GroundTruth, found: Detections, rules: Rules) -> list[Cell]:
    """A cell for each image and class that has a ground truth or a detection.

    Without classes, ground truths and detections are sorted by class, then by their order in the
    file, as the evaluator does.

    >>> ground_truth = one_object()
    >>> len(cells(ground_truth, [], Rules('bbox')))
    1
    """
    place = {image: k for k, image in enumerate(sorted(i["id"] for i in ground_truth["images"]))}
    records = {image["id"]: image for image in ground_truth["images"]}
    ground_truths = _by_cell(ground_truth["annotations"], rules)
    predictions = _by_cell(_cut(found, rules), rules)
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
        size = (records[image]["height"], records[image]["width"])
        crowd = np.array([bool(t.get("iscrowd")) for t in theirs], dtype=bool)
        overlaps, areas = _overlaps(theirs, ours, crowd, rules.kind, size)
        scores = np.array([d["score"] for d in ours], dtype=float)
        stated = np.array([t["area"] for t in theirs], dtype=float)
        made.append(Cell(place[image], category, scores, areas, stated, crowd, overlaps, forgiving))
    return made


def coco_scores(
    ground_truth: GroundTruth,
    found: Detections,
    kind: Literal["bbox", "segm"] = "segm",
    protocol: ProtocolName = "published",
) -> dict[str, float]:
    """The twelve numbers of COCO's evaluator.

    >>> ground_truth = one_object()
    >>> found = [{'image_id': 1, 'category_id': 1, 'score': 0.9, 'bbox': [0, 0, 4, 4]}]
    >>> round(coco_scores(ground_truth, found, 'bbox')['ap'], 6)
    1.0
    """
    check_detections(ground_truth, found, kind)
    rules = Rules(kind)
    return evaluator_scores(cells(ground_truth, found, rules), rules, ground_truth, protocol)


def evaluator_scores(
    found: Sequence[Cell],
    rules: Rules,
    ground_truth: GroundTruth,
    protocol: ProtocolName = "published",
) -> dict[str, float]:
    """The numbers that COCO's evaluator prints, or LVIS's of federated data, in their order.

    >>> made = cells(one_object(), [], Rules('bbox'))
    >>> evaluator_scores(made, Rules('bbox'), one_object())['ar@100']
    0.0
    """
    scores = matched_scores(found, rules, protocol)
    named = {name: scores[name] for name in _PRECISIONS}
    if not rules.federated:
        few = {
            f"ar@{n}": _mean([recall_of(c) for c in _classes(found, _ALL, replace(rules, most=n))])
            for n in (1, 10)
        }
        sizes = {name: scores[name] for name in _RECALLS_BY_SIZE}
        return named | few | {f"ar@{rules.most}": scores["ar"]} | sizes
    letters = {c["id"]: c.get("frequency") for c in ground_truth["categories"]}
    classes = grouped(_classes(found, _ALL, rules), lambda c: letters.get(c[0].category))
    for name, letter in _FREQUENCIES.items():
        named[f"ap-{name}"] = _mean([average_precision(c) for c in classes.get(letter, ())])
    return named | {f"ar@{rules.most}": scores["ar"]}


def matched_scores(
    found: Sequence[Cell], rules: Rules, protocol: ProtocolName = "published"
) -> dict[str, float]:
    """AP and AR of all images, by size; AP at 0.5 and 0.75.

    >>> made = cells(one_object(), [], Rules('bbox'))
    >>> matched_scores(made, Rules('bbox'))['ap']
    0.0
    """
    scores: dict[str, float] = {}
    for size, limits in size_ranges(protocol).items():
        end = "" if size == "all" else f"-{size}"
        classes = _classes(found, limits, rules)
        precision = np.array([average_precision(c)[0] for c in classes]).reshape(-1, 10)
        scores[f"ap{end}"] = _mean(precision)
        if size == "all":
            scores |= {name: _mean(precision[:, t]) for name, t in _AT.items()}
        scores[f"ar{end}"] = _mean([recall_of(c) for c in classes])
    return scores


def resampled_scores(
    found: Sequence[Cell], rules: Rules, weights: Real, protocol: ProtocolName = "published"
) -> dict[str, Real]:
    """AP, AP50, AP75 and AP by size of resampled images, one value per row of `weights`.

    Images are in order of their ids; a class without a drawn ground truth is left out of that
    resample's mean.

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
        classes = _classes(found, limits, rules)
        if not classes:
            continue
        each = np.stack([average_precision(c, distinct)[back] for c in classes])
        end = "" if size == "all" else f"-{size}"
        scores[f"ap{end}"] = _mean_known(each.mean(axis=2))
        if size == "all":
            scores |= {name: _mean_known(each[:, :, t]) for name, t in _AT.items()}
    return scores


def check_detections(
    ground_truth: GroundTruth, found: Detections, kind: Kind = "segm", *, classes: bool = True
) -> None:
    """Refuse detections of other images or classes, without a score, or without geometry.

    >>> check_detections(one_object(), [])
    """
    sizes = {image["id"]: (image["height"], image["width"]) for image in ground_truth["images"]}
    known = {category["id"] for category in ground_truth["categories"]}
    for number, record in enumerate(found, start=1):
        where = f"detection {number}"
        needed = ("image_id", "category_id", "score", "bbox" if kind == "bbox" else "segmentation")
        lost = [n for n in needed if n not in record and (classes or n != "category_id")]
        if lost:
            raise BadInput(f"{where} has no '{lost[0]}'; results need image_id, category_id, score")
        image, score = record["image_id"], record["score"]
        if not isinstance(image, int | str) or image not in sizes:
            raise BadInput(
                f"{where} is of image {image!s:.60}, which is none of the {len(sizes)} of the "
                "ground truth; give the detections of these images"
            )
        category = record["category_id"] if classes else None
        if classes and (not isinstance(category, int | str) or category not in known):
            raise BadInput(
                f"{where} has the category {category!s:.60}, which is none of the {len(known)} of "
                "the ground truth; use its category ids"
            )
        if not _is_finite(score):
            raise BadInput(f"{where} has the score {score!s:.60}; scores are finite numbers")
        if kind == "bbox":
            _check_box(record["bbox"], sizes[image], where)


def _check_box(box: Any, size: tuple[int, int], where: str) -> None:
    if not isinstance(box, Sequence) or len(box) != 4 or not all(map(_is_finite, box)):
        raise BadInput(f"{where} has the box {box!s:.60}; a box is x, y, width, height")
    x, y, width, height = box
    if width < 0 or height < 0:
        raise BadInput(f"{where} has a box with sides {width:g} and {height:g}; none is negative")
    if x >= size[1] or y >= size[0] or x + width <= 0 or y + height <= 0:
        raise BadInput(
            f"{where} has a box at ({x:g}, {y:g}) of {width:g} x {height:g} that lies outside its"
            f" image of {size[1]} x {size[0]}; boxes are x, y, width, height in pixels"
        )


def _is_finite(value: object) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max  # type: ignore[arg-type]  # a number


def _cut(found: Detections, rules: Rules) -> Detections:
    """LVIS counts the best `most` of an image over all classes; others keep file order."""
    if not rules.federated:
        return found
    kept: list[Mapping[str, Any]] = []
    for records in grouped(found, itemgetter("image_id")).values():
        if len(records) > rules.most:
            records = sorted(records, key=lambda r: -r["score"])[: rules.most]
        kept += records
    return kept


def _by_cell(
    records: Iterable[Mapping[str, Any]], rules: Rules
) -> dict[tuple[Any, int], list[Mapping[str, Any]]]:
    if rules.by_class:
        return grouped(records, itemgetter("image_id", "category_id"))
    return grouped(sorted(records, key=itemgetter("category_id")), lambda r: (r["image_id"], 0))


def _searched(ground_truth: GroundTruth) -> dict[Any, set[int]]:
    """Classes that an image has or is known not to have."""
    found = {i["id"]: set(i.get("neg_category_ids") or ()) for i in ground_truth["images"]}
    for annotation in ground_truth["annotations"]:
        found[annotation["image_id"]].add(annotation["category_id"])
    return found


def _overlaps(
    ground_truths: Sequence[Mapping[str, Any]],
    found: Sequence[Mapping[str, Any]],
    crowd: npt.NDArray[np.bool_],
    kind: Kind,
    size: tuple[int, int],
) -> tuple[Real, Real]:
    """IoU of all pairs, detections x ground truths, and the detections' areas."""
    if kind == "bbox":
        boxes = np.array([d["bbox"] for d in found], dtype=float).reshape(-1, 4)
        given = [t["bbox"] for t in ground_truths]
        return pairwise_iou(boxes, given, crowd), boxes[:, 2] * boxes[:, 3]
    masks, others = ([_mask(record, size) for record in side] for side in (found, ground_truths))
    ious = pairwise_iou(masks, others, crowd)
    if kind == "boundary":
        mine, theirs = ([band(m, band_reach(m.shape)) for m in side] for side in (masks, others))
        ious = np.minimum(ious, pairwise_iou(mine, theirs, crowd))
    return ious, np.array([m.area for m in masks], dtype=float)


def _mask(record: Mapping[str, Any], size: tuple[int, int]) -> Mask:
    """Run lengths as they are, polygons filled as COCO does."""
    if isinstance(record["segmentation"], Mapping):
        return Mask.from_coco(record["segmentation"])
    from pycocotools import mask as coco

    return Mask.from_coco(coco.merge(coco.frPyObjects(record["segmentation"], *size)))


def _classes(
    found: Sequence[Cell], limits: tuple[float, float], rules: Rules
) -> list[list[Matched]]:
    """Matched cells of each class that has a ground truth of these sizes, in order of images."""
    matched = (match(cell, limits, rules.most) for cell in found)
    classes = grouped(matched, lambda one: one.category).values()
    return [each for each in classes if any(one.ground_truths for one in each)]


def _mean(values: Real | Sequence[Real]) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def _mean_known(values: Real) -> Real:
    """Means over classes of each resample, those without a ground truth left out."""
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))

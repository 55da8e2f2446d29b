"""Detections scored as COCO and LVIS score them: average precision and average recall.

Ground truth and detections are plain data in COCO's layout, as their JSON files have them.
Box and mask numbers are counted by `hotcoco`, a library made for it; boundary numbers and
intervals by `detection_matching`, which gives the library's values for masks and boxes.

Areas: a truth's is its field `area`; a detection's is that of its mask, or of its box where
it has only that. `published` counts an object of 32 x 32 pixels as small *and* medium (and
one of 96 x 96 as medium and large), `sound` as medium (large) only. A number of which there
is nothing to count is NaN.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, NotFound, check_choice
from segmeter.core.masks import Mask
from segmeter.core.models import READINGS, Reading
from segmeter.measures.bands import band, band_reach
from segmeter.measures.detection_matching import (
    Cell,
    Matched,
    Real,
    match,
    precision_and_recall,
    resampled_precision,
)

__all__ = [
    "GroundTruth",
    "Kind",
    "Rules",
    "average_recall",
    "cells",
    "check_detections",
    "coco_scores",
    "lvis_scores",
    "matched_scores",
    "of_frequency",
    "resampled_scores",
    "size_ranges",
]

GroundTruth = Mapping[str, Any]
Detections = Sequence[Mapping[str, Any]]
Kind = Literal["bbox", "segm", "boundary"]

_SMALL, _LARGE, _ENDLESS = 32.0**2, 96.0**2, 1e10
_AT = {"ap50": 0, "ap75": 5}
_COCO_NAMES = (
    "ap", "ap50", "ap75", "ap-small", "ap-medium", "ap-large",
    "ar@1", "ar@10", "ar@100", "ar-small", "ar-medium", "ar-large",
)  # fmt: skip
_LVIS_NAMES = {
    "ap": "AP", "ap50": "AP50", "ap75": "AP75", "ap-small": "APs", "ap-medium": "APm",
    "ap-large": "APl", "ap-rare": "APr", "ap-common": "APc", "ap-frequent": "APf",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rules:
    """How detections are matched.

    Attributes
    ----------
    kind
        What overlaps: boxes, masks, or `boundary`, the smaller of mask IoU and boundary IoU
        (Cheng et al. 2021).
    federated
        LVIS: classes that a picture was not searched for are left out there, and a detection
        of a class that was not outlined exhaustively is no error.
    by_class
        Whether a detection must have the truth's class.
    most
        Detections that count: of a picture and class (COCO), of a picture (LVIS).
    """

    kind: Kind = "segm"
    federated: bool = False
    by_class: bool = True
    most: int = 100


def size_ranges(reading: Reading) -> dict[str, tuple[float, float]]:
    """Areas of each size, both ends in it.

    >>> size_ranges("published")["small"]
    (0.0, 1024.0)
    """
    check_choice("reading", reading, READINGS)
    under = (lambda x: math.nextafter(x, 0.0)) if reading == "sound" else float
    return {
        "all": (0.0, _ENDLESS),
        "small": (0.0, under(_SMALL)),
        "medium": (_SMALL, under(_LARGE)),
        "large": (_LARGE, _ENDLESS),
    }


def coco_scores(
    truth: GroundTruth,
    found: Detections,
    kind: Literal["bbox", "segm"] = "segm",
    reading: Reading = "published",
) -> dict[str, float]:
    """COCO's twelve numbers: AP over ten thresholds, AP50, AP75, AP and AR by size.

    For masks a field `bbox` of a detection is left out: with it, evaluators take the box's
    area for the detection's (another AP by size).

    >>> size = {'id': 1, 'width': 8, 'height': 8}
    >>> box = {'image_id': 1, 'category_id': 1, 'bbox': [0, 0, 4, 4]}
    >>> outline = [[0, 0, 4, 0, 4, 4, 0, 4]]
    >>> thing = box | {'id': 1, 'area': 16, 'iscrowd': 0, 'segmentation': outline}
    >>> cup = {'id': 1, 'name': 'cup'}
    >>> truth = {'images': [size], 'annotations': [thing], 'categories': [cup]}
    >>> coco_scores(truth, [box | {'score': 0.9}], 'bbox')['ap']
    0.9999999999999998
    """
    check_detections(truth, found, kind)
    evaluator = _evaluator(truth, _plain(found, kind), kind, reading)
    _quietly(evaluator.evaluate, evaluator.accumulate, evaluator.summarize)
    return {n: _known(v) for n, v in zip(_COCO_NAMES, evaluator.stats, strict=True)}


def lvis_scores(
    truth: GroundTruth,
    found: Detections,
    kind: Literal["bbox", "segm"] = "segm",
    reading: Reading = "published",
    most: int = 300,
) -> dict[str, float]:
    """LVIS's numbers: AP, by size and by how frequent a class is, and AR of `most` a picture.

    >>> size = {'id': 1, 'width': 8, 'height': 8}
    >>> box = {'image_id': 1, 'category_id': 1, 'bbox': [0, 0, 4, 4]}
    >>> outline = [[0, 0, 4, 0, 4, 4, 0, 4]]
    >>> thing = box | {'id': 1, 'area': 16, 'iscrowd': 0, 'segmentation': outline}
    >>> cup = {'id': 1, 'name': 'cup', 'frequency': 'f'}
    >>> truth = {'images': [size], 'annotations': [thing], 'categories': [cup]}
    >>> size |= {'neg_category_ids': [], 'not_exhaustive_category_ids': []}
    >>> lvis_scores(truth, [], 'bbox')['ap']
    0.0
    """
    from hotcoco import LVISResults

    check_detections(truth, found, kind)
    library = _loaded(truth)
    evaluator = _library().LVISeval(library, LVISResults(library, _plain(found, kind), most), kind)
    evaluator.params.area_rng = [list(limits) for limits in size_ranges(reading).values()]
    _quietly(evaluator.run)
    results = evaluator.get_results()
    named = {name: _known(results[key]) for name, key in _LVIS_NAMES.items()}
    recalls = [value for key, value in results.items() if key.startswith("AR@")]
    return named | {f"ar@{most}": _known(recalls[0])}


def average_recall(
    truth: GroundTruth,
    found: Detections,
    most: int = 1000,
    reading: Reading = "published",
) -> dict[str, float]:
    """Share of the truths that the best `most` masks of each picture recall, whatever the class.

    The mean over ten thresholds, for `all`, `small`, `medium` and `large`. Crowd flags are
    not looked at, as LVIS has none.

    >>> size = {'id': 1, 'width': 8, 'height': 8}
    >>> box = {'image_id': 1, 'category_id': 1, 'bbox': [0, 0, 4, 4]}
    >>> outline = [[0, 0, 4, 0, 4, 4, 0, 4]]
    >>> thing = box | {'id': 1, 'area': 16, 'iscrowd': 0, 'segmentation': outline}
    >>> cup = {'id': 1, 'name': 'cup'}
    >>> truth = {'images': [size], 'annotations': [thing], 'categories': [cup]}
    >>> average_recall(truth, [])['all']
    0.0
    """
    check_detections(truth, found, "segm", classes=False)
    plain = {**truth, "annotations": [{**a, "iscrowd": 0} for a in truth["annotations"]]}
    evaluator = _evaluator(plain, _of_known_class(truth, found), "segm", reading)
    evaluator.params.use_cats = False
    evaluator.params.max_dets = [most]
    _quietly(evaluator.evaluate, evaluator.accumulate)
    recall = np.asarray(evaluator.eval["recall"])[:, 0, :, 0]
    return {
        name: float(recall[:, k].mean()) if (recall[:, k] > -1).all() else math.nan
        for k, name in enumerate(size_ranges(reading))
    }


def of_frequency(truth: GroundTruth, letter: Literal["f", "c", "r"]) -> dict[str, Any]:
    """The ground truth restricted to classes that are frequent, common or rare in LVIS.

    >>> size = {'id': 1, 'width': 8, 'height': 8}
    >>> box = {'image_id': 1, 'category_id': 1, 'bbox': [0, 0, 4, 4]}
    >>> outline = [[0, 0, 4, 0, 4, 4, 0, 4]]
    >>> thing = box | {'id': 1, 'area': 16, 'iscrowd': 0, 'segmentation': outline}
    >>> cup = {'id': 1, 'name': 'cup', 'frequency': 'f'}
    >>> truth = {'images': [size], 'annotations': [thing], 'categories': [cup]}
    >>> len(of_frequency(truth, 'r')['annotations'])
    0
    """
    kept = {c["id"] for c in truth["categories"] if c.get("frequency") == letter}
    return {**truth, "annotations": [a for a in truth["annotations"] if a["category_id"] in kept]}


def cells(truth: GroundTruth, found: Detections, rules: Rules) -> list[Cell]:
    """Pictures times classes that have a truth or a detection, ready to be matched.

    Masks must be run lengths here. Without classes, truths and detections are listed by
    class and then in the order of their file, as the evaluator lists them.

    >>> size = {'id': 1, 'width': 8, 'height': 8}
    >>> box = {'image_id': 1, 'category_id': 1, 'bbox': [0, 0, 4, 4]}
    >>> outline = [[0, 0, 4, 0, 4, 4, 0, 4]]
    >>> thing = box | {'id': 1, 'area': 16, 'iscrowd': 0, 'segmentation': outline}
    >>> cup = {'id': 1, 'name': 'cup', 'frequency': 'f'}
    >>> truth = {'images': [size], 'annotations': [thing], 'categories': [cup]}
    >>> len(cells(truth, [], Rules('bbox')))
    1
    """
    place = {image: k for k, image in enumerate(sorted(i["id"] for i in truth["images"]))}
    records = {image["id"]: image for image in truth["images"]}
    truths, guesses = _by_cell(truth["annotations"], rules), _by_cell(_cut(found, rules), rules)
    searched = _searched(truth) if rules.federated else None
    made = []
    for key in sorted(truths.keys() | guesses.keys()):
        image, category = key
        theirs, ours = truths.get(key, []), guesses.get(key, [])
        if searched is not None:
            ours = [d for d in ours if d["category_id"] in searched[image]]
        if not theirs and not ours:
            continue
        open_ended = records[image].get("not_exhaustive_category_ids") or ()
        forgiving = rules.federated and rules.by_class and category in open_ended
        made.append(_cell(place[image], category, theirs, ours, rules.kind, forgiving))
    return made


def matched_scores(
    found: Sequence[Cell], rules: Rules, reading: Reading = "published"
) -> dict[str, float]:
    """AP, AP50, AP75 and AR of matched cells, by size too; the library's values for masks.

    >>> size = {'id': 1, 'width': 8, 'height': 8}
    >>> box = {'image_id': 1, 'category_id': 1, 'bbox': [0, 0, 4, 4]}
    >>> outline = [[0, 0, 4, 0, 4, 4, 0, 4]]
    >>> thing = box | {'id': 1, 'area': 16, 'iscrowd': 0, 'segmentation': outline}
    >>> cup = {'id': 1, 'name': 'cup', 'frequency': 'f'}
    >>> truth = {'images': [size], 'annotations': [thing], 'categories': [cup]}
    >>> rules = Rules('bbox')
    >>> round(matched_scores(cells(truth, [], rules), rules)['ap'], 3)
    0.0
    """
    scores: dict[str, float] = {}
    for size, limits in size_ranges(reading).items():
        end = "" if size == "all" else f"-{size}"
        curves = [made for c in _classes(found, limits, rules) if (made := precision_and_recall(c))]
        precision = np.array([p for p, _ in curves]).reshape(-1, 10, 101)
        scores[f"ap{end}"] = _mean(precision)
        if size == "all":
            scores |= {name: _mean(precision[:, t]) for name, t in _AT.items()}
        scores[f"ar{end}"] = _mean(np.array([r for _, r in curves]))
    return scores


def resampled_scores(
    found: Sequence[Cell], rules: Rules, weights: Real, reading: Reading = "published"
) -> dict[str, Real]:
    """AP, AP50, AP75 and AP by size of resampled pictures, one value a row of `weights`.

    Pictures are in order of their ids; a class none of whose truths was drawn is left out
    of that resample's mean.

    >>> size = {'id': 1, 'width': 8, 'height': 8}
    >>> box = {'image_id': 1, 'category_id': 1, 'bbox': [0, 0, 4, 4]}
    >>> outline = [[0, 0, 4, 0, 4, 4, 0, 4]]
    >>> thing = box | {'id': 1, 'area': 16, 'iscrowd': 0, 'segmentation': outline}
    >>> cup = {'id': 1, 'name': 'cup', 'frequency': 'f'}
    >>> truth = {'images': [size], 'annotations': [thing], 'categories': [cup]}
    >>> rules = Rules('bbox')
    >>> resampled_scores(cells(truth, [], rules), rules, np.ones((3, 2)))['ap'].shape
    (3,)
    """
    # Few pictures are drawn in few different ways; each is counted once.
    distinct, back = np.unique(weights, axis=0, return_inverse=True)
    back = back.ravel()
    scores: dict[str, Real] = {}
    for size, limits in size_ranges(reading).items():
        classes = [c for c in _classes(found, limits, rules) if any(m.truths for m in c)]
        if not classes:
            continue
        each = np.stack([resampled_precision(c, distinct)[back] for c in classes])
        end = "" if size == "all" else f"-{size}"
        scores[f"ap{end}"] = _mean_known(each.mean(axis=2))
        if size == "all":
            scores |= {name: _mean_known(each[:, :, t]) for name, t in _AT.items()}
    return scores


def check_detections(
    truth: GroundTruth, found: Detections, kind: Kind = "segm", *, classes: bool = True
) -> None:
    """Refuse detections of other pictures, of unknown classes, or that are no detections.

    >>> size = {'id': 1, 'width': 8, 'height': 8}
    >>> box = {'image_id': 1, 'category_id': 1, 'bbox': [0, 0, 4, 4]}
    >>> outline = [[0, 0, 4, 0, 4, 4, 0, 4]]
    >>> thing = box | {'id': 1, 'area': 16, 'iscrowd': 0, 'segmentation': outline}
    >>> cup = {'id': 1, 'name': 'cup'}
    >>> truth = {'images': [size], 'annotations': [thing], 'categories': [cup]}
    >>> check_detections(truth, [box | {'score': 0.9}], 'bbox')
    """
    sizes = {image["id"]: (image["height"], image["width"]) for image in truth["images"]}
    known = {category["id"] for category in truth["categories"]}
    for number, record in enumerate(found, start=1):
        where = f"detection {number}"
        image = _field(record, "image_id", where)
        if image not in sizes:
            raise BadInput(
                f"{where} is of picture {image}, which is none of the {len(sizes)} of the ground"
                " truth; give the detections of these pictures"
            )
        category = _field(record, "category_id", where) if classes else None
        if classes and category not in known:
            raise BadInput(
                f"{where} has the category {category}, which is none of the {len(known)} of the"
                " ground truth; use its category ids"
            )
        score = _field(record, "score", where)
        if not isinstance(score, int | float) or not math.isfinite(score):
            raise BadInput(f"{where} has the score {score}; scores are finite numbers")
        if kind == "bbox":
            _check_box(record, sizes[image], where)
        else:
            _field(record, "segmentation", where)


def _check_box(record: Mapping[str, Any], size: tuple[int, int], where: str) -> None:
    box = _field(record, "bbox", where)
    numbers = isinstance(box, Sequence) and len(box) == 4
    if not numbers or not all(isinstance(n, int | float) and math.isfinite(n) for n in box):
        raise BadInput(f"{where} has the box {box}; a box is x, y, width, height")
    x, y, width, height = box
    if width < 0 or height < 0:
        raise BadInput(f"{where} has a box with sides {width:g} and {height:g}; none is negative")
    if x >= size[1] or y >= size[0] or x + width <= 0 or y + height <= 0:
        raise BadInput(
            f"{where} has a box at ({x:g}, {y:g}) of {width:g} x {height:g} that lies outside its"
            f" picture of {size[1]} x {size[0]}; boxes are x, y, width, height in pixels"
        )


def _field(record: Mapping[str, Any], name: str, where: str) -> Any:
    if not isinstance(record, Mapping) or name not in record:
        raise BadInput(f"{where} has no '{name}'; results need image_id, category_id, score")
    return record[name]


def _library() -> Any:
    try:
        import hotcoco
    except ImportError as error:
        raise NotFound(
            "average precision needs 'hotcoco': pip install 'segmeter[detectors]'"
        ) from error
    return hotcoco


def _loaded(truth: GroundTruth) -> Any:
    annotations = [{"iscrowd": 0, **record} for record in truth["annotations"]]
    return _library().COCO({**truth, "annotations": annotations})


def _evaluator(truth: GroundTruth, found: list[Any], kind: str, reading: Reading) -> Any:
    library = _loaded(truth)
    evaluator = _library().COCOeval(library, library.load_res(found), kind)
    evaluator.params.area_rng = [list(limits) for limits in size_ranges(reading).values()]
    return evaluator


def _plain(found: Detections, kind: Kind) -> list[dict[str, Any]]:
    """Only what is scored: a box beside a mask would give the detection its area."""
    left_out = "segmentation" if kind == "bbox" else "bbox"
    return [{k: v for k, v in record.items() if k not in (left_out, "area")} for record in found]


def _of_known_class(truth: GroundTruth, found: Detections) -> list[dict[str, Any]]:
    """Proposals that have no class, or one of their own, go under the first one.

    With classes switched off evaluators still pass over classes that they do not know.
    """
    known = [category["id"] for category in truth["categories"]]
    first, listed = min(known), set(known)
    return [
        {**d, "category_id": d["category_id"] if d.get("category_id") in listed else first}
        for d in _plain(found, "segm")
    ]


def _quietly(*steps: Any) -> None:
    """The library prints its tables and warns of other sizes; ours returns its numbers."""
    with redirect_stdout(StringIO()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "hotcoco: area range", UserWarning)
        for step in steps:
            step()


def _known(value: float) -> float:
    """The library says -1 where there is nothing to count."""
    return math.nan if value == -1 else float(value)


def _cut(found: Detections, rules: Rules) -> Detections:
    """LVIS counts the best `most` of a picture over all classes; others keep file order."""
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


def _searched(truth: GroundTruth) -> dict[Any, set[int]]:
    """Classes that a picture has or is known not to have."""
    found = {i["id"]: set(i.get("neg_category_ids") or ()) for i in truth["images"]}
    for annotation in truth["annotations"]:
        found[annotation["image_id"]].add(annotation["category_id"])
    return found


def _cell(
    image: int,
    category: int,
    truths: Sequence[Mapping[str, Any]],
    found: Sequence[Mapping[str, Any]],
    kind: Kind,
    forgiving: bool,
) -> Cell:
    crowd = np.array([bool(t.get("iscrowd")) for t in truths], dtype=bool)
    overlaps, areas = _overlaps(truths, found, crowd, kind)
    return Cell(
        image,
        category,
        np.array([d["score"] for d in found], dtype=float),
        areas,
        np.array([t["area"] for t in truths], dtype=float),
        crowd,
        overlaps,
        forgiving,
    )


def _overlaps(
    truths: Sequence[Mapping[str, Any]],
    found: Sequence[Mapping[str, Any]],
    crowd: npt.NDArray[np.bool_],
    kind: Kind,
) -> tuple[Real, Real]:
    """IoU of all pairs, detections x truths, and the detections' areas."""
    if kind == "bbox":
        boxes = np.array([d["bbox"] for d in found], dtype=float).reshape(-1, 4)
        theirs = np.array([t["bbox"] for t in truths], dtype=float).reshape(-1, 4)
        return _box_ious(boxes, theirs, crowd), boxes[:, 2] * boxes[:, 3]
    masks = [Mask.from_coco(d["segmentation"]) for d in found]
    others = [Mask.from_coco(t["segmentation"]) for t in truths]
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
    """Matched cells of each class, in order of their pictures."""
    by_class: dict[int, list[Matched]] = {}
    for cell in found:
        by_class.setdefault(cell.category, []).append(match(cell, limits, rules.most))
    return list(by_class.values())


def _mean(values: npt.NDArray[Any]) -> float:
    return float(values.mean()) if values.size else math.nan


def _mean_known(values: Real) -> Real:
    """Means over classes of each resample, those without a truth left out."""
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))

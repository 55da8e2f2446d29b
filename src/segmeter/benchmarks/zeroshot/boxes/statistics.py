"""Statistics of masks from boxes (AP, mask quality) and the sections that show them.

AP mixes how well objects are found with how well they are cut out. Mask quality is reported
separately: of every object whose box is found (IoU of boxes at least 0.5, same class, COCO's
matching), mask IoU and boundary IoU of the mask for that box. Intervals resample images.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from segmeter.analysis import report_parts as parts
from segmeter.benchmarks.zeroshot import NOT_REPRODUCIBLE, OWN_RULES, short_name
from segmeter.core.benchmarks import Group, Results
from segmeter.core.detection_ground_truth import DetectionGroundTruth, coco_layout
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.scores_by_step import Tables
from segmeter.core.sections import Column, Note, Section
from segmeter.core.seeds import generator
from segmeter.measures import detections as coco
from segmeter.measures.detection_matching import Cell, pairwise_iou, taken_by
from segmeter.measures.objects import boundary_iou, iou
from segmeter.stats.intervals import Floats, Interval
from segmeter.stats.statistics import Drawn, Statistic, mean_of_known, statistic_of_draws

RESAMPLES = 500
_LVIS_MOST, _COCO_MOST = 300, 100
_KINDS: dict[str, coco.Kind] = {"": "segm", "boundary-": "boundary", "box-": "bbox"}


@dataclass(frozen=True)
class Detections:
    """All boxes and masks of one model and source of boxes on one dataset."""

    dataset: str
    ground_truths: tuple[DetectionGroundTruth, ...]
    found: tuple[Mapping[str, Any], ...]

    @cached_property
    def ground_truth(self) -> dict[str, Any]:
        """In COCO's layout, with every class that a detection names."""
        layout = coco_layout(self.ground_truths)
        known = {category["id"] for category in layout["categories"]}
        more = sorted({d["category_id"] for d in self.found} - known)
        layout["categories"] += [{"id": n, "name": str(n), "frequency": "f"} for n in more]
        return layout

    def rules(self, kind: coco.Kind) -> coco.Rules:
        federated = any(truth.federated for truth in self.ground_truths)
        return coco.Rules(kind, federated, most=_LVIS_MOST if federated else _COCO_MOST)

    @cached_property
    def weights(self) -> Floats:
        """How often each image is drawn in each resample; the same for every model."""
        many = len(self.ground_truths)
        draws = generator("boxes", self.dataset, many).integers(0, many, (RESAMPLES, many))
        return np.stack([np.bincount(row, minlength=many) for row in draws]).astype(float)

    @cached_property
    def cells(self) -> dict[coco.Kind, list[Cell]]:
        """Images times classes with their overlaps, by kind."""
        kinds = _KINDS.values()
        return {kind: coco.cells(self.ground_truth, self.found, self.rules(kind)) for kind in kinds}


@dataclass(frozen=True)
class Scored(Group):
    """Detections in one protocol; the group's user is the source of the boxes."""

    detections: Detections

    @property
    def size(self) -> int:
        """Objects that detections are scored against."""
        return sum(not o.crowd for t in self.detections.ground_truths for o in t.objects)

    @cached_property
    def numbers(self) -> dict[str, Drawn]:
        """All that the evaluator prints of masks and boxes, AP of boundaries; AP also in draws."""
        found = self.detections
        made: dict[str, Drawn] = {}
        for prefix, kind in _KINDS.items():
            rules, paired = found.rules(kind), found.cells[kind]
            if kind == "boundary":
                every = coco.matched_scores(paired, rules, self.protocol)
                scores = {name: value for name, value in every.items() if name.startswith("ap")}
            else:
                scores = coco.evaluator_scores(paired, rules, found.ground_truth, self.protocol)
            draws = coco.resampled_scores(paired, rules, found.weights, self.protocol)
            for name, value in scores.items():
                if not np.isnan(value):
                    made[f"{prefix}{name}"] = value, draws.get(name, np.empty(0))
        return made


@dataclass(frozen=True, slots=True)
class FoundObjects(Group):
    """The objects of a group: mask IoU and boundary IoU with the mask whose box found each.

    `taken` is `(objects, 2)`, NaN where no box did. An object's target is its number in its
    image, from 1 on.
    """

    taken: Floats
    breakdowns: Mapping[tuple[str, str], Mapping[str, str]]


def groups(run: Results) -> list[Group]:
    """Detections and ground truth, from the run's own rows, in every protocol."""
    made: list[Group] = []
    for tables in Tables.load(
        run,
        ["holds", "category", "score", "box", "mask", "ground_truth"],
        by=("model", "dataset", "box_source"),
        user="box_source",
        unit=("scene",),
        axis="rank",
    ):
        found = _detections(tables.dataset, tables.lines.to_pylist())
        objects = _objects(tables.scenes, found)
        for protocol in run.plan.protocols:
            who = (tables.model, tables.dataset, tables.user, protocol)
            made.append(Scored(*who, tables.keys, tables.clusters, found))
            made.append(FoundObjects(*who, *objects))
    return made


def _detections(dataset: str, images: Sequence[Mapping[str, Any]]) -> Detections:
    ground_truths: list[DetectionGroundTruth] = []
    found = []
    for image in images:
        if "ground truth" not in image["holds"]:
            raise BadInput(f"{dataset}/{image['scene']}: its rows hold no ground truth")
        truth = image["holds"].index("ground truth")
        ground_truth = DetectionGroundTruth.from_json(image["ground_truth"][truth])
        ground_truths.append(ground_truth)
        found += [
            {
                "image_id": ground_truth.image,
                "category_id": image["category"][place],
                "score": image["score"][place],
                "bbox": _box(image["box"][place]),
                "segmentation": {"size": list(ground_truth.shape), "counts": image["mask"][place]},
            }
            for place, holds in enumerate(image["holds"])
            if holds == "mask"
        ]
    return Detections(dataset, tuple(ground_truths), tuple(found))


def _box(text: str) -> list[float]:
    try:
        box = json.loads(text)
        if len(box) == 4 and all(isfinite(side) for side in box):
            return [float(side) for side in box]
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise BadInput(f"column 'box': {text!r:.80} cannot be read ({error})") from error
    raise BadInput(f"column 'box': {text!r:.80} is not x, y, width and height")


def statistics(run: Results) -> list[Statistic]:
    """AP and AR of masks, boundaries and boxes as the evaluators give them, and mask quality."""
    found = parts.Findings(run).groups(Scored)
    names = dict.fromkeys(name for group in found for name in group.numbers)
    return [*map(_statistic, names), *_QUALITY]


def _share(name: str, title: str, values: Callable[[Any], Floats], **more: Any) -> Statistic:
    return Statistic(name, title, "%", 1, "higher", True, values, of=FoundObjects, **more)


_QUALITY = [
    _share("boxes-found", "boxes found", lambda g: np.where(np.isnan(g.taken[:, 0]), 0.0, 1.0),
           interval=lambda _, found: Interval(float(found.mean()), np.nan, np.nan), tested="no"),
    _share("mask-iou", "mask IoU", lambda g: g.taken[:, 0], interval=mean_of_known, tested="no"),
    _share("mask-boundary-iou", "boundary IoU", lambda g: g.taken[:, 1], interval=mean_of_known,
           tested="no"),
    _share("object-iou", "mean IoU of objects", lambda g: np.nan_to_num(g.taken[:, 0])),
]  # fmt: skip
"""How many boxes are found, the masks of those, and IoU of objects, 0 where none was found."""


def _statistic(name: str) -> Statistic:
    prefix = next(p for p in ("boundary-", "box-", "") if name.startswith(p))
    measure, _, part = name.removeprefix(prefix).partition("-")
    of = {"boundary-": ", boundaries", "box-": ", boxes", "": ""}[prefix]
    return statistic_of_draws(
        name, f"{measure.upper()} {part}".strip() + of, lambda g: g.numbers.get(name), unit="%",
        digits=1, better="higher", percent=True, of=Scored,
        tested="yes" if name in ("ap", "boundary-ap") else "no",
    )  # fmt: skip


_Facts = dict[tuple[str, str], dict[str, str]]


def _objects(
    scenes: Sequence[str], found: Detections
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...], Floats, _Facts]:
    """Keys, images, quality and class and size of all objects."""
    values: dict[tuple[str, str], tuple[float, float]] = {}
    known: _Facts = {}
    sizes = {name: area for name, area in coco.size_ranges("corrected").items() if name != "all"}
    for scene, truth in zip(scenes, found.ground_truths, strict=True):
        names = {category.id: category.name for category in truth.categories}
        mine = [d for d in found.found if d["image_id"] == truth.image]
        taken = dict(_pairs(truth, mine))
        for number, thing in enumerate(truth.objects):
            if thing.crowd:
                continue
            key = (scene, str(number + 1))
            values[key] = np.nan, np.nan
            if number in taken:
                masks = thing.mask, Mask.from_coco(mine[taken[number]]["segmentation"])
                values[key] = iou(*masks, None), boundary_iou(*masks, None)
            size = next(name for name, (_, high) in sizes.items() if thing.area <= high)
            known[key] = {"class": names.get(thing.category, ""), "size": size}
    images = tuple(scene for scene, _ in values)
    return tuple(values), images, np.array(list(values.values())).reshape(-1, 2), known


def _pairs(
    truth: DetectionGroundTruth, found: Sequence[Mapping[str, Any]]
) -> list[tuple[int, int]]:
    """Ground truths and the detections that take them by their boxes, as COCO matches at 0.5."""
    things = [k for k, o in enumerate(truth.objects) if not o.crowd]
    if not things or not found:
        return []
    ranked = sorted(range(len(found)), key=lambda k: -found[k]["score"])
    regular = np.zeros(len(things), dtype=bool)
    boxes = [truth.objects[k].box for k in things]
    overlaps = pairwise_iou([found[k]["bbox"] for k in ranked], boxes)
    classes = np.array([found[k]["category_id"] for k in ranked])
    overlaps[classes[:, None] != [truth.objects[k].category for k in things]] = 0.0
    (taken,) = taken_by(overlaps, regular, regular, np.array([0.5]))
    return [(things[t], place) for t, place in zip(taken, ranked, strict=True) if t >= 0]


_SPLIT = ("small", "medium", "large", "rare", "common", "frequent")
_AP = ("ap", "ap50", "ap75", *(f"ap-{part}" for part in _SPLIT))
_BOTH = ("ap", "boundary-ap", "box-ap", "boxes-found", "mask-iou", "mask-boundary-iou")
_PRECISION = (
    "Average precision of the masks over all thresholds of IoU, at 0.5 and at 0.75, and by the "
    "size of objects or how frequent their class is."
)
_RULE = (
    "Each box is used twice: alone, then with the logits of the mask shown. Boundary AP matches by "
    "the smaller of mask IoU and boundary IoU. Mask IoU and boundary IoU are means over objects "
    "whose box is found at an IoU of 0.5; AP on COCO falls where annotations are coarse, so read "
    "AP and boundary quality together. **published** counts an object of exactly 32 x 32 or "
    "96 x 96 pixels in both sizes, **corrected** in one."
)


def sections(run: Results) -> list[Section]:
    found = parts.Findings(run, short_name)
    by: parts.By = {**parts.DATA, Column("boxes"): lambda row: row.user}
    texts: dict[str, Any] = {"by": by, "note": "95 % intervals from resampling images."}
    by_size = found.table("boxes-ap", found.rows, _AP, caption="AP of the masks", **texts)
    blocks = [
        *parts.best_answer(found.leading, ("ap", "box-ap"), found.cards, "", found.differences),
        found.table("boxes", found.leading, _BOTH, caption="Masks and boxes", **texts),
        Note(f"{_RULE} {OWN_RULES}"),
        Note(NOT_REPRODUCIBLE, "warning"),
    ]
    return [
        Section("Results", blocks=blocks),
        Section("Average precision by size and class", _PRECISION, [by_size]),
        *found.difference_section(),
    ]

"""Statistics of masks from boxes (AP, mask quality) and the sections that show them.

AP mixes how well objects are found with how well they are cut out. Mask quality is reported
separately: of every object whose box is found (IoU of boxes at least 0.5, same class, COCO's
matching), mask IoU and boundary IoU of the mask for that box. Intervals resample images.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from segmeter.benchmarks import report_parts as parts
from segmeter.benchmarks.zeroshot import NOT_REPRODUCIBLE, OWN_RULES, short_name
from segmeter.core.benchmarks import Group, Results, SummaryRow
from segmeter.core.detection_ground_truth import DetectionGroundTruth, coco_layout
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.scores_by_step import load_tables
from segmeter.core.sections import Column, Note, Section, Table
from segmeter.core.seeds import generator
from segmeter.measures.detection_matching import Cell, pairwise_iou, taken_by
from segmeter.measures.detections import (
    Kind,
    Rules,
    cells,
    evaluator_scores,
    matched_scores,
    resampled_scores,
    size_ranges,
)
from segmeter.measures.objects import boundary_iou, iou
from segmeter.stats.comparisons import Paired
from segmeter.stats.intervals import Floats, Interval, Resampling
from segmeter.stats.statistics import Statistic, paired_by_draws, percentiles

RESAMPLES = 500
_LVIS_MOST, _COCO_MOST = 300, 100
_KINDS: dict[str, Kind] = {"": "segm", "boundary-": "boundary", "box-": "bbox"}


@dataclass(frozen=True)
class Detections:
    """All boxes and masks of one model and source of boxes on one dataset."""

    dataset: str
    ground_truths: tuple[DetectionGroundTruth, ...]
    found: tuple[Mapping[str, Any], ...]

    @property
    def objects(self) -> int:
        """Objects that detections are scored against."""
        return sum(not o.crowd for t in self.ground_truths for o in t.objects)

    @cached_property
    def ground_truth(self) -> dict[str, Any]:
        """In COCO's layout, with every class that a detection names."""
        layout = coco_layout(self.ground_truths)
        known = {category["id"] for category in layout["categories"]}
        more = sorted({d["category_id"] for d in self.found} - known)
        layout["categories"] += [{"id": n, "name": str(n), "frequency": "f"} for n in more]
        return layout

    def rules(self, kind: Kind) -> Rules:
        federated = any(truth.federated for truth in self.ground_truths)
        return Rules(kind, federated, most=_LVIS_MOST if federated else _COCO_MOST)

    @cached_property
    def weights(self) -> Floats:
        """How often each image is drawn in each resample; the same for every model."""
        many = len(self.ground_truths)
        draws = generator("boxes", self.dataset, many).integers(0, many, (RESAMPLES, many))
        return np.stack([np.bincount(row, minlength=many) for row in draws]).astype(float)

    @cached_property
    def cells(self) -> dict[Kind, list[Cell]]:
        """Images times classes with their overlaps, by kind."""
        kinds = _KINDS.values()
        return {kind: cells(self.ground_truth, self.found, self.rules(kind)) for kind in kinds}

    @cached_property
    def taken(self) -> list[dict[int, tuple[float, float]]]:
        """For each image the objects whose box is found: mask IoU and boundary IoU."""
        made = []
        for truth in self.ground_truths:
            mine = [d for d in self.found if d["image_id"] == truth.image]
            scores = {}
            for thing, place in _pairs(truth, mine):
                masks = truth.objects[thing].mask, Mask.from_coco(mine[place]["segmentation"])
                scores[thing] = iou(*masks, None), boundary_iou(*masks, None)
            made.append(scores)
        return made


@dataclass(frozen=True)
class Scored(Group):
    """Detections in one protocol; the group's user is the source of the boxes."""

    detections: Detections

    @property
    def size(self) -> int:
        return self.detections.objects

    @cached_property
    def scores(self) -> dict[Kind, dict[str, float]]:
        """All that the evaluator prints of masks and boxes; AP of boundaries."""
        found = self.detections
        made: dict[Kind, dict[str, float]] = {}
        for kind, paired in found.cells.items():
            rules = found.rules(kind)
            if kind == "boundary":
                every = matched_scores(paired, rules, self.protocol)
                made[kind] = {name: value for name, value in every.items() if name in _AP}
            else:
                made[kind] = evaluator_scores(paired, rules, found.ground_truth, self.protocol)
        return made

    @cached_property
    def draws(self) -> dict[Kind, dict[str, Floats]]:
        """AP of the resampled images."""
        found = self.detections
        return {
            kind: resampled_scores(paired, found.rules(kind), found.weights, self.protocol)
            for kind, paired in found.cells.items()
        }

    @cached_property
    def estimates(self) -> dict[str, Interval]:
        """AP of masks, boundaries and boxes, and the quality of masks, with limits."""
        made: dict[str, Interval] = {}
        for prefix, kind in _KINDS.items():
            for name, value in self.scores[kind].items():
                if not np.isnan(value):
                    draws = self.draws[kind].get(name, np.empty(0))
                    made[f"{prefix}{name}"] = percentiles(value, draws, len(self.keys))
        return made | _quality(self.detections)


@dataclass(frozen=True, slots=True)
class FoundObjects(Group):
    """The objects of a group: IoU with the mask whose box found each, 0 where none did.

    An object's target is its number in its image, from 1 on.
    """

    iou: Floats
    known: Mapping[tuple[str, str], Mapping[str, str]]

    @property
    def breakdowns(self) -> Mapping[tuple[str, str], Mapping[str, str]]:
        return self.known


def groups(run: Results) -> list[Group]:
    """Detections and ground truth, from the run's own rows, in every protocol."""
    made: list[Group] = []
    for tables in load_tables(
        run,
        ["holds", "category", "score", "box", "mask", "ground_truth"],
        by=("model", "dataset", "box_source"),
        user="box_source",
        unit=("scene",),
        axis="rank",
    ):
        found = _detections(tables.dataset, tables.lines.to_pylist())
        for protocol in run.plan.protocols:
            who = (tables.model, tables.dataset, tables.user, protocol)
            made.append(Scored(*who, tables.keys, tables.clusters, found))
            made.append(_objects(who, tables.scenes, found))
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
    names = dict.fromkeys(name for group in found for name in group.estimates)
    return [*map(_statistic, names), _OBJECT_IOU]


_OBJECT_IOU = Statistic(
    "object-iou", "mean IoU of objects", "%", 1, "higher", True,
    lambda g: g.iou, of=FoundObjects,
)  # fmt: skip


_OVERALL = {"ap": "AP", "ap50": "AP50", "ap75": "AP75"}
_SPLIT = ("small", "medium", "large", "rare", "common", "frequent")
_AP = _OVERALL | {f"ap-{part}": part for part in _SPLIT}
_QUALITY = {
    "boxes-found": "boxes found", "mask-iou": "mask IoU", "mask-boundary-iou": "boundary IoU",
}  # fmt: skip
_BOTH = {"ap": "AP, masks", "boundary-ap": "AP, boundaries", "box-ap": "AP, boxes", **_QUALITY}
_TITLES = {
    f"{prefix}{name}": f"{title}{of}"
    for prefix, of in {"": "", "boundary-": ", boundaries", "box-": ", boxes"}.items()
    for name, title in (_OVERALL | {f"ap-{part}": f"AP {part}" for part in _SPLIT}).items()
} | _QUALITY
_COMPARED: dict[str, Kind] = {"ap": "segm", "boundary-ap": "boundary"}


def _statistic(name: str) -> Statistic:
    kind = _COMPARED.get(name)
    return Statistic(
        name,
        _TITLES.get(name, name.upper()),
        "%",
        1,
        "higher",
        percent=True,
        whole=lambda g: g.estimates.get(name),
        of=Scored,
        tested="no" if kind is None else "yes",
        pair=None if kind is None else lambda a, b: _compared(a, b, kind),
    )


def _quality(found: Detections) -> dict[str, Interval]:
    """Mean mask IoU and boundary IoU of objects whose box is found, and the share of these."""
    images = [t.image for t, taken in zip(found.ground_truths, found.taken, strict=True)
              for _ in taken]  # fmt: skip
    if not images:
        return {}
    scores = np.array([score for taken in found.taken for score in taken.values()])
    drawn = Resampling(images, seed=found.dataset)
    return {
        "boxes-found": Interval(len(images) / found.objects, np.nan, np.nan),
        "mask-iou": drawn.interval(scores[:, 0]),
        "mask-boundary-iou": drawn.interval(scores[:, 1]),
    }


def _objects(
    who: tuple[str, str, str, ProtocolName], scenes: Sequence[str], found: Detections
) -> FoundObjects:
    values: dict[tuple[str, str], float] = {}
    known: dict[tuple[str, str], dict[str, str]] = {}
    sizes = {name: area for name, area in size_ranges("corrected").items() if name != "all"}
    for scene, truth, taken in zip(scenes, found.ground_truths, found.taken, strict=True):
        names = {category.id: category.name for category in truth.categories}
        for number, thing in enumerate(truth.objects):
            if not thing.crowd:
                key = (scene, str(number + 1))
                values[key] = taken.get(number, (0.0, 0.0))[0]
                size = next(name for name, (_, high) in sizes.items() if thing.area <= high)
                known[key] = {"class": names.get(thing.category, ""), "size": size}
    images = tuple(scene for scene, _ in values)
    return FoundObjects(*who, tuple(values), images, np.array(list(values.values())), known)


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


def _compared(first: Scored, second: Scored, kind: Kind) -> Paired | None:
    """AP on the same resampled images."""
    value = first.scores[kind]["ap"] - second.scores[kind]["ap"]
    gaps = first.draws[kind]["ap"] - second.draws[kind]["ap"]
    return paired_by_draws(value, gaps, first.size, len(first.keys))


_PRECISION = (
    "Average precision of the masks over all thresholds of IoU, at 0.5 and at 0.75, and by the "
    "size of objects or how frequent their class is."
)
_RULE = (
    "Each box is used twice: alone, then with the logits of the mask shown. The first SAM "
    "returns three masks for a box alone and shows the one with the highest score; SAM 2 treats a "
    "box as two points and shows its single mask. A mask has its box's class and score. "
    "Boundary AP "
    "matches by the smaller of mask IoU and boundary IoU. Mask IoU and boundary IoU are means "
    "over objects whose box is found at an IoU of 0.5; AP on COCO falls where annotations are "
    "coarse, so read AP and boundary quality together. **published** counts an object of "
    "exactly 32 x 32 or 96 x 96 pixels in both sizes, **corrected** in one."
)


def sections(run: Results) -> list[Section]:
    """All sections, in reading order."""
    found = parts.Findings(run, short_name)
    blocks = [
        *parts.best_answer(found.leading, ("ap", "box-ap"), found.cards),
        _table("boxes", found.leading, _BOTH, "Masks and boxes"),
        Note(f"{_RULE} {OWN_RULES}"),
        Note(NOT_REPRODUCIBLE, "warning"),
    ]
    by_size = _table("boxes-ap", found.rows, _AP, "AP of the masks")
    return [
        Section("Results", blocks=blocks),
        Section("Average precision by size and class", _PRECISION, [by_size]),
        *found.difference_section(),
    ]


def _table(name: str, rows: Sequence[SummaryRow], titles: Mapping[str, str], caption: str) -> Table:
    measures = {m: Column(title, "%", 1, better="higher") for m, title in titles.items()}
    by: parts.By = {**parts.DATA, Column("boxes"): lambda row: row.user}
    note = "95 % intervals from resampling images."
    return parts.summary_table(name, rows, measures, by=by, caption=caption, note=note)

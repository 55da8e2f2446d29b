"""Statistics of masks from boxes: AP of masks, boundaries and boxes, and quality beside AP.

AP mixes how well objects are found with how well they are cut out. Beside it stands mask
quality alone: of every object whose box is found (IoU of boxes at least 0.5, same class, COCO's
matching), mask IoU and boundary IoU of the mask for that box. Intervals draw images anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from segmeter.benchmarks.by_group.splitting import Splittable
from segmeter.core.benchmarks import Curves, Difference, Results, SummaryRow
from segmeter.core.dataset_names import dataset_names
from segmeter.core.detection_ground_truth import DetectionGroundTruth, coco_layout
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.seeds import generator
from segmeter.measures.bands import boundary_iou
from segmeter.measures.detection_matching import Cell
from segmeter.measures.detections import (
    Kind,
    coco_scores,
    lvis_scores,
    size_ranges,
)
from segmeter.measures.matched_detections import (
    Rules,
    cells,
    matched_scores,
    resampled_scores,
)
from segmeter.measures.objects import iou
from segmeter.stats.comparisons import holm
from segmeter.stats.intervals import Floats, Resampling

__all__ = [
    "Scored",
    "differences",
    "differences_of",
    "scored",
    "splittable",
    "summary",
    "summary_of",
]

RESAMPLES = 500
_LVIS_MOST, _COCO_MOST = 300, 100
_KINDS: dict[str, Kind] = {"": "segm", "boundary-": "boundary", "box-": "bbox"}


@dataclass(frozen=True)
class Scored:
    """All boxes and masks of one model and source of boxes on one data set."""

    model: str
    dataset: str
    source: str
    ground_truths: tuple[DetectionGroundTruth, ...]
    found: tuple[Mapping[str, Any], ...]
    scenes: tuple[str, ...]

    @cached_property
    def ground_truth(self) -> dict[str, Any]:
        """In COCO's layout, with every class that a detection names."""
        layout = coco_layout(self.ground_truths)
        known = {category["id"] for category in layout["categories"]}
        more = sorted({d["category_id"] for d in self.found} - known)
        layout["categories"] += [{"id": n, "name": str(n), "frequency": "f"} for n in more]
        return layout

    @property
    def federated(self) -> bool:
        return any(ground_truth.federated for ground_truth in self.ground_truths)

    def rules(self, kind: Kind) -> Rules:
        return Rules(kind, self.federated, True, _LVIS_MOST if self.federated else _COCO_MOST)

    @cached_property
    def weights(self) -> Floats:
        """How often each image is drawn in each resample; the same for every model."""
        many = len(self.ground_truths)
        draws = generator("boxes", self.dataset, many).integers(0, many, (RESAMPLES, many))
        return np.stack([np.bincount(row, minlength=many) for row in draws]).astype(float)

    def cells(self, kind: Kind) -> list[Cell]:
        """Images times classes with their overlaps, computed once."""
        if kind not in self._cells:
            self._cells[kind] = cells(self.ground_truth, self.found, self.rules(kind))
        return self._cells[kind]

    def resampled(self, kind: Kind, protocol: ProtocolName) -> dict[str, Floats]:
        """AP of the resampled images, computed once."""
        if (kind, protocol) not in self._drawn:
            found = resampled_scores(self.cells(kind), self.rules(kind), self.weights, protocol)
            self._drawn[kind, protocol] = found
        return self._drawn[kind, protocol]

    @cached_property
    def _cells(self) -> dict[Kind, list[Cell]]:
        return {}

    @cached_property
    def _drawn(self) -> dict[tuple[Kind, ProtocolName], dict[str, Floats]]:
        return {}


def scored(run: Results) -> list[Scored]:
    """What was found and what is true, from the run's own rows."""
    table = run.sql("""
        select model, dataset, scene, "user", rank, category, score, box, mask, ground_truth
        from rows order by model, dataset, "user", scene, rank
    """)
    names = dataset_names(run.plan.datasets)
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        dataset = names.get(row["dataset"], row["dataset"])
        groups.setdefault((row["model"], dataset, row["user"]), []).append(row)
    return [_scored(key, rows) for key, rows in groups.items()]


def _scored(key: tuple[str, str, str], rows: Sequence[Mapping[str, Any]]) -> Scored:
    ground_truths: list[DetectionGroundTruth] = []
    scenes: list[str] = []
    found = []
    for row in rows:
        if row["rank"] == 0:
            scenes.append(row["scene"])
            ground_truths.append(DetectionGroundTruth.from_json(row["ground_truth"]))
            continue
        size = ground_truths[-1].shape
        found.append(
            {
                "image_id": ground_truths[-1].image,
                "category_id": row["category"],
                "score": row["score"],
                "bbox": json.loads(row["box"]),
                "segmentation": {"size": list(size), "counts": row["mask"]},
            }
        )
    return Scored(*key, tuple(ground_truths), tuple(found), tuple(scenes))


def summary(run: Results) -> list[SummaryRow]:
    """Every number with its interval, in every protocol."""
    return [row for s in scored(run) for row in summary_of(s, run.plan.protocols)]


def summary_of(group: Scored, protocols: Sequence[ProtocolName]) -> list[SummaryRow]:
    rows = []
    quality = _quality(group)
    for protocol in protocols:
        for name, (value, low, high) in (_precision(group, protocol) | quality).items():
            who = (group.model, group.dataset, group.source, protocol)
            many = sum(not o.crowd for t in group.ground_truths for o in t.objects)
            rows.append(SummaryRow(*who, name, value, low, high, many))
    return rows


Number = tuple[float, float, float]


def _precision(group: Scored, protocol: ProtocolName) -> dict[str, Number]:
    """AP of masks, boundaries and boxes in percent, with limits from resampled images."""
    made: dict[str, Number] = {}
    for prefix, kind in _KINDS.items():
        # One image says nothing about others: no interval.
        draws = group.resampled(kind, protocol) if len(group.ground_truths) > 1 else {}
        for name, value in _values(group, kind, protocol).items():
            drawn = draws.get(name)
            made[f"{prefix}{name}"] = (100 * value, *_limits(drawn))
    return {name: number for name, number in made.items() if not np.isnan(number[0])}


def _values(group: Scored, kind: Kind, protocol: ProtocolName) -> dict[str, float]:
    """By the library for masks and boxes, by our matching for boundaries."""
    if kind == "boundary":
        found = matched_scores(group.cells(kind), group.rules(kind), protocol)
        return {name: value for name, value in found.items() if name.startswith("ap")}
    if group.federated:
        return lvis_scores(group.ground_truth, group.found, kind, protocol)
    return coco_scores(group.ground_truth, group.found, kind, protocol)


def _limits(drawn: Floats | None) -> tuple[float, float]:
    known = np.zeros(0) if drawn is None else drawn[~np.isnan(drawn)]
    if not known.size:
        return np.nan, np.nan
    low, high = np.quantile(100 * known, [0.025, 0.975])
    return float(low), float(high)


def _quality(group: Scored) -> dict[str, Number]:
    """Mean mask IoU and boundary IoU of objects whose box is found, and the share of these."""
    ious, boundaries, images = [], [], []
    for ground_truth in group.ground_truths:
        mine = [d for d in group.found if d["image_id"] == ground_truth.image]
        for thing, place in _pairs(ground_truth, mine):
            mask = Mask.from_coco(mine[place]["segmentation"])
            ious.append(iou(ground_truth.objects[thing].mask, mask, None))
            boundaries.append(boundary_iou(ground_truth.objects[thing].mask, mask, None))
            images.append(ground_truth.image)
    if not ious:
        return {}
    drawn = Resampling(images, seed=group.dataset)
    many = sum(not o.crowd for t in group.ground_truths for o in t.objects)
    made = {"boxes-found": (100 * len(ious) / many, np.nan, np.nan)}
    for name, values in (("mask-iou", ious), ("mask-boundary-iou", boundaries)):
        interval = drawn.interval(100 * np.array(values))
        made[name] = (interval.value, interval.low, interval.high)
    return made


def splittable(run: Results) -> Splittable:
    """Every object's IoU with the mask whose box found it, 0 where none did; class and size.

    An object's target is its number in its image, from 1 on.
    """
    found, said = [], {}
    for group in scored(run):
        keys, values = [], []
        for scene, ground_truth in zip(group.scenes, group.ground_truths, strict=True):
            names = {category.id: category.name for category in ground_truth.categories}
            taken = _overlaps(
                ground_truth, [d for d in group.found if d["image_id"] == ground_truth.image]
            )
            for number, thing in enumerate(ground_truth.objects, start=1):
                if thing.crowd:
                    continue
                keys.append((scene, str(number)))
                values.append(taken.get(number - 1, 0.0))
                said[group.dataset, scene, str(number)] = {
                    "class": names.get(thing.category, ""),
                    "size": _extent(thing.area),
                }
        column = np.array(values, dtype=np.float64).reshape(-1, 1)
        images = tuple(scene for scene, _ in keys)
        who = (group.model, group.dataset, group.source)
        found += [Curves(*who, r, tuple(keys), images, column) for r in run.plan.protocols]
    return Splittable(tuple(found), said, "mean IoU of objects", (1,))


def _overlaps(
    ground_truth: DetectionGroundTruth, found: Sequence[Mapping[str, Any]]
) -> dict[int, float]:
    return {
        thing: iou(
            ground_truth.objects[thing].mask, Mask.from_coco(found[place]["segmentation"]), None
        )
        for thing, place in _pairs(ground_truth, found)
    }


def _extent(area: float) -> str:
    return next(
        name
        for name, (low, high) in size_ranges("corrected").items()
        if name != "all" and low <= area < high
    )


def _pairs(
    ground_truth: DetectionGroundTruth, found: Sequence[Mapping[str, Any]]
) -> list[tuple[int, int]]:
    """Ground truths and the detections that take them by their boxes, as COCO matches at 0.5."""
    pairs: list[tuple[int, int]] = []
    for category in sorted({o.category for o in ground_truth.objects}):
        things = [
            k for k, o in enumerate(ground_truth.objects) if o.category == category and not o.crowd
        ]
        mine = [k for k, d in enumerate(found) if d["category_id"] == category]
        mine.sort(key=lambda k: -found[k]["score"])
        free = set(things)
        for place in mine:
            overlaps = {
                k: _box_iou(ground_truth.objects[k].box, found[place]["bbox"]) for k in free
            }
            best = max(overlaps, key=lambda k: (overlaps[k], k), default=None)
            if best is not None and overlaps[best] >= 0.5:
                free.discard(best)
                pairs.append((best, place))
    return pairs


def _box_iou(one: Sequence[float], other: Sequence[float]) -> float:
    wide = min(one[0] + one[2], other[0] + other[2]) - max(one[0], other[0])
    high = min(one[1] + one[3], other[1] + other[3]) - max(one[1], other[1])
    both = max(0.0, wide) * max(0.0, high)
    whole = one[2] * one[3] + other[2] * other[3] - both
    return both / whole if whole > 0 else 0.0


def differences(run: Results) -> list[Difference]:
    """Pairs of models on the same boxes: AP on the same resampled images, Holm-corrected."""
    return differences_of(scored(run), run.plan.protocols)


def differences_of(groups: Sequence[Scored], protocols: Sequence[ProtocolName]) -> list[Difference]:
    places: dict[tuple[str, str], list[Scored]] = {}
    for group in groups:
        places.setdefault((group.dataset, group.source), []).append(group)
    return [
        found
        for members in places.values()
        for protocol in protocols
        for measure in ("ap", "boundary-ap")
        for found in _compared(members, protocol, measure)
    ]


def _compared(members: Sequence[Scored], protocol: ProtocolName, measure: str) -> list[Difference]:
    kind: Kind = "boundary" if measure == "boundary-ap" else "segm"
    pairs = list(combinations(members, 2))
    if not pairs:
        return []
    draws = {m.model: 100 * m.resampled(kind, protocol)["ap"] for m in members}
    values = {m.model: 100 * _values(m, kind, protocol)["ap"] for m in members}
    gaps = [draws[a.model] - draws[b.model] for a, b in pairs]
    p_values = [_p(gap) for gap in gaps]
    made = []
    for (a, b), gap, p, p_holm in zip(pairs, gaps, p_values, holm(p_values), strict=True):
        low, high = np.nanquantile(gap, [0.025, 0.975])
        many = sum(not o.crowd for t in a.ground_truths for o in t.objects)
        where = (a.model, b.model, a.dataset, a.source, protocol, measure)
        value = values[a.model] - values[b.model]
        made.append(Difference(*where, value, float(low), float(high), p, p_holm, many))
    return made


def _p(gaps: Floats) -> float:
    """Two-sided p of no difference by resampled images; what was seen counts as one."""
    known = gaps[~np.isnan(gaps)]
    tail = min(int((known <= 0).sum()), int((known >= 0).sum()))
    return min(1.0, 2 * (1 + tail) / (1 + known.size))

"""Masks that exist: predictions of any program scored against ground truth, without prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.declared import Declared
from segmeter.benchmarks.sessions import target_columns
from segmeter.benchmarks.starts import paired
from segmeter.core import catalogue
from segmeter.core.benchmarks import Group, Results, Row, RunOption
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.plans import Plan
from segmeter.core.rows import JOB_KEY, SESSION_ROWS, Column, Schema, measure_column
from segmeter.core.scenes import Scene
from segmeter.core.sections import Section
from segmeter.core.tables import Tables, load_tables
from segmeter.datasets.coco_json import CocoImage
from segmeter.datasets.label_files import PredictedObjects, Predictions
from segmeter.measures.instances import (
    mean_segmentation_accuracy,
    panoptic_quality,
    splits_and_merges,
)
from segmeter.stats.intervals import Floats, Interval
from segmeter.stats.statistics import Better, Statistic, cards_by_name, percentiles, resampling

_PER_IMAGE: Mapping[str, tuple[str, Better]] = {
    "msa": ("mean segmentation accuracy", "higher"),
    "pq": ("PQ", "higher"),
    "sq": ("SQ", "higher"),
    "rq": ("RQ", "higher"),
    "split_objects": ("split objects", "lower"),
    "merged_predictions": ("merged predictions", "lower"),
    "missed": ("missed objects", "lower"),
    "spurious": ("spurious predictions", "lower"),
}
_TARGET = ("target", "cluster", "label", "groups", "area", "outline_px", "shape")

MASK_ROWS = Schema(
    "masks",
    (
        *(c for c in SESSION_ROWS.columns if c.name in (*JOB_KEY, "protocol", *_TARGET)),
        *(Column(name, "number", f"{title}, of the whole image or volume")
          for name, (title, _) in _PER_IMAGE.items()),
        Column("predicted", "integer", "pixels or voxels of the prediction"),
        Column("mask", "text", "run lengths of the prediction"),
    ),
    (*JOB_KEY, "target"),
)  # fmt: skip
"""One row for each object."""


@dataclass(frozen=True, slots=True)
class Scored(Group):
    """Measures of a group, `(objects,)` by measure."""

    values: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class ScoredImages(Group):
    """Measures of whole images, `(images,)` by measure."""

    values: Mapping[str, Floats]


@catalogue.benchmarks.add("masks", summary="masks that exist against ground truth ('score')")
@dataclass(frozen=True, slots=True)
class Masks(Declared):
    """Scores of masks: per object, and of instances per image."""

    name: str = "masks"
    schema: ClassVar[Schema] = MASK_ROWS
    measures: ClassVar[tuple[str, ...]] = (
        "dice", "iou", "boundary-iou", "nsd", "hd95", "touch-up", "added-path"
    )  # fmt: skip
    headline: ClassVar[tuple[str, ...]] = ("dice", "iou", "nsd", "hd95", "touch-up", "pq")
    split_by: ClassVar[tuple[str, ...]] = ("dice", "iou", "nsd", "touch-up", "added-path")
    citations: ClassVar[Mapping[str, str]] = {
        "PQ": "kirillov2019",
        "added path length": "vaassen2020",
    }
    options: ClassVar[tuple[RunOption, ...]] = (
        RunOption("instances", bool, False, "Match objects by overlap, not by their labels."),
        RunOption("nsd_mm", str, "2", "Tolerance of NSD in mm, as 2 or 2,spleen=1."),
        RunOption("convention", str, "surface", "How surfaces are measured: surface or monai."),
    )

    def plan(self, plan: Plan) -> Plan:
        asked = plan.measures
        filled = self.filled(replace(plan, rounds=1, protocols=("corrected",)))
        return replace(filled, measures=tuple(asked) or filled.measures)

    def work(self, segmenter: Any, scene: Scene, plan: Plan) -> list[Row]:
        if not isinstance(segmenter, Predictions):
            raise BadInput(f"'{segmenter.card.name}' is no folder of masks: use 'segmeter score'")
        found = segmenter.encode(scene)
        judge, whole = self.judge(plan, scene), _of_image(scene, found.labels)
        rows = []
        for target, mask in zip(scene.targets, _predicted(scene, found, plan), strict=True):
            rows.append(
                target_columns(scene, target)
                | judge(target, mask)
                | whole
                | {"protocol": "corrected", "predicted": mask.area, "mask": mask.encoded()}
            )
        return rows

    def load(self, run: Results) -> Sequence[Group]:
        names = {name: measure_column(name) for name in run.plan.measures}
        by = ("model", "dataset", "protocol")
        objects = load_tables(run, [], facts=list(names.values()), axis="target", by=by)
        images = load_tables(run, [], facts=list(_PER_IMAGE), axis="target", by=by, unit=("scene",))
        own = {name: name for name in _PER_IMAGE}
        return [
            *(_scored(Scored, t, names) for t in objects),
            *(_scored(ScoredImages, t, own) for t in images),
        ]

    def statistics(self, run: Results) -> Sequence[Statistic]:
        made = [_statistic(name) for name in run.plan.measures]
        return [*made, *(_image_statistic(n, *about) for n, about in _PER_IMAGE.items())]

    def sections(self, run: Results) -> Sequence[Section]:
        from segmeter.benchmarks.report_parts import headline_sections

        cards = cards_by_name(self.statistics(run))
        return headline_sections(list(cards), cards, self.summary(run), self.differences(run))


def _scored(
    kind: type[Scored] | type[ScoredImages], tables: Tables, columns: Mapping[str, str]
) -> Group:
    values = {name: tables.numbers(column) for name, column in columns.items()}
    return kind(*tables.key, tables.keys, tables.clusters, values)


def _predicted(scene: Scene, found: PredictedObjects, plan: Plan) -> list[Mask]:
    """The prediction of each target: of its label, all that is not 0 for a single object, or with
    `instances` and for detections the partner in the matching of the largest total IoU."""
    if plan.options.get("instances") or isinstance(scene, CocoImage):
        return paired(scene.targets, found.masks, found.classes)
    if len(scene.targets) == 1:
        return [Mask.of(found.labels != 0)]
    return [Mask.of(found.labels == int(target.id)) for target in scene.targets]


def _of_image(scene: Scene, labels: npt.NDArray[Any]) -> Row:
    truth = np.zeros(scene.shape, np.int32)
    for number, target in enumerate(scene.targets, 1):
        truth[target.mask.dense()] = number
    quality, counts = panoptic_quality(truth, labels), splits_and_merges(truth, labels)
    every = asdict(counts) | {"pq": quality.pq, "sq": quality.sq, "rq": quality.rq}
    every["msa"] = mean_segmentation_accuracy(truth, labels)
    return {name: float(every[name]) for name in _PER_IMAGE}


def _statistic(name: str) -> Statistic:
    """A measure over objects: shares as means in percent, others as medians."""
    card = catalogue.measures.make(name)
    share = card.range == (0, 1)

    def values(group: Scored) -> Floats:
        return group.values[name]

    if share:
        return Statistic(name, name, "%", 1, card.better, True, values, of=Scored, tested="yes")
    return Statistic(
        name, name, "median", 2, card.better, values=values, interval=_median, of=Scored,
        paired=lambda g: np.where(np.isfinite(g.values[name]), g.values[name], np.nan),
    )  # fmt: skip


def _median(group: Group, values: Floats) -> Interval | None:
    """The median: one empty mask is infinitely far, and would make any mean infinite."""
    if np.isnan(values).any():
        return None
    drawn = resampling(group, 1000)
    draws = [np.median(values[lines]) for lines in drawn.drawn()] if drawn.clusters > 1 else []
    return percentiles(float(np.median(values)), np.array(draws))


def _image_statistic(name: str, title: str, better: Better) -> Statistic:
    share = name in ("msa", "pq", "sq", "rq")

    def values(group: ScoredImages) -> Floats:
        return group.values[name]

    known: Callable[[Any, Floats], Interval | None] = lambda g, v: (  # noqa: E731
        None if np.isnan(v).any() else resampling(g).interval(v)
    )
    unit = "% per image" if share else "per image"
    return Statistic(
        name.replace("_", "-"), title, unit, 1 if share else 2, better, share, values, known,
        of=ScoredImages,
    )  # fmt: skip

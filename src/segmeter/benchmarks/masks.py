"""Masks from another tool, scored against ground truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.declared import Declared
from segmeter.core import catalogue
from segmeter.core.benchmarks import FEWEST_PATIENTS, Group, Results, Row, RunOption, once_per_run
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.plans import Plan
from segmeter.core.rows import JOB_KEY, SESSION_ROWS, Column, Schema, measure_column
from segmeter.core.scenes import Scene
from segmeter.core.scores_by_step import Tables
from segmeter.core.sections import Section
from segmeter.datasets.coco_json import CocoImage
from segmeter.datasets.label_files import PredictedObjects, Predictions
from segmeter.measures import instances
from segmeter.stats.intervals import Floats, Interval, percentiles
from segmeter.stats.statistics import Better, Statistic, resampling
from segmeter.users.simulation import mask_of, target_columns
from segmeter.users.starts import paired

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
_WORST = 8
_TARGET = ("target", "cluster", "label", "groups", "area", "outline_px", "contour_px", "shape")

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


class Scored(Tables):
    """Measures of objects, a fact each."""


class ScoredImages(Tables):
    """Measures of whole images."""


@catalogue.benchmarks.add("masks", summary="masks from another tool against ground truth ('score')")
class Masks(Declared):
    """Scores of masks: per object, and of instances per image."""

    name = "masks"
    evaluates = ()  # only `segmeter score` runs it
    schema = MASK_ROWS
    measures = ("dice", "iou", "boundary-iou", "nsd", "hd95", "touch-up", "added-path")
    headline = ("dice", "iou", "nsd", "hd95", "touch-up", "pq")
    split_by = ("dice", "iou", "nsd", "touch-up", "added-path")
    citations: ClassVar[Mapping[str, str]] = {
        "PQ": "kirillov2019",
        "added path length": "vaassen2020",
    }
    options = (
        RunOption("instances", bool, False, "Match objects by overlap, not by their labels."),
        RunOption("nsd_mm", str, "2", "Tolerance of NSD in mm, as 2 or 2,spleen=1."),
        RunOption("convention", str, "surface", "How surfaces are measured: surface or monai."),
    )

    def plan(self, plan: Plan) -> Plan:
        asked = plan.measures
        filled = super().plan(replace(plan, protocols=("corrected",)))
        return replace(filled, measures=tuple(asked) or filled.measures)

    def work(self, segmenter: Any, scene: Scene, plan: Plan) -> list[Row]:
        if not isinstance(segmenter, Predictions):
            raise BadInput(
                f"'{segmenter.card.name}' is not a folder of masks: use 'segmeter score'"
            )
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
        columns, of_images = list(map(measure_column, run.plan.measures)), list(_PER_IMAGE)
        where: dict[str, Any] = {"axis": "target", "by": ("model", "dataset", "protocol")}
        images = ScoredImages.load(run, [], facts=of_images, unit=("scene",), **where)
        return [*Scored.load(run, [], facts=columns, **where), *images]

    def statistics(self, run: Results) -> Sequence[Statistic]:
        query = "select max(len(shape)) as axes from rows"
        (found,) = once_per_run(run, "axes", lambda: run.sql(query).to_pylist())
        made = [_statistic(name, found["axes"] == 3) for name in run.plan.measures]
        made += [_image_statistic(n, *about) for n, about in _PER_IMAGE.items()]
        return [replace(s, fewest=FEWEST_PATIENTS) for s in made] if found["axes"] == 3 else made

    def sections(self, run: Results) -> Sequence[Section]:
        from segmeter.analysis import report_parts as parts

        findings = parts.Findings(run)
        rows = [replace(row, protocol="") for row in findings.rows]  # there is one only
        measures = [name for name in findings.cards if name in run.plan.measures]
        results, *others = parts.headline_sections(findings, measures, rows)
        columns = {
            name: replace(parts.column_of(card), unit="%" if card.percent else "")
            for name, card in findings.cards.items()
            if name not in measures
        }
        note = "Means per image; 95 % intervals over images."
        images = parts.summary_table("images", rows, columns, note=note)
        worst = _worst_masks(run, findings.groups(Scored))
        return [results, *worst, *others, Section("Whole images", "", [images])]


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
    quality = instances.panoptic_quality(truth, labels)
    every = asdict(instances.splits_and_merges(truth, labels))
    every |= {"pq": quality.pq, "sq": quality.sq, "rq": quality.rq}
    every["msa"] = instances.mean_segmentation_accuracy(truth, labels)
    return {name: float(every[name]) for name in _PER_IMAGE}


def _worst_masks(run: Results, groups: Sequence[Scored]) -> list[Section]:
    """The objects of the lowest IoU or Dice over all predictions, with their images."""
    from segmeter.analysis.report_cases import available_cases
    from segmeter.core.sections import Gallery, Note

    by = next((name for name in ("iou", "dice") if name in run.plan.measures), "")
    ranked = sorted(
        (float(value), key, place)
        for place, group in enumerate(groups if by else ())
        for key, value in zip(group.keys, group.numbers(by), strict=True)
    )[:_WORST]
    if not ranked:
        return []
    places = [(groups[place].dataset, key) for _, key, place in ranked]
    cases, why = available_cases(run, places)
    if why:
        return [Section("Worst masks", "", [Note(f"They cannot be shown: {why}", "warning")])]
    images = []
    for case, (value, key, place) in zip(cases, ranked, strict=True):
        group, (scene, target) = groups[place], key
        rows = run.job_rows(group.model, group.dataset, scene)
        mask = mask_of(next(row for row in rows if row["target"] == target), case.scene.shape)
        caption = f"**{case.title}**\n{group.model}: {by} {100 * value:.1f} %"
        alt = f"{case.title} with the ground truth and the mask of {group.model}"
        images.append(case.drawn(caption, alt, mask=mask, name=group.model))
    text = "Dashed: the ground truth. Filled: the prediction. `segmeter browse` shows all objects."
    return [Section("Worst masks", "", [Gallery(images, text)])]


def _statistic(name: str, in_volumes: bool) -> Statistic:
    """A measure over objects: shares as means in percent, others as medians in their unit."""
    card = catalogue.measures.make(name)

    def values(group: Scored) -> Floats:
        return group.numbers(measure_column(name))

    made = partial(Statistic, name, name, values=values, of=Scored)
    if card.range == (0, 1):
        return made("%", 1, card.better, True, tested="yes")
    unit = ", ".join(filter(None, (card.units[in_volumes], "median")))
    return made(unit, 2, card.better, interval=_median)


def _median(group: Group, values: Floats) -> Interval | None:
    """The median: one empty mask is infinitely far, and would make any mean infinite."""
    if np.isnan(values).any():
        return None
    drawn = resampling(group, 1000)
    return percentiles(float(np.median(values)), drawn.quantiles(values, 0.5), drawn.clusters)


def _image_statistic(name: str, title: str, better: Better) -> Statistic:
    share = name in ("msa", "pq", "sq", "rq")
    unit = "% per image" if share else "per image"
    values: Callable[[ScoredImages], Floats] = lambda g: g.numbers(name)  # noqa: E731
    return Statistic(
        name.replace("_", "-"), title, unit, 1 if share else 2, better, share, values,
        of=ScoredImages, paired=values,
    )  # fmt: skip

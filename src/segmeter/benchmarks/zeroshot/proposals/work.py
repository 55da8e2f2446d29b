"""One job of the benchmark: the masks of one image, ranked, and the objects among them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.zeroshot import annotations_of
from segmeter.core.benchmarks import Row
from segmeter.core.detection_ground_truth import DetectionGroundTruth
from segmeter.core.masks import Mask
from segmeter.core.models import Model, ProtocolName
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene
from segmeter.core.seeds import generator
from segmeter.measures.detections import size_ranges
from segmeter.measures.proposals import Recalled, recalled
from segmeter.models.automatic.candidates import Kept, crop_candidates
from segmeter.models.automatic.options import Crop, Options
from segmeter.models.automatic.regions import suppress_boxes

FREQUENCIES = {"frequent": "f", "common": "c", "rare": "r"}
_EVERYTHING = 2.0  # a cover that no mask reaches


def work(model: Model, scene: Scene, plan: Plan) -> list[Row]:
    """All rows of an image, encoded once; the plan's seed draws the order of single outputs."""
    ground_truth = annotations_of(scene)
    most, nms, output = (plan.options[name] for name in ("most", "nms", "output"))
    height, width = scene.shape
    options = Options(
        points=plan.options["points"],
        score=0.0,
        stability=0.0,
        box_nms=nms,
        covers=_EVERYTHING,
        output=output,
    )
    started = time.perf_counter()
    crop = Crop(0, 0, width, height)
    kept = crop_candidates(model, scene, crop, options, compact=True)
    looked = time.perf_counter() - started
    rows: list[Row] = []
    drawn = None
    if output == "single":
        drawn = generator(plan.seed, scene.dataset, scene.id, "single output").random(len(kept))
    for protocol in plan.protocols:
        best = kept.take(ranked(kept, nms, most, protocol, drawn))
        masks = best.masks((height, width))
        head = {"protocol": protocol, "proposals": len(masks), "cluster": scene.id}
        for group, found in groups_of(ground_truth, masks, most, protocol).items():
            rows += [
                head
                | {
                    "objects_of": group,
                    "number": number,
                    "objects": found.objects,
                    "matched": matched.tolist(),
                    "recall": float(recall) if found.objects else None,
                    "seconds_encode": looked,
                }
                for number, matched, recall in zip(
                    found.numbers, found.matched, found.average_recall, strict=True
                )
            ]
    return rows


def ranked(
    kept: Kept,
    nms: float,
    most: int,
    protocol: ProtocolName = "published",
    drawn: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.intp]:
    """The proposals among candidates, best first by the mean of score and stability.

    Boxes are suppressed by score, or by `drawn` numbers. Ties keep the order of that
    suppression; empty masks, whose stability is not a number, come last as published and are left
    out when corrected.
    """
    filled = np.arange(len(kept))
    if protocol == "corrected":
        filled = np.flatnonzero(~np.isnan(kept.stability))
    first = kept.scores if drawn is None else drawn
    stays = filled[suppress_boxes(kept.boxes[filled], first[filled], nms, protocol)]
    means = (kept.scores[stays].astype(np.float64) + kept.stability[stays]) / 2
    order = np.argsort(np.where(np.isnan(means), np.inf, -means), kind="stable")
    return stays[order][:most]


def groups_of(
    ground_truth: DetectionGroundTruth,
    proposals: Sequence[Mask],
    most: int,
    protocol: ProtocolName = "published",
) -> dict[str, Recalled]:
    """Recall of all objects by proposals, by size and by the frequency of their class.

    Crowd flags are ignored. Of LVIS's classes those that an image was not searched for
    make no difference to recall: every proposal counts.
    """
    objects = sorted(ground_truth.objects, key=lambda thing: thing.category)
    numbers = (*(n for n in (10, 100, 1000) if n < most), most)
    letters = {category.id: category.frequency for category in ground_truth.categories}
    sizes = size_ranges(protocol)
    asked = [(objects, sizes)]
    if any(letters.values()):
        for name, letter in FREQUENCIES.items():
            mine = [thing for thing in objects if letters.get(thing.category) == letter]
            asked.append((mine, {name: sizes["all"]}))
    found: dict[str, Recalled] = {}
    for some, limits in asked:
        masks, areas = [thing.mask for thing in some], [thing.area for thing in some]
        found |= recalled(masks, proposals, numbers=numbers, areas=areas, sizes=limits)
    return found

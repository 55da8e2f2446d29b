"""Judging masks: the scores of a prediction by named measures, for images and volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.measures import mask_measure
from segmeter.core.morphology import fill_ignored
from segmeter.core.rows import measure_column
from segmeter.core.scenes import Target
from segmeter.core.sessions import Judge, Scores

SURFACE_MEASURES = ("nsd", "hd95", "mean-surface-distance")
"""Measures of surfaces in millimetres, all taken from one pair of distance maps."""


@dataclass(frozen=True, slots=True)
class Surfaces:
    """How surfaces of volumes are measured.

    The convention `surface` weighs surface elements by their area (DeepMind's surface-distance);
    `monai` counts outermost voxels, as MONAI does.
    """

    nsd_mm: str = "2"  # tolerance of NSD, one for all or by organ: `2` or `2,spleen=1,liver=3`
    convention: str = "surface"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Surfaces:
        """From the options of a plan, checked."""
        made = cls(options.get("nsd_mm", "2"), options.get("convention", "surface"))
        made.tolerance("")
        return made

    def tolerance(self, organ: str) -> float:
        """Millimetres for an organ."""
        found = 2.0
        for part in self.nsd_mm.split(","):
            name, _, value = part.rpartition("=")
            try:
                number = float(value)
            except ValueError:
                number = -1.0
            if not number >= 0:
                raise BadInput(f"option 'nsd_mm' is 2 or 2,spleen=1,liver=3, not '{self.nsd_mm}'")
            if not name or name.strip().casefold() == organ.casefold():
                found = number
        return found

    def scores(self, truth: Mask, mask: Mask, spacing: Sequence[float], organ: str) -> Scores:
        """NSD, HD95 and mean surface distance of two masks that are not empty."""
        from segmeter.measures.surfaces import surface_distances, voxel_surface_distances

        if self.convention == "surface":
            found = surface_distances(truth, mask, spacing)
            hd95, mean = found.percentile(95), found.mean()
        else:
            found = voxel_surface_distances(truth, mask, spacing)
            ways = (found.ground_truth_mm, found.prediction_mm)
            hd95 = max(float(np.percentile(way, 95)) for way in ways)
            mean = float(np.concatenate(ways).mean())
        near = found.within(self.tolerance(organ))
        return {"nsd": near, "hd95": hd95, "mean-surface-distance": mean}


def judge_by(
    measures: Sequence[str],
    spacing_mm: Sequence[float] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Judge:
    """A judge that scores masks by the named measures, by column (`_` for `-`).

    `options` are those of the plan: how surfaces of volumes are measured. The surfaces of a mask
    are measured once for all measures of them.

    >>> whole, half = Mask.box((4, 4), (0, 0), (4, 4)), Mask.box((4, 4), (0, 0), (4, 2))
    >>> judge_by(["iou", "dice"])(Target("1", whole), half)
    {'iou': 0.5, 'dice': 0.666...}
    """
    spacing = spacing_mm or (1.0, 1.0, 1.0)
    made = {n: mask_measure(n, spacing_mm) for n in measures if n not in SURFACE_MEASURES}
    cards = {n: catalogue.measures.make(n) for n in measures if n in SURFACE_MEASURES}
    surfaces = Surfaces.of(options or {})

    def judge(target: Target, mask: Mask) -> dict[str, float]:
        scores = {measure_column(m.id): m(target.mask, mask, target.ignore) for m in made.values()}
        if not cards:
            return scores
        truth, prediction = (fill_ignored(m, target.ignore, spacing) for m in (target.mask, mask))
        both = bool(truth) and bool(prediction)
        found = surfaces.scores(truth, prediction, spacing, target.label) if both else {}
        empty = not truth and not prediction
        for name, card in cards.items():
            missing = card.both_empty if empty else card.one_empty
            scores[measure_column(name)] = found.get(name, missing)
        return scores

    return judge

"""Scores of a mask of a volume: overlap, and surfaces in millimetres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from segmeter.core import catalogue
from segmeter.core.errors import BadInput, check_choice
from segmeter.core.masks import Mask
from segmeter.core.measures import Measure
from segmeter.core.scenes import Target
from segmeter.core.sessions import Judge, Scores
from segmeter.measures.surfaces import surface_distances, voxel_surface_distances

__all__ = ["MEASURES", "Surfaces", "check_measures", "judge_volume"]

_OVERLAP = ("dice", "iou", "precision", "recall")
_SURFACE = ("nsd", "hd95", "mean-surface-distance")
MEASURES = (*_OVERLAP, *_SURFACE)
"""Measures of volumes."""


def check_measures(names: Sequence[str]) -> None:
    """Refuse a measure that is none of volumes."""
    for name in names:
        if name not in MEASURES:
            catalogue.measures.entry(name)  # refuses a name that is none, with a suggestion
            raise BadInput(f"measure '{name}' does not score volumes; {', '.join(MEASURES)} do")


@dataclass(frozen=True, slots=True)
class Surfaces:
    """How surfaces are measured.

    Attributes
    ----------
    nsd_mm
        Tolerance of NSD, one for all or by organ: `2` or `2,spleen=1,liver=3`.
    convention
        `surface` weighs surface elements by their area (DeepMind's surface-distance); `monai`
        counts outermost voxels, as MONAI does.
    """

    nsd_mm: str = "2"
    convention: str = "surface"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Surfaces:
        """From the settings of a plan, checked."""
        made = cls(str(options.get("nsd_mm", "2")), str(options.get("convention", "surface")))
        check_choice("convention", made.convention, ["surface", "monai"])
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
                raise BadInput(f"--option nsd_mm={self.nsd_mm}: write 2 or 2,spleen=1,liver=3")
            if not name or name.strip().casefold() == organ.casefold():
                found = number
        return found

    def scores(self, truth: Mask, mask: Mask, spacing: Sequence[float], organ: str) -> Scores:
        """NSD, HD95 and mean surface distance of two masks that are not empty."""
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


def judge_volume(
    measures: Sequence[str],
    spacing_mm: Sequence[float] | None,
    surfaces: Surfaces = Surfaces(),  # noqa: B008  it cannot change
) -> Judge:
    """A judge by the named measures; the surfaces of a mask are measured once for all."""
    spacing = spacing_mm or (1.0, 1.0, 1.0)
    made: dict[str, Measure[[Mask, Mask, Mask | None]]] = {
        name: catalogue.measures.make(name) for name in measures if name in _OVERLAP
    }
    cards = {name: catalogue.measures.make(name) for name in measures if name in _SURFACE}

    def judge(target: Target, mask: Mask) -> dict[str, float]:
        scores = {name: m(target.mask, mask, target.ignore) for name, m in made.items()}
        if not cards:
            return scores
        ground_truth, prediction = _judged(target, mask)
        both = bool(ground_truth) and bool(prediction)
        found = surfaces.scores(ground_truth, prediction, spacing, target.label) if both else {}
        empty = not ground_truth and not prediction
        for name, card in cards.items():
            missing = card.both_empty if empty else card.one_empty
            scores[name.replace("-", "_")] = found.get(name, missing)
        return scores

    return judge


def _judged(target: Target, mask: Mask) -> tuple[Mask, Mask]:
    """Target and mask without voxels that are not judged."""
    if target.ignore is None:
        return target.mask, mask
    return target.mask - target.ignore, mask - target.ignore

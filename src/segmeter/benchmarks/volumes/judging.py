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
from segmeter.measures.objects import dice
from segmeter.measures.surfaces import surface_distances, voxel_surface_distances

__all__ = [
    "MEASURES",
    "Surfaces",
    "case_dice",
    "check_measures",
    "judge_volume",
    "published_case_dice",
    "published_entries",
]

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


def case_dice(ground_truths: Sequence[Mask], predictions: Sequence[Mask]) -> float:
    """Mean Dice of pairs; an empty prediction scores 0, a pair of empty masks is not counted."""
    pairs = [(t, g) for t, g in zip(ground_truths, predictions, strict=True) if t or g]
    return float(np.mean([dice(t, g) for t, g in pairs])) if pairs else float("nan")


def published_case_dice(ground_truths: Sequence[Mask], predictions: Sequence[Mask]) -> float:
    """The original's `lw_dice` of a case: the mean of its entries.

    >>> one, two = Mask.box((9,), (0,), (3,)), Mask.box((9,), (4,), (7,))
    >>> published_case_dice([one, two], [one, Mask.box((9,), (7,), (9,))])
    0.333...
    >>> case_dice([one, two], [two, one]), published_case_dice([one, two], [two, one])
    (0.0, 1.0)
    """
    entries = published_entries(ground_truths, predictions)
    return float(np.mean(entries)) if entries else float("nan")


def published_entries(ground_truths: Sequence[Mask], predictions: Sequence[Mask]) -> list[float]:
    """Dice of predictions and ground truths after re-matching, best first.

    Which prompt made which mask is forgotten: the assignment with the largest sum of Dice
    counts. An unmatched prediction is an entry of 0, and so is a ground truth, so that a miss
    costs two. An empty prediction for the first instance is dropped, a later one is not.
    """
    from scipy.optimize import linear_sum_assignment

    kept = [g for i, g in enumerate(predictions) if g or i > 0]
    table = np.array([[_dice(t, g) for t in ground_truths] for g in kept]).reshape(
        len(kept), len(ground_truths)
    )
    rows, columns = linear_sum_assignment(table, maximize=True)
    matched = [float(table[r, c]) for r, c in zip(rows, columns, strict=True) if table[r, c] > 0]
    left = len(kept) + len(ground_truths) - 2 * len(matched)
    return sorted(matched, reverse=True) + [0.0] * left


def _dice(ground_truth: Mask, prediction: Mask) -> float:
    return dice(ground_truth, prediction) if ground_truth and prediction else 0.0

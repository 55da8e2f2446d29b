"""Scores of a mask of a volume: overlap, and surfaces in millimetres."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from segmeter.core import catalogue
from segmeter.core.errors import BadInput
from segmeter.core.masks import Mask
from segmeter.core.measures import Measure
from segmeter.core.scenes import Target
from segmeter.core.sessions import Judge
from segmeter.measures.surfaces import SurfaceDistances, surface_distances

__all__ = ["MEASURES", "check_measures", "judge_volume"]

_OVERLAP = ("dice", "iou", "precision", "recall")
_SURFACE: dict[str, Callable[[SurfaceDistances], float]] = {
    "nsd": lambda found: found.within(2.0),
    "hd95": lambda found: found.percentile(95),
    "mean-surface-distance": lambda found: found.mean(),
}
MEASURES = (*_OVERLAP, *_SURFACE)
"""What volumes can be scored by; nsd is at 2 mm."""


def check_measures(names: Sequence[str]) -> None:
    """Refuse a measure that is none of volumes."""
    for name in names:
        if name not in MEASURES:
            catalogue.measures.entry(name)  # refuses a name that is none, with a suggestion
            raise BadInput(f"measure '{name}' does not score volumes; {', '.join(MEASURES)} do")


def judge_volume(measures: Sequence[str], spacing_mm: Sequence[float] | None) -> Judge:
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
        found = (
            surface_distances(ground_truth, prediction, spacing)
            if ground_truth and prediction
            else None
        )
        for name, card in cards.items():
            column = name.replace("-", "_")
            if found is not None:
                scores[column] = _SURFACE[name](found)
            else:
                scores[column] = (
                    card.both_empty if not ground_truth and not prediction else card.one_empty
                )
        return scores

    return judge


def _judged(target: Target, mask: Mask) -> tuple[Mask, Mask]:
    """Target and mask without voxels that are not judged."""
    if target.ignore is None:
        return target.mask, mask
    return target.mask - target.ignore, mask - target.ignore

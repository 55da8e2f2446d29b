"""The region benchmark of BSDS500: covering, PRI and VoI over a sweep.

A method gives a partition at each of several settings. Covering is pooled: images with
more annotators weigh more. PRI and VoI are averaged over annotators, then over images.
ODS takes one setting for all images, OIS the best for each, and covering's *best* lets
every ground-truth region choose its own.

    Arbelaez, Maire, Fowlkes, Malik. Contour detection and hierarchical image segmentation.
    IEEE TPAMI 33(5), 2011.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from segmeter.core.errors import BadInput
from segmeter.measures.partitions import FORMULAS
from segmeter.measures.tables import Comparison, Real

__all__ = ["AtBest", "RegionCounts", "RegionSummary", "region_counts", "region_summary"]


@dataclass(frozen=True, slots=True)
class RegionCounts:
    """One image over a sweep; arrays have one value per setting.

    `covered` sums area times best J over the regions of all annotators, out of
    `coverable`; `prediction_covered` does so over the partition's regions, out of `pixels`.
    """

    covered: Real
    coverable: int
    prediction_covered: Real
    pixels: int
    best_covered: float
    pri: Real
    voi: Real


@dataclass(frozen=True, slots=True)
class AtBest:
    """A measure at one setting for all images (ODS, at `place`) and at each one's own (OIS)."""

    ods: float
    place: int
    ois: float


@dataclass(frozen=True, slots=True)
class RegionSummary:
    """A set's numbers; `best` is covering with a setting for every ground-truth region."""

    covering: AtBest
    best: float
    pri: AtBest
    voi: AtBest


def region_counts(sweep: Iterable[Comparison]) -> RegionCounts:
    """Counts of one image for the benchmark, from its comparisons at every setting.

    >>> from segmeter.measures.tables import compare
    >>> labels = np.array([[1, 1, 2, 2]] * 2)
    >>> type(region_counts([compare(labels, labels)])).__name__
    'RegionCounts'
    """
    covered, prediction_covered, pri, voi = [], [], [], []
    best: list[Real] = []
    areas: list[Real] = []
    pixels = 0
    for comparison in sweep:
        tables = comparison.tables
        overlaps = [t.best_by_column(t.overlap) for t in tables]
        areas, pixels = [t.ground_truth_areas.astype(np.float64) for t in tables], comparison.pixels
        best = [np.maximum(*pair) for pair in zip(best or overlaps, overlaps, strict=True)]
        covered.append(_weighted(areas, overlaps))
        any_ground_truth = np.maximum.reduce([t.best_by_row(t.overlap) for t in tables])
        prediction_covered.append(float(tables[0].prediction_areas @ any_ground_truth))
        pri.append(FORMULAS["pri"](comparison))
        voi.append(FORMULAS["voi"](comparison))
    if not covered:
        raise BadInput("a sweep needs at least one setting")
    return RegionCounts(
        covered=np.array(covered),
        coverable=len(areas) * pixels,
        prediction_covered=np.array(prediction_covered),
        pixels=pixels,
        best_covered=_weighted(areas, best),
        pri=np.array(pri),
        voi=np.array(voi),
    )


def region_summary(images: Sequence[RegionCounts]) -> RegionSummary:
    """ODS, OIS and best of a set of images with the same settings.

    >>> from segmeter.measures.tables import compare
    >>> labels = np.array([[1, 1, 2, 2]] * 2)
    >>> counts = region_counts([compare(labels, labels)])
    >>> region_summary([counts]).covering.ods
    1.0
    """
    if len({image.covered.size for image in images}) != 1:
        raise BadInput("the region benchmark needs images that share one list of settings")
    coverable = sum(image.coverable for image in images)
    covered = np.array([image.covered for image in images]) / coverable * len(images)
    return RegionSummary(
        covering=_at_best(covered),
        best=sum(image.best_covered for image in images) / coverable,
        pri=_at_best(np.array([image.pri for image in images])),
        voi=_lowest(np.array([image.voi for image in images])),
    )


def _at_best(values: Real) -> AtBest:
    """Largest mean over images, first setting on ties; and mean of each one's largest."""
    means = values.mean(axis=0)
    place = int(np.argmax(means))
    return AtBest(float(means[place]), place, float(values.max(axis=1).mean()))


def _lowest(values: Real) -> AtBest:
    found = _at_best(-values)
    return AtBest(-found.ods, found.place, -found.ois)


def _weighted(areas: Sequence[Real], overlaps: Sequence[Real]) -> float:
    return float(sum(a @ o for a, o in zip(areas, overlaps, strict=True)))

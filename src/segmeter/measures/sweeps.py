"""Sweeps: boundary counts of one image at every threshold of an edge map or a hierarchy.

Thresholds of a map are nested, so equal numbers of pixels mean equal maps, which are matched
once. Threads share the thresholds; the kernels run outside the interpreter's lock.

The region benchmark of BSDS500: covering, PRI and VoI over a sweep.

A method gives a partition at each of several settings. Covering is pooled: images with
more annotators weigh more. PRI and VoI are averaged over annotators, then over images.
Covering's *best* lets every ground-truth region choose its own setting.

    Arbelaez, Maire, Fowlkes, Malik. Contour detection and hierarchical image segmentation.
    IEEE TPAMI 33(5), 2011.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, check_choice
from segmeter.core.masks import Bits
from segmeter.measures.boundaries import BoundaryCounts, count_boundaries
from segmeter.measures.curves import Real, Rule
from segmeter.measures.hierarchies import check_contour_size
from segmeter.measures.matching import MAX_DIST
from segmeter.measures.outlines import Grid, Outline, outline, thin
from segmeter.measures.partitions import FORMULAS
from segmeter.measures.tables import Comparison, Labels

THRESHOLDS: Real = np.arange(1, 100) / 100
"""0.01, 0.02 .. 0.99, as the benchmarks have it."""

_SMALLEST = float(np.finfo(np.float64).eps)


def sweep_edge_map(
    ground_truths: Sequence[Outline],
    strengths: npt.NDArray[Any],
    thresholds: Sequence[float] | Real = THRESHOLDS,
    rule: Rule = "bench",
    max_dist: float = MAX_DIST,
    threads: int = 1,
) -> list[BoundaryCounts]:
    """Counts of an edge map, cut at each threshold and thinned, against ground truths.

    Parameters
    ----------
    ground truths
        Boundaries as people drew them, such as `boundaries.outlines(partitions)`.
    strengths
        `(H, W)`, stronger edges higher, usually 0 to 1. For a hierarchy give
        `contour_strengths` of its contour map.
    rule
        `bench` and `edges` keep what is at least the threshold, `seism` what is above it.

    >>> from segmeter.measures.boundaries import outlines
    >>> labels = np.array([[1, 1, 2, 2]] * 4)
    >>> len(sweep_edge_map(outlines(labels), np.zeros((4, 4)), [0.3, 0.6]))
    2
    """
    check_choice("rule", rule, get_args(Rule))
    if strengths.ndim != 2 or strengths.size == 0:
        size = " x ".join(map(str, strengths.shape))
        raise BadInput(f"an edge map is H x W, but this is {size or 'a single number'}")
    if strengths.dtype.kind not in "fiub" or not np.isfinite(strengths).all():
        raise BadInput("an edge map holds finite strengths; this one holds other values")

    def cut(threshold: float) -> Bits:
        if rule == "seism":
            return np.asarray(strengths > threshold)
        return np.asarray(strengths >= max(_SMALLEST, threshold))

    def count(threshold: float) -> BoundaryCounts:
        return count_boundaries(ground_truths, Outline.of(thin(cut(threshold))), max_dist)

    pixels = [int(np.count_nonzero(cut(t))) for t in thresholds]
    distinct = dict(zip(pixels, thresholds, strict=True))
    with ThreadPoolExecutor(max(1, threads)) as pool:
        counted = dict(zip(distinct, pool.map(count, distinct.values()), strict=True))
    return [counted[n] for n in pixels]


def sweep_partitions(
    ground_truths: Sequence[Outline],
    partitions: Iterable[Labels],
    grid: Grid = "pixel",
    max_dist: float = MAX_DIST,
    threads: int = 1,
) -> list[BoundaryCounts]:
    """Counts of a method's partitions, one a setting, against ground truths on the same grid.

    >>> from segmeter.measures.boundaries import outlines
    >>> labels = np.array([[1, 1, 2, 2]] * 4)
    >>> len(sweep_partitions(outlines(labels), [labels, labels]))
    2
    """

    def count(labels: Labels) -> BoundaryCounts:
        return count_boundaries(ground_truths, outline(labels, grid), max_dist)

    with ThreadPoolExecutor(max(1, threads)) as pool:
        return list(pool.map(count, partitions))


def contour_strengths(levels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The edge map of a hierarchy: at each pixel the strongest boundary to its right, below
    or around its lower-right corner.

    `levels` is an ultrametric contour map, `(2H + 1, 2W + 1)`. Cutting the result at t gives
    the boundaries of the partition at t.

    >>> contour_strengths(np.array([[0, 0, 0, 0, 0], [0, 0, .7, 0, 0], [0, 0, 0, 0, 0]]))
    array([[0.7, 0. ]])
    """
    check_contour_size(levels)
    strongest = levels[2::2, 2::2].copy()
    right, below = levels[1::2, 2:-1:2], levels[2:-1:2, 1::2]
    for part, lines in (
        (strongest[:, :-1], right),
        (strongest[:-1, :-1], right[1:]),
        (strongest[:-1], below),
        (strongest[:-1, :-1], below[:, 1:]),
    ):
        np.maximum(part, lines, out=part)
    return strongest


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


def _weighted(areas: Sequence[Real], overlaps: Sequence[Real]) -> float:
    return float(sum(a @ o for a, o in zip(areas, overlaps, strict=True)))

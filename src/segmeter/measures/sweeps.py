"""Sweeps: boundary counts of one image at every threshold of an edge map or a hierarchy.

Thresholds of a map are nested, so equal numbers of pixels mean equal maps, which are matched
once. Threads share the thresholds; the kernels run outside the interpreter's lock.

The region benchmark of BSDS500 also sweeps a method over its settings. Its covering is pooled:
images with more annotators weigh more. Covering's *best* lets every ground-truth region choose
its own setting.

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
from segmeter.measures.outlines import Outline, thin
from segmeter.measures.tables import Comparison

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
class Covering:
    """Covering of one image over a sweep.

    `covered` sums area times best J over the regions of all annotators at each setting, out of
    `coverable`; `best` is the same where every region has its own best setting.
    """

    covered: Real
    coverable: int
    best: float


def covering(sweep: Iterable[Comparison]) -> Covering:
    """Covering of one image for the benchmark, from its comparisons at every setting.

    >>> from segmeter.measures.tables import compare
    >>> labels = np.array([[1, 1, 2, 2]] * 2)
    >>> covering([compare(labels, labels)]).best
    8.0
    """
    settings = [comparison.tables for comparison in sweep]
    if not settings:
        raise BadInput("a sweep needs at least one setting")
    areas = [table.ground_truth_areas.astype(np.float64) for table in settings[0]]
    overlaps = [[t.best_by_column(t.overlap) for t in tables] for tables in settings]
    best = [np.maximum.reduce(of_each) for of_each in zip(*overlaps, strict=True)]
    covered = np.array([_weighted(areas, each) for each in overlaps])
    return Covering(covered, len(areas) * settings[0][0].pixels, _weighted(areas, best))


def _weighted(areas: Sequence[Real], overlaps: Sequence[Real]) -> float:
    return float(sum(a @ o for a, o in zip(areas, overlaps, strict=True)))

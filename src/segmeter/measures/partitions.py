"""Partition measures: similarity of two partitions of an image.

`n_ij` are the pixels of predicted region i in true region j, `r_i` and `c_j` the areas, n all
pixels, K the number of ground truths. Values are similarities, 1 is best, except `voi`. A measure
takes `(ground_truths, prediction)`; ground_truths is one label map or a list; `scores` counts the
tables once and computes all measures from them.

The catalogue's ids and the names of the literature:

=======  ====================================================================
`dhd`    directional Hamming D_H(S=>G) by Eq. 3 (Table 2 prints it the other way round)
`sdhd`   directional Hamming D_H(G=>S); achievable segmentation accuracy
`vd`     van Dongen
`sc`     covering of the prediction's regions, C({G}->S)
`ssc`    covering of the ground truth, C(S->{G})
`bgm`    bipartite graph matching
`bce`    bidirectional consistency; `gce`, `lce` global and local consistency
`voi`    variation of information in bits, a distance; `nvoi` its normalised complement
`pri`    Rand index, averaged over ground_truths: the probabilistic Rand index
`fr`     F of pairs of pixels, with `pr` and `rr`
`fop`    F of objects and parts, with `pop` and `rop`; `fop_paper` etc. as the text has it
=======  ====================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from statistics import fmean
from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.measures import Better, measure
from segmeter.measures.objects_and_parts import FopProtocol, count_objects_and_parts, harmonic
from segmeter.measures.tables import Comparison, GroundTruths, Labels, Real, Table, compare

Formula = Callable[[Comparison], float]
FORMULAS: dict[str, Formula] = {}
_MOST_CELLS = 1 << 17


def scores(ground_truths: GroundTruths, prediction: Labels) -> dict[str, float]:
    """All measures of a prediction against one or several ground truths, by id.

    A value that is not defined, such as `pr` of single pixels, is NaN.

    >>> found = scores(np.array([[1, 1, 2, 2]] * 2), np.array([[1, 1, 1, 2]] * 2))
    >>> " ".join(f"{id} {found[id]:.3f}" for id in FORMULAS)
    'dhd 0.750 sdhd 0.750 vd 0.750 sc 0.625 ssc 0.583 bgm 0.750 bce 0.542 gce 0.750 lce 0.875
     voi 1.189 nvoi 0.406 pri 0.571'
    >>> found = scores(np.array([[1, 1, 2, 2]] * 2), np.ones((2, 4), int))
    >>> found["ssc"], found["voi"], found["dhd"]
    (0.5, 1.0, 1.0)
    """
    return scores_of(compare(ground_truths, prediction))


def scores_of(comparison: Comparison, only: Collection[str] | None = None) -> dict[str, float]:
    """All measures from tables that are already counted, or `only` some of them.

    >>> import numpy as np
    >>> labels = np.array([[1, 1, 2, 2]] * 2)
    >>> scores_of(compare(labels, labels), only=['ssc', 'voi'])
    {'ssc': 1.0, 'voi': 0.0}
    """
    wanted = {*FORMULAS, *_FAMILIES} if only is None else only
    found = {id: formula(comparison) for id, formula in FORMULAS.items() if id in wanted}
    for names, family in _TRIPLES.items():
        if any(name in wanted for name in names):
            found |= dict(zip(names, family(comparison), strict=True))
    return found


Triple = tuple[float, float, float]


def _op(protocol: FopProtocol) -> Callable[[Comparison], Triple]:
    def family(comparison: Comparison) -> Triple:
        counts = count_objects_and_parts(comparison, protocol)
        return counts.f, counts.precision, counts.recall

    return family


def _pair(comparison: Comparison) -> Triple:
    pairs = [_pairs(table) for table in comparison.tables]
    precision = fmean([both / mine if mine else math.nan for both, mine, _ in pairs])
    recall = fmean([both / theirs if theirs else math.nan for both, _, theirs in pairs])
    return harmonic(precision, recall), precision, recall


# An F comes with its precision and recall.
_TRIPLES: dict[tuple[str, str, str], Callable[[Comparison], Triple]] = {
    ("fr", "pr", "rr"): _pair,
    ("fop", "pop", "rop"): _op("published"),
    ("fop_paper", "pop_paper", "rop_paper"): _op("paper"),
}
_FAMILIES = [name for names in _TRIPLES for name in names]


Over = Literal["lost", "covered", "tables"]


def _add(
    id: str, cite: str, over: Over, of_table: Callable[[Table], float], summary: str,
    range: tuple[float, float] = (0.0, 1.0), better: Better = "higher",
) -> None:  # fmt: skip
    """Make a number of a table a measure of label maps: its mean over `tables`, one per ground
    truth, or the share of pixels that are `covered`, or not `lost`; `scores` has it as well."""

    def formula(comparison: Comparison) -> float:
        value = fmean([of_table(t) for t in comparison.tables])
        share = value / (1 if over == "tables" else comparison.pixels)
        return 1 - share if over == "lost" else share

    def of_labels(ground_truths: GroundTruths, prediction: Labels) -> float:
        return formula(compare(ground_truths, prediction))

    of_labels.__doc__ = summary
    FORMULAS[id] = formula
    measure(id, range=range, better=better, cite=cite)(of_labels)


@measure("fr", cite="martin2003")
def pair_f(ground_truths: GroundTruths, prediction: Labels) -> float:
    """F of pairs of pixels put together, from the means of P_r and R_r over ground truths.

    >>> labels = np.array([[1, 1, 2, 2]] * 2)
    >>> pair_f(labels, labels)
    1.0
    """
    return _pair(compare(ground_truths, prediction))[0]


@measure("fop", cite="ponttuset2013")
def objects_and_parts(
    ground_truths: GroundTruths, prediction: Labels, protocol: FopProtocol = "published"
) -> float:
    """F of objects and parts: whole regions found, with some credit for parts of them.

    >>> labels = np.array([[1, 1, 2, 2]] * 2)
    >>> objects_and_parts(labels, labels)
    1.0
    """
    return count_objects_and_parts(compare(ground_truths, prediction), protocol).f


def _voi(table: Table) -> float:
    n = table.pixels
    product = (
        table.prediction_areas[table.rows].astype(np.float64)
        * table.ground_truth_areas[table.columns]
    )
    information = float((table.shared / n) @ np.log(n * (table.shared / product)))
    apart = (
        _entropy(table.prediction_areas / n)
        + _entropy(table.ground_truth_areas / n)
        - 2 * information
    )
    return max(0.0, apart / math.log(2))  # rounding may leave -1e-16


def _normalised_voi(table: Table) -> float:
    most = max(table.prediction_areas.size, table.ground_truth_areas.size)
    return 1.0 if most == 1 else 1 - _voi(table) / (2 * math.log2(most))


def _rand_index(table: Table) -> float:
    both, in_prediction, in_ground_truth = _pairs(table)
    all_pairs = table.pixels * (table.pixels - 1)
    agree = all_pairs - in_prediction - in_ground_truth + 2 * both
    return agree / all_pairs if all_pairs else math.nan


def _entropy(shares: Real) -> float:
    return -float(shares @ np.log(shares))


def _pairs(table: Table) -> tuple[int, int, int]:
    """Twice the pairs together in both, in the prediction, in the ground truth (each less n)."""
    n = table.pixels
    both = int(table.shared @ table.shared) - n
    return (
        both,
        int(table.prediction_areas @ table.prediction_areas) - n,
        int(table.ground_truth_areas @ table.ground_truth_areas) - n,
    )


def _best_assignment(table: Table) -> int:
    """The largest sum of shared pixels over one-to-one pairings of regions."""
    if table.prediction_areas.size * table.ground_truth_areas.size > _MOST_CELLS:
        return _best_sparse_assignment(table)
    from scipy.optimize import linear_sum_assignment

    full = np.zeros((table.prediction_areas.size, table.ground_truth_areas.size))
    full[table.rows, table.columns] = table.shared
    return int(full[linear_sum_assignment(full, maximize=True)].sum())


def _best_sparse_assignment(table: Table) -> int:
    """The same without a table of all pairs; slower below about 1e5 pairs.

    Each row may also stay alone, at no gain. Every pairing then uses each row once, so one may
    be added to all gains, which keeps the sparse solver from dropping zeros.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    kept = _undominated(table)
    numbers, rows = np.unique(table.rows[kept], return_inverse=True)
    alone = np.arange(numbers.size)
    gains = np.concatenate([table.shared[kept] + 1, np.ones(numbers.size, dtype=np.int64)])
    where = (
        np.concatenate([rows, alone]),
        np.concatenate([table.columns[kept], table.ground_truth_areas.size + alone]),
    )
    shape = (numbers.size, table.ground_truth_areas.size + numbers.size)
    full = coo_array((gains, where), shape=shape).tocsr()
    chosen = min_weight_full_bipartite_matching(full, maximize=True)
    return int(full[chosen].sum()) - numbers.size


def _undominated(table: Table) -> npt.NDArray[np.intp]:
    """Cells that can matter: of rows with one cell only, the largest in each column."""
    cells = np.bincount(table.rows)[table.rows]
    single = np.flatnonzero(cells == 1)
    order = single[np.lexsort((table.shared[single], table.columns[single]))]
    last = np.append(np.diff(table.columns[order]) != 0, True) if order.size else order > 0
    return np.sort(np.concatenate([np.flatnonzero(cells > 1), order[last]]))


# fmt: off
_add("dhd", "huang1995", "lost", lambda t: t.pixels - t.kept_by_column,
     "Share of pixels in the best predicted region of their true region; 1 for one big region.")
_add("sdhd", "huang1995", "lost", lambda t: t.pixels - t.kept_by_row,
     "Share of pixels in the best true region of their predicted region; 1 for a fine partition.")
_add("vd", "dongen2000", "lost",
     lambda t: (2 * t.pixels - t.kept_by_column - t.kept_by_row) / 2,
     "Van Dongen's distance as a similarity: the mean of both directional Hammings.")
_add("sc", "arbelaez2011", "covered",
     lambda t: float(t.prediction_areas @ t.best_by_row(t.overlap)),
     "How well predicted regions are covered by the ground truth's, by area and Jaccard index.")
_add("ssc", "arbelaez2011", "covered",
     lambda t: float(t.ground_truth_areas @ t.best_by_column(t.overlap)),
     "How well the ground truth's regions are covered by the prediction's: the usual covering.")
_add("bgm", "cardoso2005", "lost", lambda t: t.pixels - _best_assignment(t),
     "Share of pixels kept by the best one-to-one pairing of prediction and ground truth regions.")
_add("bce", "martin2003", "lost",
     lambda t: float(t.shared @ (1 - np.minimum(t.prediction_share, t.ground_truth_share))),
     "1 minus the larger of both local refinement errors, averaged over pixels.")
_add("gce", "martin2001", "lost",
     lambda t: min(float(t.shared @ (1 - s)) for s in (t.prediction_share, t.ground_truth_share)),
     "1 minus the refinement error in the direction that suits the whole image best.")
_add("lce", "martin2001", "lost",
     lambda t: float(t.shared @ (1 - np.maximum(t.prediction_share, t.ground_truth_share))),
     "1 minus the refinement error in the direction that suits each pixel best.")
_add("voi", "meila2005", "tables", _voi,
     "Variation of information in bits: H(S) + H(G) - 2 I(S,G).", (0.0, math.inf), "lower")
_add("nvoi", "ponttuset2016", "tables", _normalised_voi,
     "1 minus the variation of information over 2 log2 of the larger number of regions.")
_add("pri", "unnikrishnan2007", "tables", _rand_index,
     "Share of pixel pairs that both put together or both keep apart (NaN for one pixel).")

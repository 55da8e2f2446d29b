"""F_b with what SciPy and scikit-image offer, written plainly. Only here to be timed against.

The matching is exact too: a least-cost full matching in which every pixel of the prediction may
also stay alone at a cost above that of any chain of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from scipy.spatial import cKDTree
from skimage.morphology import thin

Labels = npt.NDArray[Any]
Bits = npt.NDArray[np.bool_]


def boundary_map(labels: Labels) -> Bits:
    edges = np.zeros(labels.shape, dtype=bool)
    edges[:, :-1] |= labels[:, 1:] != labels[:, :-1]
    edges[:-1] |= labels[1:] != labels[:-1]
    edges[:-1, :-1] |= labels[1:, 1:] != labels[:-1, :-1]
    thinned: Any = thin  # it has no types of its own
    return np.asarray(thinned(edges))


def matched(ground_truth: Bits, prediction: Bits, tolerance: float) -> Bits:
    """Which pixels of the prediction have a partner, in raster order."""
    ours, theirs = np.argwhere(prediction), np.argwhere(ground_truth)
    lone = 100.0 * tolerance * (len(ours) + 1)
    near = cKDTree(ours).sparse_distance_matrix(cKDTree(theirs), tolerance + 1e-9).tocoo()
    # One is added to all costs: the solver takes a stored zero for no edge.
    costs = np.concatenate([np.rint(100 * near.data) + 1, np.full(len(ours), lone)])
    alone = np.arange(len(ours))
    rows = np.concatenate([near.row, alone])
    columns = np.concatenate([near.col, len(theirs) + alone])
    table = coo_array((costs, (rows, columns)), shape=(len(ours), len(theirs) + len(ours)))
    chosen_rows, chosen = min_weight_full_bipartite_matching(table.tocsr())
    paired = np.zeros(len(ours), dtype=bool)
    paired[chosen_rows] = chosen < len(theirs)
    return paired


def boundary_counts(
    ground_truths: Sequence[Labels], prediction: Labels, max_dist: float = 0.0075
) -> tuple[int, int, int, int]:
    """cntR, sumR, cntP, sumP."""
    ours, maps = boundary_map(prediction), [boundary_map(t) for t in ground_truths]
    tolerance = max_dist * float(np.hypot(*prediction.shape))
    pairs = [matched(m, ours, tolerance) for m in maps]
    union = np.logical_or.reduce(pairs)
    return (
        int(sum(p.sum() for p in pairs)),
        int(sum(m.sum() for m in maps)),
        int(union.sum()),
        int(ours.sum()),
    )

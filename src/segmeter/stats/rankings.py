"""Rankings: would the same model come first on other scenes?"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.stats.intervals import Floats, Resampling

__all__ = ["first_shares", "rank_shares", "spearman"]


def rank_shares(
    values: npt.ArrayLike, drawn: Resampling, better: Literal["higher", "lower"]
) -> Floats:
    """How often each model takes each rank under resampling, `(models, ranks)`.

    `values` is `(models, targets)`, targets in the order of `drawn`. Models with equal
    means share the ranks they span, so every row and every column adds up to one.

    >>> drawn = Resampling(['a', 'b', 'c'])
    >>> rank_shares([[1.0, 2.0, 1.0], [3.0, 4.0, 5.0]], drawn, 'lower').tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    means = drawn.means(np.asarray(values, dtype=float).T)
    cost = -means if better == "higher" else means
    models = cost.shape[1]
    ahead = (cost[:, None, :] < cost[:, :, None]).sum(axis=2)
    equal = (cost[:, None, :] == cost[:, :, None]).sum(axis=2)
    shares = np.zeros((models, models))
    for rank in range(models):
        spanned = (ahead <= rank) & (rank < ahead + equal)
        shares[:, rank] = (spanned / equal).mean(axis=0)
    return shares


def first_shares(
    values: npt.ArrayLike, drawn: Resampling, better: Literal["higher", "lower"]
) -> Floats:
    """How often each model ranks first under resampling; adds up to one.

    >>> drawn = Resampling(['a', 'b', 'c'])
    >>> first_shares([[1.0, 2.0, 1.0], [3.0, 4.0, 5.0]], drawn, 'lower').tolist()
    [1.0, 0.0]
    """
    return rank_shares(values, drawn, better)[:, 0]


def spearman(table: Floats) -> Floats:
    """Rank correlations between the columns of `(models, columns)`; equal values share ranks.

    >>> spearman(np.array([[1.0, 10.0], [2.0, 30.0], [3.0, 20.0]])).round(2).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    from scipy.stats import rankdata

    ranks = rankdata(table, axis=0)
    away = ranks - ranks.mean(axis=0)
    lengths = np.sqrt((away**2).sum(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((away.T @ away) / np.outer(lengths, lengths))

"""Agreement: how far several raters give the same thing the same score."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput

__all__ = ["krippendorff_alpha", "pilot_sd"]

Level = Literal["paper_interactions", "ordinal", "interval"]


def krippendorff_alpha(
    ratings: Mapping[Hashable, Sequence[int]], level: Level = "ordinal"
) -> float:
    """Krippendorff's alpha: 1 is agreement, 0 what chance gives.

        alpha = 1 - sum_ck o_ck d2_ck / sum_ck e_ck d2_ck

    with `o` the coincidences within things and `e` those expected from all values. Things
    rated once carry no information and are left out. Where every value is the same nothing
    can disagree, and alpha is 1.

    Parameters
    ----------
    ratings
        The scores that each thing got, in any order.
    level
        Distance of two scores: `ordinal` counts the values between them.

    >>> krippendorff_alpha({1: [1, 1], 2: [2, 2], 3: [3, 3]})
    1.0
    """
    units = [list(scores) for scores in ratings.values() if len(scores) > 1]
    if not units:
        raise BadInput("agreement needs things that were rated at least twice, and there are none")
    values = sorted({score for unit in units for score in unit})
    seen = _coincidences(units, values)
    totals = seen.sum(axis=1)
    expected = (np.outer(totals, totals) - np.diag(totals)) / (totals.sum() - 1)
    apart = _distances(np.asarray(values, dtype=float), totals, level)
    by_chance = float((expected * apart).sum())
    return 1.0 if by_chance == 0 else 1.0 - float((seen * apart).sum()) / by_chance


def pilot_sd(ratings: Mapping[Hashable, Sequence[int]]) -> float:
    """Mean over things of the standard deviation within each (0.83 in the SAM supplement).

    >>> pilot_sd({"mask": [1, 3], "other": [5, 5]})
    0.707...
    """
    spreads = [np.std(scores, ddof=1) for scores in ratings.values() if len(scores) > 1]
    if not spreads:
        raise BadInput("the spread within jobs needs jobs rated at least twice; there are none")
    return float(np.mean(spreads))


def _coincidences(units: Sequence[Sequence[int]], values: Sequence[int]) -> npt.NDArray[np.float64]:
    """How often two values meet in a thing; each thing weighs as many as it has ratings."""
    place = {value: k for k, value in enumerate(values)}
    met = np.zeros((len(values), len(values)))
    for unit in units:
        counts = np.bincount([place[score] for score in unit], minlength=len(values))
        met += (np.outer(counts, counts) - np.diag(counts)) / (len(unit) - 1)
    return met


def _distances(
    values: npt.NDArray[np.float64], totals: npt.NDArray[np.float64], level: Level
) -> npt.NDArray[np.float64]:
    """Squared distance of every two values."""
    if level == "paper_interactions":
        return 1.0 - np.eye(len(values))
    if level == "interval":
        return np.asarray(np.subtract.outer(values, values) ** 2)
    # Ordinal: all ratings from one value to the other, the ends counting half.
    upto = np.cumsum(totals) - totals / 2
    return np.asarray(np.subtract.outer(upto, upto) ** 2)

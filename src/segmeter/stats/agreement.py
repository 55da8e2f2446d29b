"""Agreement of raters: Krippendorff's alpha with its interval, intraclass correlations."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.seeds import generator
from segmeter.stats.intervals import Interval, codes, percentiles
from segmeter.stats.mixed_effects import fit_mixed

Level = Literal["nominal", "ordinal", "interval"]
_RESAMPLES = 2000


def krippendorff_alpha(
    ratings: Mapping[Hashable, Sequence[int]], level: Level = "ordinal"
) -> float:
    """Krippendorff's alpha: 1 is perfect agreement, 0 agreement by chance.

        alpha = 1 - sum_ck o_ck d2_ck / sum_ck e_ck d2_ck

    with `o` the coincidences within items and `e` those expected from all values. Items rated once
    are left out. If all values are the same, alpha is 1. `level` is the distance of two scores:
    `ordinal` counts the ratings between them.

    >>> krippendorff_alpha({1: [1, 1], 2: [2, 2], 3: [3, 3]})
    1.0
    """
    units = _repeated(ratings)
    values = sorted({score for unit in units for score in unit})
    return float(_alphas(_coincidences(units, values).sum(axis=0)[None], values, level)[0])


def alpha_interval(
    ratings: Mapping[Hashable, Sequence[int]],
    level: Level = "ordinal",
    *,
    clusters: Mapping[Hashable, Hashable] | None = None,
) -> Interval:
    """Krippendorff's alpha with a 95 % bootstrap interval over items.

    `clusters` names what is resampled instead, such as the image of each mask; one alone gives no
    limits.

    >>> found = alpha_interval({k: [k, k] for k in range(1, 9)})
    >>> found.value, found.low, found.high
    (1.0, 1.0, 1.0)
    """
    kept = {name: scores for name, scores in ratings.items() if len(scores) > 1}
    units = _repeated(kept)
    values = sorted({score for unit in units for score in unit})
    met = _coincidences(units, values)
    place = codes(name if clusters is None else clusters[name] for name in kept)
    many = int(place.max()) + 1
    grouped = np.zeros((many, *met.shape[1:]))
    np.add.at(grouped, place, met)
    rng = generator("alpha", len(units), many)
    drawn = rng.multinomial(many, np.full(many, 1 / many), size=_RESAMPLES)
    found = _alphas(np.einsum("sc,cij->sij", drawn.astype(float), grouped), values, level)
    return percentiles(krippendorff_alpha(ratings, level), found, many)


@dataclass(frozen=True, slots=True)
class Reliability:
    """Intraclass correlations of one rating: absolute agreement and consistency.

    `agreement` is ICC(2,1) = v_item / (v_item + v_rater + v_rest) and `consistency` ICC(3,1)
    without the raters' variance (Shrout and Fleiss 1979).
    """

    agreement: float
    consistency: float
    item: float
    rater: float
    rest: float


def intraclass(
    items: Sequence[Hashable], raters: Sequence[Hashable], scores: npt.ArrayLike
) -> Reliability:
    """Intraclass correlations from variance components (REML), also of incomplete designs.

    >>> found = intraclass(list("aabbcc"), list("121212"), [1, 2, 3, 5, 5, 6])
    >>> round(found.consistency, 3), round(found.agreement, 3)
    (0.96, 0.8)
    """
    values = np.asarray(scores, dtype=float)
    if len(set(items)) < 2 or len(set(raters)) < 2 or len(set(items)) == values.size:
        raise BadInput("an intraclass correlation needs items that were rated by several raters")
    factors = {"item": list(items), "rater": list(raters)}
    fitted = fit_mixed(values, np.ones((values.size, 1)), factors)
    item, rater, rest = fitted.variances["item"], fitted.variances["rater"], fitted.residual
    return Reliability(item / (item + rater + rest), item / (item + rest), item, rater, rest)


def pilot_sd(ratings: Mapping[Hashable, Sequence[int]]) -> float:
    """Mean over items of the standard deviation within each (0.83 in the SAM supplement).

    >>> pilot_sd({"mask": [1, 3], "other": [5, 5]})
    0.707...
    """
    spreads = [np.std(scores, ddof=1) for scores in ratings.values() if len(scores) > 1]
    if not spreads:
        raise BadInput("the spread within items needs items rated at least twice; there are none")
    return float(np.mean(spreads))


def _repeated(ratings: Mapping[Hashable, Sequence[int]]) -> list[list[int]]:
    units = [list(scores) for scores in ratings.values() if len(scores) > 1]
    if not units:
        raise BadInput("agreement needs items that were rated at least twice, and there are none")
    return units


def _coincidences(units: Sequence[Sequence[int]], values: Sequence[int]) -> npt.NDArray[np.float64]:
    """How often two values occur together in each item, `(items, values, values)`."""
    place = {value: k for k, value in enumerate(values)}
    met = np.zeros((len(units), len(values), len(values)))
    for each, unit in zip(met, units, strict=True):
        counts = np.bincount([place[score] for score in unit], minlength=len(values))
        each += (np.outer(counts, counts) - np.diag(counts)) / (len(unit) - 1)
    return met


def _alphas(
    seen: npt.NDArray[np.float64], values: Sequence[int], level: Level
) -> npt.NDArray[np.float64]:
    """Alpha of each table of coincidences, `(tables, values, values)`; 1 if all values agree."""
    totals = seen.sum(axis=2)
    diagonal = np.einsum("si,ij->sij", totals, np.eye(len(values)))
    many = totals.sum(axis=1)[:, None, None]
    expected = (totals[:, :, None] * totals[:, None, :] - diagonal) / (many - 1)
    apart = _distances(np.asarray(values, dtype=float), totals, level)
    by_chance = (expected * apart).sum(axis=(1, 2))
    disagree = (seen * apart).sum(axis=(1, 2))
    safe = np.where(by_chance == 0, 1.0, by_chance)
    return np.where(by_chance == 0, 1.0, 1.0 - disagree / safe)


def _distances(
    values: npt.NDArray[np.float64], totals: npt.NDArray[np.float64], level: Level
) -> npt.NDArray[np.float64]:
    """Squared distance of every two values, for every table."""
    if level == "nominal":
        return np.broadcast_to(1.0 - np.eye(len(values)), (len(totals), len(values), len(values)))
    place = values[None] if level == "interval" else np.cumsum(totals, axis=1) - totals / 2
    # Ordinal: all ratings from one value to the other, the ends counting half.
    return np.asarray((place[:, :, None] - place[:, None, :]) ** 2)

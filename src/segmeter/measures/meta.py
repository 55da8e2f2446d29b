"""Meta-measures: how well does a measure tell good partitions from bad ones?

Three tests, each a set of decisions that any sensible measure should get right:

- **SIHD**, swapped-image human discrimination: a person's partition against other people's
  of the same picture, or of another. How well does the measure part the two?
- **SABD**, state-of-the-art baseline discrimination: a segmenter's result should score
  above a baseline that does not look at the picture.
- **SISD**, swapped-image state-of-the-art discrimination: a segmenter's result should score
  above its result for another picture.

Readings. `published` computes what the authors' scripts compute: SIHD = 1 - (e1 + e2), so
that chance is 0; SABD and SISD count ties as right, with every method at the setting that
is best on the very pictures that are judged. `sound` gives SIHD as balanced accuracy
1 - (e1 + e2) / 2, so that chance is 0.5 in all three, counts ties half, and takes settings
chosen on other pictures. Both keep the decisions by picture, for intervals.

    Pont-Tuset, Marques. Supervised evaluation of image segmentation and object proposal
    techniques. IEEE TPAMI 38(7), 2016.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput
from segmeter.core.models import Reading
from segmeter.measures.objects_and_parts import harmonic
from segmeter.measures.tables import Real

__all__ = [
    "Densities",
    "Discrimination",
    "HumanDiscrimination",
    "Sweep",
    "against_baselines",
    "against_swapped",
    "densities",
    "global_score",
    "human_discrimination",
]

_BINS = 50


@dataclass(frozen=True, slots=True)
class Densities:
    """How the scores of same-picture and of different-picture pairs are spread (Fig. 5)."""

    centres: Real
    same: Real
    different: Real


@dataclass(frozen=True, slots=True)
class HumanDiscrimination:
    """SIHD: the best threshold between the two densities and the errors it makes.

    `right_same` and `right_different` say of each pair whether it falls on its side.
    """

    threshold: float
    error_same: float
    error_different: float
    right_same: npt.NDArray[np.bool_]
    right_different: npt.NDArray[np.bool_]

    @property
    def sihd(self) -> float:
        """Published: 1 less both error rates; chance is 0."""
        return 1 - (self.error_same + self.error_different)

    @property
    def accuracy(self) -> float:
        """Sound: balanced accuracy; chance is 0.5."""
        return 1 - (self.error_same + self.error_different) / 2

    def value(self, reading: Reading) -> float:
        return self.sihd if reading == "published" else self.accuracy


@dataclass(frozen=True, slots=True)
class Sweep:
    """One method under one measure: pictures x settings, larger is better.

    Where precision and recall are given, the set's value at a setting is F of their means.
    """

    values: Real
    precision: Real | None = None
    recall: Real | None = None

    def best_setting(self) -> int:
        """ODS: the first setting with the largest value over the set."""
        return int(np.argmax(self.set_values()))

    def set_values(self) -> Real:
        if self.precision is None or self.recall is None:
            return np.asarray(self.values.mean(axis=0))
        pairs = zip(self.precision.mean(axis=0), self.recall.mean(axis=0), strict=True)
        return np.array([harmonic(float(p), float(r)) for p, r in pairs])


@dataclass(frozen=True, slots=True)
class Discrimination:
    """SABD or SISD: the share of right decisions; `right` is methods x pictures, 0 to 1."""

    right: Real

    @property
    def value(self) -> float:
        return float(self.right.mean())

    @property
    def by_picture(self) -> Real:
        return np.asarray(self.right.mean(axis=0))


def human_discrimination(same: Real, different: Real) -> HumanDiscrimination:
    """SIHD of one measure's scores on same-picture and different-picture pairs.

    The threshold is where the two densities cross above the median of the lower one.

    >>> human_discrimination(np.linspace(0.5, 0.9, 40), np.linspace(0.1, 0.4, 40)).sihd
    1.0
    """
    same, different = _scores(same, "same"), _scores(different, "different")
    threshold = _crossing(densities(same, different))
    right_same, right_different = same > threshold, different <= threshold
    errors = float((~right_same).mean()), float((~right_different).mean())
    if sum(errors) > 1:  # a distance: small values are the good ones
        right_same, right_different = ~right_same, ~right_different
        errors = float((~right_same).mean()), float((~right_different).mean())
    return HumanDiscrimination(threshold, *errors, right_same, right_different)


def densities(same: Real, different: Real, bins: int = _BINS) -> Densities:
    """Both histograms on common bins, each scaled to an integral of 1.

    As in the original scripts, values above the last limit are dropped and the centres
    are shifted by (low + high) / 2 bins; for scores in [0, 1] this is harmless.
    """
    low = float(np.floor(min(same.min(), different.min())))
    high = float(np.ceil(max(same.max(), different.max())))
    limits = low + (high - low) * np.arange(bins - 1) / (bins - 1)
    centres = limits + (low + high) / (2 * bins)
    return Densities(centres, _density(same, limits, centres), _density(different, limits, centres))


def against_baselines(
    methods: Sequence[Sweep],
    baselines: Sequence[Sweep],
    reading: Reading = "published",
    settings: Mapping[int, int] | None = None,
) -> Discrimination:
    """SABD: each method at its best setting against the best baseline on each picture.

    `settings` gives the setting of each method, by place, chosen elsewhere (`sound`);
    methods that are not in it, and baselines, take their best on these pictures.
    """
    good = [_at_setting(m, (settings or {}).get(k)) for k, m in enumerate(methods)]
    bad = np.maximum.reduce([_at_setting(b, None) for b in baselines]).clip(min=0)
    return Discrimination(_decide(np.array(good), bad[None, :], reading))


def against_swapped(
    methods: Sequence[Sweep],
    swapped: Sequence[Sweep],
    reading: Reading = "published",
    settings: Mapping[int, int] | None = None,
) -> Discrimination:
    """SISD: each method's own result against its result for another picture, same setting."""
    chosen = [
        (settings or {}).get(place, method.best_setting()) for place, method in enumerate(methods)
    ]
    good = np.array([m.values[:, s] for m, s in zip(methods, chosen, strict=True)])
    bad = np.array([m.values[:, s] for m, s in zip(swapped, chosen, strict=True)])
    return Discrimination(_decide(good, bad, reading))


def global_score(human: float, baseline: float, swapped: float) -> float:
    """The mean of the three; with `published` values SIHD is on another scale (chance 0)."""
    return (human + baseline + swapped) / 3


def _scores(values: Real, which: str) -> Real:
    scores = np.asarray(values, dtype=np.float64).ravel()
    if scores.size == 0 or not np.isfinite(scores).all():
        raise BadInput(f"the scores of {which}-picture pairs must be finite and at least one")
    return scores


def _density(scores: Real, limits: Real, centres: Real) -> Real:
    places = np.searchsorted(limits, scores, side="right") - 1
    # The last bin has no upper limit to lie below: only its own limit counts.
    places = places[(places < limits.size - 1) | (scores == limits[-1])]
    counts = np.bincount(places, minlength=limits.size).astype(np.float64)
    total = float((counts[1:] + counts[:-1]) @ np.diff(centres)) / 2
    return counts / total if total > 0 else counts


def _crossing(spread: Densities) -> float:
    """Where the density with the lower median falls to the other."""
    medians = _median_place(spread.same), _median_place(spread.different)
    same_is_left = medians[0] <= medians[1]
    left, right = (
        (spread.same, spread.different) if same_is_left else (spread.different, spread.same)
    )
    place = max(int(min(medians)) - 1, 0)
    level = np.diff(left - right, prepend=np.nan) == 0  # two lines that run side by side
    while place < left.size and (left[place] > right[place] or level[place]):
        place += 1
    if place in (0, left.size):
        return float(spread.centres[min(place, left.size - 1)])
    before, step = place - 1, spread.centres[place] - spread.centres[place - 1]
    gap = left[before] - right[before]
    closing = (right[place] - right[before]) - (left[place] - left[before])
    return float(spread.centres[before] + gap / closing * step)


def _median_place(density: Real) -> float:
    """Place of the median, counted from 1, between places where it falls between them."""
    sums = np.cumsum(density)
    half = sums[-1] / 2
    place = int(np.argmax(sums >= half))
    if place == 0:
        return 1.0
    return float(place + 1 - (sums[place] - half) / (sums[place] - sums[place - 1]))


def _at_setting(method: Sweep, setting: int | None) -> Real:
    chosen = method.best_setting() if setting is None else setting
    return np.asarray(method.values[:, chosen])


def _decide(good: Real, bad: Real, reading: Reading) -> Real:
    """1 for a right decision, 0 for a wrong one; a tie is right (published) or half."""
    tie = 1.0 if reading == "published" else 0.5
    return np.where(good > bad, 1.0, np.where(good == bad, tie, 0.0))

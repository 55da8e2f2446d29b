"""Meta-measures: how well does a measure separate good partitions from bad ones?

Three tests, each a set of decisions that any sensible measure should get right:

- **SIHD**, swapped-image human discrimination: a person's partition against other people's
  of the same image, or of another. How well does the measure separate the two?
- **SABD**, state-of-the-art baseline discrimination: a segmenter's result should score above a
  baseline that ignores the image.
- **SISD**, swapped-image state-of-the-art discrimination: a segmenter's result should score
  above its result for another image.

Protocols. `published` computes what the authors' scripts compute: SIHD = 1 - (e1 + e2), so
that chance is 0; SABD and SISD count ties as right, with every method at the setting that
is best on the very images that are judged. `corrected` gives SIHD as balanced accuracy
1 - (e1 + e2) / 2, so that chance is 0.5 in all three, counts ties half, and takes each
image at a setting chosen on others: on a training set where one is given, else on all other
images. Both keep the decisions by image, for intervals.

    Pont-Tuset, Marques. Supervised evaluation of image segmentation and object proposal
    techniques. IEEE TPAMI 38(7), 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, check_choice
from segmeter.core.models import PROTOCOLS, ProtocolName
from segmeter.measures.objects_and_parts import harmonics
from segmeter.measures.tables import Real

Places = npt.NDArray[np.intp]
_BINS = 50


@dataclass(frozen=True, slots=True)
class Densities:
    """Distributions of the scores of same-image and different-image pairs (Fig. 5)."""

    centres: Real
    same: Real
    different: Real


@dataclass(frozen=True, slots=True)
class HumanDiscrimination:
    """SIHD: the best threshold between the two densities and the errors it makes.

    `right_same` and `right_different` are whether each pair falls on its side.
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
        """Corrected: balanced accuracy; chance is 0.5."""
        return 1 - (self.error_same + self.error_different) / 2


@dataclass(frozen=True, slots=True)
class Sweep:
    """One method under one measure: images x settings, larger is better.

    Where precision and recall are given, the set's value at a setting is F of their means.
    `training` is the method on other images, where its corrected setting is chosen.
    """

    values: Real
    precision: Real | None = None
    recall: Real | None = None
    training: Sweep | None = None

    def best_setting(self) -> int:
        """ODS: the first setting with the largest value over the set."""
        return int(np.argmax(_set_values([part.mean(axis=0) for part in self._parts()])))

    def best_elsewhere(self) -> Places:
        """For each image the first setting that is best on all the others."""
        if len(self.values) == 1:
            return np.array([self.best_setting()])
        others = len(self.values) - 1
        means = [(part.sum(axis=0) - part) / others for part in self._parts()]
        return np.asarray(np.argmax(_set_values(means), axis=1))

    def chosen(self, protocol: ProtocolName) -> int | Places:
        """The setting: `published` the best on these images, `corrected` the best on others."""
        if protocol == "published":
            return self.best_setting()
        return self.best_elsewhere() if self.training is None else self.training.best_setting()

    def at(self, setting: int | Places) -> Real:
        """Each image's value at one setting, or at one of its own."""
        return np.asarray(self.values[np.arange(len(self.values)), setting])

    def _parts(self) -> list[Real]:
        if self.precision is None or self.recall is None:
            return [self.values]
        return [self.precision, self.recall]


def human_discrimination(same: Real, different: Real) -> HumanDiscrimination:
    """SIHD of one measure's scores on same-image and different-image pairs.

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

    >>> found = densities(np.array([0.8, 0.9]), np.array([0.1, 0.2]), bins=4)
    >>> type(found).__name__
    'Densities'
    """
    low = float(np.floor(min(same.min(), different.min())))
    high = float(np.ceil(max(same.max(), different.max())))
    limits = low + (high - low) * np.arange(bins - 1) / (bins - 1)
    centres = limits + (low + high) / (2 * bins)
    return Densities(centres, _density(same, limits, centres), _density(different, limits, centres))


def against_baselines(
    methods: Sequence[Sweep], baselines: Sequence[Sweep], protocol: ProtocolName = "published"
) -> Real:
    """SABD: each method at its setting against the best baseline on each image.

    Decisions are methods x images, 1 for a right one; their mean is the meta-measure.

    >>> sweep = Sweep(np.array([[0.9, 0.8], [0.7, 0.9]]))
    >>> other = Sweep(np.array([[0.2, 0.1], [0.3, 0.2]]))
    >>> against_baselines([sweep], [other]).tolist()
    [[1.0, 1.0]]
    """
    _check_images([*methods, *baselines])
    good, bad = ([m.at(m.chosen(protocol)) for m in some] for some in (methods, baselines))
    return _decide(np.array(good), np.maximum.reduce(bad).clip(min=0), protocol)


def against_swapped(
    methods: Sequence[Sweep], swapped: Sequence[Sweep], protocol: ProtocolName = "published"
) -> Real:
    """SISD: each method's own result against its result for another image, same setting.

    Decisions are methods x images, as in `against_baselines`.

    >>> sweep = Sweep(np.array([[0.9, 0.8], [0.7, 0.9]]))
    >>> other = Sweep(np.array([[0.2, 0.1], [0.3, 0.2]]))
    >>> against_swapped([sweep], [other]).tolist()
    [[1.0, 1.0]]
    """
    _check_images([*methods, *swapped])
    places = [method.chosen(protocol) for method in methods]
    good, bad = (
        np.array([m.at(s) for m, s in zip(some, places, strict=True)])
        for some in (methods, swapped)
    )
    return _decide(good, bad, protocol)


def _scores(values: Real, which: str) -> Real:
    scores = np.asarray(values, dtype=np.float64).ravel()
    if scores.size == 0 or not np.isfinite(scores).all():
        raise BadInput(f"the scores of {which}-image pairs must be finite and at least one")
    return scores


def _density(scores: Real, limits: Real, centres: Real) -> Real:
    # The last bin has no upper limit to lie below: only its own limit counts.
    counts = np.histogram(scores, np.append(limits, limits[-1]))[0].astype(np.float64)
    total = float((counts[1:] + counts[:-1]) @ np.diff(centres)) / 2
    return counts / total if total > 0 else counts


def _crossing(spread: Densities) -> float:
    """The point where the density with the lower median falls to the other."""
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


def _check_images(sweeps: Sequence[Sweep]) -> None:
    """Refuse sweeps over different numbers of images: a decision needs the same image."""
    counts = sorted({len(sweep.values) for sweep in sweeps})
    if len(counts) > 1:
        raise BadInput(
            f"a method over {counts[-1]} images cannot be judged against one over {counts[0]}; "
            "give the same images in the same order"
        )


def _set_values(means: Sequence[Real]) -> Real:
    """Values of a set at each setting, from its mean or from its mean precision and recall."""
    return means[0] if len(means) == 1 else harmonics(*means)


def _decide(good: Real, bad: Real, protocol: ProtocolName) -> Real:
    """1 for a right decision, 0 for a wrong one; a tie is right (published) or half."""
    check_choice("protocol", protocol, PROTOCOLS)
    tie = 1.0 if protocol == "published" else 0.5
    return np.where(good > bad, 1.0, np.where(good == bad, tie, 0.0))

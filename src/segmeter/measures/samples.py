"""Samples of clicks on one object, two compared: devices, display modes, people against people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, check_choice
from segmeter.core.models import PROTOCOLS, ProtocolName
from segmeter.measures.clicks import Sides, as_points, energy, ks_2d, pl1, wasserstein

__all__ = ["SampleScores", "ceiling", "compare_devices", "compare_samples"]

Points = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SampleScores:
    """PL1, KS (1 when alike), WD, and half the energy distance where the protocol has it."""

    pl1: float
    ks: float
    wd: float
    energy: float | None = None


def compare_samples(
    ground_truth: npt.ArrayLike,
    prediction: npt.ArrayLike,
    sides: Sides,
    protocol: ProtocolName = "corrected",
) -> SampleScores:
    """All similarities of two samples of clicks `(y, x)` on an object of given sides.

    >>> clicks = [(0, 0), (1, 2), (2, 1), (3, 3)]
    >>> compare_samples(clicks, clicks, (4, 4)).ks
    1.0
    """
    check_choice("protocol", protocol, PROTOCOLS)
    a, b = as_points(ground_truth), as_points(prediction)
    beyond = energy(a, b, sides) if protocol == "corrected" and min(len(a), len(b)) > 1 else None
    return SampleScores(
        pl1(a, b, sides), float(ks_2d(a, b).alike), wasserstein(a, b, sides), beyond
    )


def compare_devices(
    pc: npt.ArrayLike, mobile: npt.ArrayLike, sides: Sides, protocol: ProtocolName = "corrected"
) -> SampleScores:
    """Clicks `(y, x)` at desks against those on telephones.

    `published` takes the desks' column for their row as well, as the original does by
    mistake, in PL1 and WD; its KS is right.

    >>> clicks = [(0, 0), (1, 2), (2, 1), (3, 3)]
    >>> compare_devices(clicks, clicks, (4, 4)).ks
    1.0
    """
    right = compare_samples(pc, mobile, sides, protocol)
    if protocol == "corrected":
        return right
    columns = as_points(pc)[:, [1, 1]]
    return SampleScores(
        pl1(columns, mobile, sides), right.ks, wasserstein(columns, mobile, sides), None
    )


def ceiling(
    clicks: npt.ArrayLike, sides: Sides, rng: np.random.Generator, splits: int = 20
) -> SampleScores:
    """Human against human: mean scores of random halves of one target's clicks.

    >>> clicks = [(0, 0), (1, 2), (2, 1), (3, 3)] * 5
    >>> ceiling(clicks, (4, 4), np.random.default_rng(0), splits=2).ks
    1.0
    """
    points = as_points(clicks)
    half = len(points) // 2
    if half < 2:
        raise BadInput("a split into halves needs at least four clicks")
    mixed = [rng.permutation(points) for _ in range(splits)]
    found = [compare_samples(m[:half], m[half : 2 * half], sides) for m in mixed]
    beyond = [score.energy for score in found if score.energy is not None]
    return SampleScores(
        float(np.mean([score.pl1 for score in found])),
        float(np.mean([score.ks for score in found])),
        float(np.mean([score.wd for score in found])),
        float(np.mean(beyond)),
    )

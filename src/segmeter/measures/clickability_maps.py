"""Clickability maps: how well a map of where people click predicts where they did."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt

from segmeter.core.errors import BadInput, check_choice
from segmeter.core.measures import measure
from segmeter.core.models import PROTOCOLS, ProtocolName
from segmeter.measures.clicks import Sides, as_points, energy, ks_2d, pl1, wasserstein

Map = npt.NDArray[np.floating]
Points = npt.NDArray[np.float64]

# The original adds this to sums and deviations, which is not negligible on megapixels.
_EPSILON = 1e-9
ROWS = 100


@dataclass(frozen=True, slots=True)
class MapScores:
    """The five similarities of a map and clicks; `energy` where the protocol has it."""

    pl1: float
    ks: float
    wd: float
    nss: float
    pde: float
    energy: float | None = None


@measure("click-nss", range=(-math.inf, math.inf), better="higher", cite="peters2005")
def nss(clicks: npt.ArrayLike, map: Map, protocol: ProtocolName = "corrected") -> float:
    """Mean of the map at the clicks, in its own standard deviations over the image.

    `published` adds 1e-9 to sum and deviation, so that the value depends on the size of the
    image; `corrected` adds nothing, and a map without variation scores 0.

    >>> map = np.zeros((4, 4)); map[1, 1] = 1
    >>> round(float(nss([(1, 1)], map)), 2)
    3.87
    """
    check_choice("protocol", protocol, PROTOCOLS)
    epsilon = _EPSILON if protocol == "published" else 0.0
    density = _density(map, epsilon)
    # The deviation of equal numbers is a rounding error, and not always 0.
    if protocol == "corrected" and density.min() == density.max():
        return 0.0
    deviation = float(density.std()) + epsilon
    return float(np.mean((_at(density, clicks) - density.mean()) / deviation))


@measure("click-pde", range=(0.0, math.inf), better="higher", cite="antonov2024")
def pde(
    clicks: npt.ArrayLike, map: Map, protocol: ProtocolName = "corrected", area: int | None = None
) -> float:
    """Mean density of the map at the clicks.

    `published` is the probability of a pixel, which shrinks as images grow; `corrected` is in
    units of the object: times its `area` (default: the map's non-zero pixels), so that a
    uniform prediction over the object scores the share of clicks inside.

    >>> map = np.zeros((4, 4)); map[1, 1] = 1
    >>> float(pde([(1, 1)], map))
    1.0
    """
    check_choice("protocol", protocol, PROTOCOLS)
    if protocol == "published":
        return float(np.mean(_at(_density(map, _EPSILON), clicks)))
    size = int(np.count_nonzero(map)) if area is None else area
    return float(np.mean(_at(_density(map, 0.0), clicks))) * size


def compare(
    clicks: npt.ArrayLike,
    map: Map,
    sides: Sides,
    rng: np.random.Generator | np.random.RandomState | int,
    protocol: ProtocolName = "corrected",
    rows: int = ROWS,
    area: int | None = None,
) -> MapScores:
    """All similarities of real clicks `(y, x)` and a map, over `rows` samples drawn from it.

    Each sample has as many clicks as there are real ones. A number as `rng` is the legacy
    generator's seed, set again for each measure, as for the reference values. `area` is
    the object's, for the corrected PDE.

    >>> map = np.zeros((4, 4)); map[1, 2] = 1
    >>> compare([(1, 2)] * 4, map, (4, 4), 0, rows=2).ks
    0.0
    """
    check_choice("protocol", protocol, PROTOCOLS)
    real = as_points(clicks)

    def samples() -> Points:
        source = np.random.RandomState(rng) if isinstance(rng, int) else rng
        return draws(map, (rows, len(real)), source)

    fresh = protocol == "published"
    first = samples()
    second, third = (samples(), samples()) if fresh else (first, first)
    flat = first.reshape(-1, 2)
    return MapScores(
        pl1=pl1(real, flat, sides),
        ks=float(np.mean([ks_2d(real, row).alike for row in second])),
        wd=float(np.mean([wasserstein(real, row, sides) for row in third])),
        nss=nss(real, map, protocol),
        pde=pde(real, map, protocol, area),
        energy=None if fresh or len(real) < 2 else energy(real, flat, sides),
    )


def draws(
    map: Map, shape: tuple[int, ...], rng: np.random.Generator | np.random.RandomState
) -> Points:
    """Clicks `(..., y, x)` drawn from a map, one uniform number each, in raster order.

    >>> map = np.zeros((4, 4)); map[1, 2] = 1
    >>> draws(map, (2,), np.random.default_rng(0)).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    total = map.sum()
    if not total > 0 or not np.isfinite(total):
        raise BadInput("a clickability map without positive mass cannot be drawn from")
    steps = np.cumsum((map / total).ravel().astype(np.float64))
    steps /= steps[-1]
    places = np.searchsorted(steps, rng.random(shape), side="right")
    return np.stack(np.unravel_index(places, map.shape), axis=-1).astype(np.float64)


def _density(map: Map, epsilon: float) -> Map:
    total = map.sum() + epsilon
    if not total > 0 or not np.isfinite(total):
        raise BadInput("a clickability map without positive mass has no density")
    return np.asarray(map / total)


def _at(density: Map, clicks: npt.ArrayLike) -> Map:
    """Values under the clicks; clicks outside are moved to the border."""
    points = as_points(clicks).astype(np.int64)
    y, x = (np.clip(points[:, k], 0, density.shape[k] - 1) for k in (0, 1))
    return density[y, x]


@dataclass(frozen=True, slots=True)
class SampleScores:
    """PL1, KS (1 for equal samples), WD, and half the energy distance if the protocol has it."""

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
    """Clicks `(y, x)` on desktop computers against those on phones.

    `published` uses the column of desktop clicks also as their row in PL1 and WD, a bug of the
    original; its KS is right.

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
    found = [astuple(compare_samples(m[:half], m[half : 2 * half], sides)) for m in mixed]
    return SampleScores(*(float(np.mean(scores)) for scores in zip(*found, strict=True)))

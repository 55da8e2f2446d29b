"""Click sources: what gives the map of where people would click in a session.

`prior` is the embedded click model, `uniform` and `distance` the baselines, `saliency` and
`saliency-crop` a saliency network, and `network` a trained clickability network. The first
round's map depends on image and target only and is kept, for all groups and models.

Scores of clickability maps: how well they predict recorded clicks, over a whole clicks file.

`published`: maps as they are, one legacy stream of draws seeded 42 for the whole file, and
everything in the original's units. `corrected`: maps cut to the error region, a stream a key, the
energy distance, densities in units of the error region.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock
from typing import Protocol

import numpy as np

from segmeter.clickability import maps
from segmeter.clickability.click_similarity import Row, summarised
from segmeter.clickability.groups import Draw, Point, drawn_on_prior
from segmeter.clickability.maps import ClickabilityMap
from segmeter.clickability.prior import Round, prior_on
from segmeter.clickability.training.samples import TrainingSample
from segmeter.core.errors import NotFound, suggestion
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.scenes import Image, Scene, Target
from segmeter.core.seeds import generator
from segmeter.kernels import threads
from segmeter.measures.clickability_maps import ROWS, MapScores, compare

NAMES = ("prior", "uniform", "distance", "saliency", "saliency-crop", "network")
_TRAINED = NAMES[3:]
_MOST_KEPT = 512
_ROUND: dict[bool, Round] = {True: "first", False: "later"}


class ClickSource(Protocol):
    """Gives the map of an error region; `first` when nothing was segmented yet."""

    @property
    def name(self) -> str: ...

    def map(
        self, scene: Scene, target: Target, error_region: Mask, first: bool, protocol: ProtocolName
    ) -> ClickabilityMap: ...


class FirstRounds:
    """A source that remembers the maps of first rounds, and draws clicks."""

    def __init__(self, inner: ClickSource) -> None:
        self.inner = inner
        self._kept: OrderedDict[tuple[str, str, str], ClickabilityMap] = OrderedDict()
        self._lock = Lock()  # eleven players ask at once; the first one makes the map

    @property
    def name(self) -> str:
        return self.inner.name

    def map(
        self, scene: Scene, target: Target, error_region: Mask, first: bool, protocol: ProtocolName
    ) -> ClickabilityMap:
        """The error region's map, restricted to it."""
        if not first:
            return self._on(scene, target, error_region, first, protocol)
        key = (scene.name, target.id, protocol)
        with self._lock:
            known = self._kept.get(key)
            if known is None:
                known = self._on(scene, target, error_region, first, protocol)
                self._kept[key] = known
                if len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
        return known

    def clicks(self, draws: Sequence[Draw]) -> list[Point | None]:
        """A click for each draw; None where the map has no mass on the error region."""
        firsts, laters = ([d for d in draws if d.first == first] for first in (True, False))
        points = dict(zip(map(id, firsts), _each(self._click, firsts), strict=True))
        points |= zip(map(id, laters), self._later_clicks(laters), strict=True)
        return [points[id(draw)] for draw in draws]

    def _click(self, draw: Draw) -> Point | None:
        error_region = draw.error_region()
        return draw.on(self.map(draw.scene, draw.target, error_region, draw.first, draw.protocol))

    def _on(
        self, scene: Scene, target: Target, error_region: Mask, first: bool, protocol: ProtocolName
    ) -> ClickabilityMap:
        return self.inner.map(scene, target, error_region, first, protocol).on(error_region)

    def _later_clicks(self, draws: Sequence[Draw]) -> list[Point | None]:
        return _each(self._click, draws)


class _Prior(FirstRounds):
    """The prior, which needs no map of a later round to draw from it.

    It is the same in both protocols, so that they share a first map.
    """

    def map(
        self, scene: Scene, target: Target, error_region: Mask, first: bool, protocol: ProtocolName
    ) -> ClickabilityMap:
        return super().map(scene, target, error_region, first, "corrected")

    def _later_clicks(self, draws: Sequence[Draw]) -> list[Point | None]:
        return drawn_on_prior(draws)


class _Shape:
    """A source that looks at the error region's shape only."""

    def __init__(
        self, name: str, make: Callable[[Mask, bool, ProtocolName], ClickabilityMap]
    ) -> None:
        self.name = name
        self._make = make

    def map(
        self, scene: Scene, target: Target, error_region: Mask, first: bool, protocol: ProtocolName
    ) -> ClickabilityMap:
        return self._make(error_region, first, protocol)


def check_source(name: str, checkpoint: Path | None = None) -> None:
    """Refuse a source that could not be made, without making it."""
    if name not in NAMES:
        hint = suggestion(name, NAMES)
        raise NotFound(f"no clickability map '{name}';{hint} there are {', '.join(NAMES)}")
    if name in _TRAINED and not _needed(name, checkpoint).exists():
        raise NotFound(f"the clickability map '{name}' has no weights at '{checkpoint}'")


@lru_cache(maxsize=8)
def source(name: str = "prior", checkpoint: Path | None = None) -> FirstRounds:
    """A source by name; one object a name, so that what it learnt or kept is shared."""
    made = _made(name, checkpoint)
    return _Prior(made) if name == "prior" else FirstRounds(made)


def _made(name: str, checkpoint: Path | None) -> ClickSource:
    check_source(name, checkpoint)
    match name:
        case "prior":
            return _Shape(name, lambda m, first, _: prior_on(m, round=_ROUND[first]))
        case "uniform":
            return _Shape(name, lambda m, _, __: maps.uniform(m))
        case "distance":
            return _Shape(name, lambda m, _, protocol: maps.distance(m, protocol))
        case "saliency" | "saliency-crop":
            from segmeter.clickability.saliency import SaliencySource

            return SaliencySource(_needed(name, checkpoint), cut_out=name == "saliency")
        case _:
            from segmeter.clickability.network import NetworkSource

            return NetworkSource(_needed(name, checkpoint))


def _needed(name: str, checkpoint: Path | None) -> Path:
    if checkpoint is None:
        raise NotFound(
            f"the clickability map '{name}' needs weights; add checkpoint=FILE to the user"
        )
    return checkpoint


def _each(function: Callable[[Draw], Point | None], draws: Sequence[Draw]) -> list[Point | None]:
    """One after the other, or side by side where kernels may use several threads."""
    if threads() == 1 or len(draws) < 2:
        return list(map(function, draws))
    return list(_pool(threads()).map(function, draws))


@cache
def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="clicks")


SCORES = ("nss", "pde", "ks", "pl1", "wd", "energy")
_SEED = 42


def map_scores(
    training_samples: Sequence[TrainingSample],
    sources: Mapping[str, ClickSource],
    protocol: ProtocolName = "corrected",
    rows: int = ROWS,
) -> list[Row]:
    """Mean scores of each map over all keys, with intervals by image."""
    found = {
        name: scores_by_key(training_samples, source, protocol, rows)
        for name, source in sources.items()
    }
    return summarised({name: each for name, each in found.items() if each}, SCORES)


def scores_by_key(
    training_samples: Sequence[TrainingSample],
    source: ClickSource,
    protocol: ProtocolName = "corrected",
    rows: int = ROWS,
) -> list[tuple[str, MapScores]]:
    """A map's scores on every key, each with its image.

    Keys are left out where nothing was wrong, or where a single click has no spread.
    """
    legacy = np.random.RandomState(_SEED)
    found = []
    for sample in training_samples:
        rng = legacy if protocol == "published" else generator("judge", sample.name)
        scores = _scores(sample, source, protocol, rng, rows)
        if scores is not None:
            found.append((sample.image, scores))
    return found


def _scores(
    sample: TrainingSample,
    source: ClickSource,
    protocol: ProtocolName,
    rng: np.random.Generator | np.random.RandomState,
    rows: int,
) -> MapScores | None:
    image, object, wrong = sample.show()
    error_region = Mask.of(wrong > 0.5)
    clicks = sample.clicks((image.shape[0], image.shape[1]))
    if not error_region or len(clicks) < 2:
        return None
    target = Target("1", Mask.of(object))
    scene = Image("clicks", sample.name, image, [target])
    map = source.map(scene, target, error_region, sample.name.endswith("/first"), protocol)
    values = (map if protocol == "published" else map.on(error_region)).dense()
    height, width = target.mask.bits.shape
    return compare(clicks, values, (height, width), rng, protocol, rows, error_region.area)

"""Click sources: what gives the map of where people would click in a session.

`prior` is the embedded click model, `uniform` and `distance` the baselines, `saliency` and
`saliency-crop` a saliency network, and `network` a trained clickability network. The first
round's map depends on the object's image and mask only and is kept, for all groups and models.

Scores of clickability maps: how well they predict recorded clicks, over a whole clicks file.

`published`: maps as they are, one legacy stream of draws seeded 42 for the whole file, and
everything in the original's units. `corrected`: maps cut to the error region, a stream a key, the
energy distance, densities in units of the error region.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock

import numpy as np

from segmeter.clickability import maps
from segmeter.clickability.click_files import Row, summarised
from segmeter.clickability.groups import Draw, Point, drawn_on_prior
from segmeter.clickability.maps import ClickabilityMap, ClickRegion, ClickSource, Round, prior_on
from segmeter.clickability.training.samples import TrainingSample
from segmeter.core.errors import NotFound, check_choice
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.scenes import Image, Target
from segmeter.core.seeds import generator
from segmeter.measures.clickability_maps import ROWS, MapScores, compare

NAMES = ("prior", "uniform", "distance", "saliency", "saliency-crop", "network")
_TRAINED = NAMES[3:]
_MOST_KEPT = 512
_ROUND: dict[bool, Round] = {True: "first", False: "later"}
SCORES = ("nss", "pde", "ks", "pl1", "wd", "energy")
_SEED = 42


class FirstRounds:
    """Draws clicks from a source, whose maps of first rounds are kept.

    The prior is the same in both protocols, which share its first map, and needs no map of a
    later round to draw from it.
    """

    def __init__(self, inner: ClickSource, *, prior: bool = False) -> None:
        self.inner = inner
        self._prior = prior
        self._kept: OrderedDict[tuple[str, int, str], ClickabilityMap] = OrderedDict()
        self._lock = Lock()  # eleven users ask at once; the first one makes the map

    def map(self, region: ClickRegion) -> ClickabilityMap:
        if not region.first:
            return self.inner(region).on(region.mask)
        # By the mask, not the name: data of one name may change within a process.
        key = (region.scene.name, hash(region.mask), "" if self._prior else region.protocol)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = self.inner(region).on(region.mask)
                if len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
            return self._kept[key]

    def clicks(self, draws: Sequence[Draw]) -> list[Point | None]:
        """A click for each draw; None where the map has no mass on the error region."""
        together = [draw for draw in draws if self._prior and not draw.first]
        points = iter(drawn_on_prior(together))
        return [
            next(points) if self._prior and not draw.first else draw.on(self.map(draw.region))
            for draw in draws
        ]


def check_source(name: str, checkpoint: Path | None = None) -> None:
    """Refuse a source that could not be made, without making it."""
    check_choice("clickability map", name, NAMES)
    if name in _TRAINED and not _needed(name, checkpoint).exists():
        raise NotFound(f"the clickability map '{name}' has no weights at '{checkpoint}'")


def source(name: str = "prior", checkpoint: Path | None = None) -> FirstRounds:
    """A source by name; one object for each name and state of its weights, shared by all users."""
    check_source(name, checkpoint)
    changed = os.stat(_needed(name, checkpoint)).st_mtime_ns if name in _TRAINED else 0
    return _source(name, checkpoint, changed)


@lru_cache(maxsize=8)
def _source(name: str, checkpoint: Path | None, changed: int) -> FirstRounds:
    return FirstRounds(_made(name, checkpoint), prior=name == "prior")


def _made(name: str, checkpoint: Path | None) -> ClickSource:
    match name:
        case "prior":
            return lambda region: prior_on(region.mask, round=_ROUND[region.first])
        case "uniform":
            return lambda region: maps.uniform(region.mask)
        case "distance":
            return lambda region: maps.distance(region.mask, region.protocol)
        case "saliency" | "saliency-crop":
            from segmeter.clickability.saliency import saliency_source

            return saliency_source(_needed(name, checkpoint), cut_out=name == "saliency")
        case _:
            from segmeter.clickability.network import network_source

            return network_source(_needed(name, checkpoint))


def _needed(name: str, checkpoint: Path | None) -> Path:
    if checkpoint is None:
        raise NotFound(
            f"the clickability map '{name}' needs weights; add checkpoint=FILE to the user"
        )
    return checkpoint


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
        image, object, wrong = sample.show()
        error_region, target = Mask.of(wrong > 0.5), Target("1", Mask.of(object))
        clicks = sample.clicks((image.shape[0], image.shape[1]))
        if not error_region or len(clicks) < 2:
            continue
        scene = Image("clicks", sample.name, image, [target])
        first = sample.name.endswith("/first")
        map = source(ClickRegion(scene, target, error_region, first, protocol))
        values = (map if protocol == "published" else map.on(error_region)).dense()
        rng = legacy if protocol == "published" else generator("judge", sample.name)
        height, width = target.mask.bits.shape
        sizes = (height, width), rng, protocol, rows, error_region.area
        found.append((sample.image, compare(clicks, values, *sizes)))
    return found

"""Scores of click maps: how well they predict recorded clicks, over a whole clicks file.

`published`: maps as they are, one legacy stream of draws seeded 42 for the whole file, and
everything in the original's units. `corrected`: maps cut to the error region, a stream a key, the
energy distance, densities in units of the error region.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from segmeter.clickability.click_similarity import Row, summarised
from segmeter.clickability.map_sources import ClickSource
from segmeter.clickability.training.samples import TrainingSample
from segmeter.core.masks import Mask
from segmeter.core.models import ProtocolName
from segmeter.core.scenes import Image, Target
from segmeter.core.seeds import generator
from segmeter.measures.clickmaps import ROWS, MapScores, compare

__all__ = ["SCORES", "map_scores", "scores_by_key"]

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

"""How well click maps foretell recorded clicks, over a whole clicks file.

`published`: maps as they are, one legacy stream of draws seeded 42 for the whole file, and
everything in the original's units. `sound`: maps cut to the mistake, a stream a key, the
energy distance, densities in units of the mistake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from segmeter.clickability.lessons import Lesson
from segmeter.clickability.similarity import Row, summarised
from segmeter.clickability.sources import ClickSource
from segmeter.core.masks import Mask
from segmeter.core.models import Reading
from segmeter.core.scenes import Scene, Target
from segmeter.core.seeds import generator
from segmeter.measures.clickmaps import ROWS, MapScores, compare

__all__ = ["SCORES", "map_scores", "scores_by_key"]

SCORES = ("nss", "pde", "ks", "pl1", "wd", "energy")
_SEED = 42


def map_scores(
    lessons: Sequence[Lesson],
    sources: Mapping[str, ClickSource],
    reading: Reading = "sound",
    rows: int = ROWS,
) -> list[Row]:
    """Mean scores of each map over all keys, with intervals by picture."""
    found = {
        name: scores_by_key(lessons, source, reading, rows) for name, source in sources.items()
    }
    return summarised({name: each for name, each in found.items() if each}, SCORES)


def scores_by_key(
    lessons: Sequence[Lesson], source: ClickSource, reading: Reading = "sound", rows: int = ROWS
) -> list[tuple[str, MapScores]]:
    """A map's scores on every key, each with its picture.

    Keys are left out where nothing was wrong, or where a single click has no spread.
    """
    legacy = np.random.RandomState(_SEED)
    found = []
    for lesson in lessons:
        rng = legacy if reading == "published" else generator("judge", lesson.name)
        scores = _scores(lesson, source, reading, rng, rows)
        if scores is not None:
            found.append((lesson.picture, scores))
    return found


def _scores(
    lesson: Lesson,
    source: ClickSource,
    reading: Reading,
    rng: np.random.Generator | np.random.RandomState,
    rows: int,
) -> MapScores | None:
    picture, object, wrong = lesson.show()
    mistake = Mask.of(wrong > 0.5)
    clicks = lesson.clicks((picture.shape[0], picture.shape[1]))
    if not mistake or len(clicks) < 2:
        return None
    target = Target("1", Mask.of(object))
    scene = Scene("lesson", lesson.name, picture, [target])
    map = source.map(scene, target, mistake, lesson.name.endswith("/first"), reading)
    values = (map if reading == "published" else map.on(mistake)).dense()
    height, width = target.mask.bits.shape
    return compare(clicks, values, (height, width), rng, reading, rows, mistake.area)

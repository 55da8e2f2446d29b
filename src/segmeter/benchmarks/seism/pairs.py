"""Pairs for the meta-measures: people's partitions of the same and of other images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.report_parts import published_rows
from segmeter.core.errors import BadInput
from segmeter.measures.boundaries import BoundaryCounts, count_boundaries
from segmeter.measures.outlines import Grid, Outline, outline
from segmeter.measures.partitions import scores_of
from segmeter.measures.tables import Regions, compare, regions

Labels = npt.NDArray[np.int32]
Scores = dict[str, float]
Item = TypeVar("Item")
Result = TypeVar("Result")

BOUNDARY: dict[str, Grid] = {"fb": "pixel", "fb-contour": "contour"}


class Annotated(Protocol):
    """A dataset where people cut images into regions."""

    def annotated(self) -> Sequence[str]: ...

    def partitions(self, scene: str) -> list[Labels]: ...


@dataclass(frozen=True, slots=True)
class PairScores:
    """Scores of people's partitions, by measure: one value an annotation and image."""

    images: tuple[str, ...]
    same: dict[str, npt.NDArray[np.float64]]
    different: dict[str, npt.NDArray[np.float64]]


class Cut:
    """A partition, numbered and outlined when first asked for."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self._outlines: dict[Grid, Outline] = {}

    @cached_property
    def regions(self) -> Regions:
        return regions(self.labels)

    def outline(self, grid: Grid) -> Outline:
        if grid not in self._outlines:
            self._outlines[grid] = outline(self.labels, grid)
        return self._outlines[grid]


def human_pairs(
    dataset: Annotated,
    measures: Sequence[str],
    limit: int | None = None,
    workers: int = 1,
) -> PairScores:
    """Score every annotation against the others of its image, and against all of another.

    A partner of another size is turned by 90 degrees, counter-clockwise.
    """
    images = list(dataset.annotated())[:limit]
    other = partners(images)
    work = partial(_image_pairs, dataset, tuple(measures), other)
    found = in_parallel(work, images, workers)
    names = [name for name, pairs in zip(images, found, strict=True) for _ in pairs]
    pairs = [pair for image in found for pair in image]
    return PairScores(
        tuple(names),
        {m: np.array([same[m] for same, _ in pairs]) for m in measures},
        {m: np.array([different[m] for _, different in pairs]) for m in measures},
    )


def partners(images: Sequence[str]) -> dict[str, str]:
    """Another image for each, every one used once.

    The published permutation of BSDS500, with images that are not available skipped along
    its cycles; what is then left alone goes round in a ring.
    """
    if len(images) < 2:
        raise BadInput("swapping images needs at least two of them")
    listed, here = published_rows("seism", "partners.csv"), set(images)
    published = {row["image"]: row["partner"] for row in listed}
    found: dict[str, str] = {}
    for image in images:
        other = published.get(image, image)
        while other not in here and other != image:
            other = published[other]
        found[image] = other
    alone = [image for image in images if found[image] == image]
    if len(alone) == 1:  # let it into the ring of a neighbour
        before = next(p for p in images if p != alone[0])
        found[alone[0]], found[before] = found[before], alone[0]
    else:
        found |= dict(zip(alone, alone[1:] + alone[:1], strict=True))
    return found


def turned(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """An array of that shape: as it is, or turned by 90 degrees counter-clockwise."""
    for candidate in (array, np.rot90(array)):
        if candidate.shape == shape:
            return np.ascontiguousarray(candidate)
    sizes = [" x ".join(map(str, s)) for s in (array.shape, shape)]
    raise BadInput(f"images of {sizes[0]} and {sizes[1]} cannot be swapped; take one size")


def in_parallel(
    work: Callable[[Item], Result], items: Sequence[Item], workers: int
) -> list[Result]:
    """Results in the order of the items, whatever the number of processes."""
    if workers <= 1:
        return [work(item) for item in items]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(work, items))


def _image_pairs(
    dataset: Annotated, measures: Sequence[str], other: dict[str, str], image: str
) -> list[tuple[Scores, Scores]]:
    mine = [Cut(labels) for labels in dataset.partitions(image)]
    shape = mine[0].labels.shape
    theirs = [Cut(turned(labels, shape)) for labels in dataset.partitions(other[image])]
    if len(mine) < 2:
        return []
    return [
        (_scores([*mine[:k], *mine[k + 1 :]], cut, measures), _scores(theirs, cut, measures))
        for k, cut in enumerate(mine)
    ]


def _scores(ground_truths: Sequence[Cut], prediction: Cut, measures: Sequence[str]) -> Scores:
    found: Scores = {}
    for measure, grid in BOUNDARY.items():
        if measure in measures:
            found[measure] = _boundary(ground_truths, prediction, grid).f
    if any(measure not in BOUNDARY for measure in measures):
        found |= scores_of(
            compare([t.regions for t in ground_truths], prediction.regions), measures
        )
    unknown = [measure for measure in measures if measure not in found]
    if unknown:
        raise BadInput(f"'{unknown[0]}' is not a measure of partitions; 'segmeter list measures'")
    return found


def _boundary(ground_truths: Sequence[Cut], prediction: Cut, grid: Grid) -> BoundaryCounts:
    return count_boundaries([t.outline(grid) for t in ground_truths], prediction.outline(grid))

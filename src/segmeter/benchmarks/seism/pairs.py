"""Scores for the meta-measures: of people and methods, on their own images and on others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.report_parts import published_rows
from segmeter.benchmarks.seism.work import GroundTruths, Level, levels_of, results_of
from segmeter.core.errors import BadInput
from segmeter.core.models import Method, Segmentation
from segmeter.core.scenes import Dataset
from segmeter.measures.meta import Sweep
from segmeter.measures.outlines import Grid
from segmeter.measures.partitions import scores_of
from segmeter.measures.tables import Labels, compare
from segmeter.stats.intervals import Floats

Scores = dict[str, float]
Columns = dict[str, Floats]
Item = TypeVar("Item")
Result = TypeVar("Result")

BOUNDARY: dict[str, Grid] = {"fb": "pixel", "fb-contour": "contour"}
_PRECISION_RECALL = {"fop": ("pop", "rop"), "fr": ("pr", "rr"), "fb": ("pb", "rb")}
_DISTANCES = ("voi",)


class Annotated(Dataset, Protocol):
    """A dataset with images that people cut into regions."""

    def annotated(self) -> Sequence[str]: ...

    def partitions(self, scene: str) -> list[Labels]: ...


@dataclass(frozen=True, slots=True)
class PairScores:
    """Scores of people's partitions, by measure: one value an annotation and image."""

    images: tuple[str, ...]
    same: Columns
    different: Columns


@dataclass(frozen=True, slots=True)
class MethodSweeps:
    """A method's scores on its own images and with images swapped, by column.

    Row i of `swapped` is the result for another image, judged by the ground truth of image i.
    `training` is the method on the images where its corrected setting is chosen.
    """

    images: tuple[str, ...]
    own: Columns
    swapped: Columns
    training: MethodSweeps | None = None

    def __post_init__(self) -> None:
        """Settings are taken over by their place, so both sets must have the same."""
        sets = [self] if self.training is None else [self, self.training]
        counts = [next(iter(sweeps.own.values())).shape[1] for sweeps in sets]
        if counts[0] != counts[-1]:
            raise BadInput(
                f"a method has {counts[0]} settings on the test and {counts[-1]} on the training "
                "set"
            )

    def sweep(self, measure: str, swapped: bool = False) -> Sweep:
        table = self.swapped if swapped else self.own
        sign = -1.0 if measure in _DISTANCES else 1.0
        precision, recall = map(table.get, _PRECISION_RECALL.get(measure, ("", "")))
        training = None if self.training is None else self.training.sweep(measure)
        return Sweep(sign * table[measure], precision, recall, training)


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
    labels = dataset.partitions(image)
    if len(labels) < 2:
        return []
    grids = [grid for measure, grid in BOUNDARY.items() if measure in measures]
    mine = GroundTruths.of(labels, grids)
    others = [turned(part, labels[0].shape) for part in dataset.partitions(other[image])]
    theirs = GroundTruths.of(others, grids)
    return [
        (_scores(mine.without(k), part, measures), _scores(theirs, part, measures))
        for k, part in enumerate(labels)
    ]


def _scores(ground_truths: GroundTruths, prediction: Labels, measures: Sequence[str]) -> Scores:
    found = scores_of(compare(ground_truths.partitions, prediction), measures)
    for measure, grid in BOUNDARY.items():
        counts = ground_truths.boundaries(prediction, grid)
        if counts is not None:
            found[measure] = counts.f
    return found


def sweep_method(
    method: Method,
    dataset: Annotated,
    measures: Sequence[str],
    limit: int | None = None,
    workers: int = 1,
) -> MethodSweeps:
    """Run a method on all images and score it by its own and the partner's ground truth."""
    images = list(dataset.scenes())[:limit]
    other = partners(images)
    work = partial(_image_sweep, method, dataset, other, tuple(measures))
    found = in_parallel(work, images, workers)
    if len({len(own) for own, _ in found}) != 1:
        raise BadInput(f"{method.card.name} has other settings on some images than on others")
    own, swapped = _table([own for own, _ in found]), _table([away for _, away in found])
    # The result of image j was judged by the ground truth of its partner: sort by the judge.
    place = {image: k for k, image in enumerate(images)}
    order = np.argsort([place[other[image]] for image in images])
    return MethodSweeps(tuple(images), own, {k: v[order] for k, v in swapped.items()})


def _image_sweep(
    method: Method,
    dataset: Annotated,
    other: Mapping[str, str],
    measures: Sequence[str],
    image: str,
) -> tuple[list[Scores], list[Scores]]:
    """Scores at each setting against the own ground truth, and against the partner's."""
    scene = dataset.load(image)
    results = results_of(method, scene)
    found = []
    for judge in (image, other[image]):
        labels = dataset.partitions(judge)
        ground_truths = GroundTruths.of(labels, ["pixel"] if "fb" in measures else [])
        away = {name: _turned(result, labels[0].shape) for name, result in results.items()}
        levels = levels_of(method, away, ground_truths)
        found.append([_level_scores(level, measures) for level in levels])
    return found[0], found[1]


def _turned(result: Segmentation, shape: tuple[int, ...]) -> Segmentation:
    """A result that fits a ground truth of the other orientation."""

    def fit(array: npt.NDArray[Any] | None, shape: tuple[int, ...]) -> npt.NDArray[Any] | None:
        return None if array is None else turned(array, shape)

    levels = fit(result.levels, tuple(2 * side + 1 for side in shape))
    return Segmentation(
        labels=fit(result.labels, shape), levels=levels, edges=fit(result.edges, shape)
    )


def _level_scores(level: Level, measures: Sequence[str]) -> Scores:
    regions = {} if level.comparison is None else scores_of(level.comparison, measures)
    return regions | level.boundary_scores


def _table(images: Sequence[Sequence[Scores]]) -> Columns:
    names = images[0][0]
    return {n: np.array([[level[n] for level in row] for row in images]) for n in names}

"""Meta-measures of a set of measures, from people, methods and baselines of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from segmeter.analysis.report_parts import published_rows
from segmeter.benchmarks.seism.work import GroundTruths, levels_of, results_of
from segmeter.core import sections as page
from segmeter.core.errors import BadInput
from segmeter.core.grouping import grouped
from segmeter.core.models import Method, ProtocolName, Segmentation
from segmeter.core.scenes import Dataset
from segmeter.measures import meta
from segmeter.measures.outlines import Grid
from segmeter.measures.partitions import FORMULAS, scores_of
from segmeter.measures.tables import Labels, compare
from segmeter.stats.intervals import Floats, Interval, Resampling

Scores = dict[str, float]
Columns = dict[str, Floats]
Item = TypeVar("Item")
Result = TypeVar("Result")

BOUNDARY: dict[str, Grid] = {"fb": "pixel", "fb-contour": "contour"}
_PRECISION_RECALL = {"fop": ("pop", "rop"), "fr": ("pr", "rr"), "fb": ("pb", "rb")}


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
            text = f"a method has {counts[0]} settings on the test and {counts[-1]} on the training"
            raise BadInput(f"{text} set")

    def sweep(self, measure: str, swapped: bool = False) -> meta.Sweep:
        table = self.swapped if swapped else self.own
        sign = -1.0 if measure == "voi" else 1.0  # the only distance
        precision, recall = map(table.get, _PRECISION_RECALL.get(measure, ("", "")))
        training = None if self.training is None else self.training.sweep(measure)
        return meta.Sweep(sign * table[measure], precision, recall, training)


def human_pairs(
    dataset: Annotated, measures: Sequence[str], limit: int | None = None, workers: int = 1
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
    its cycles; the images left over are exchanged in a ring.
    """
    if len(images) < 2:
        raise BadInput("swapping needs at least two images")
    listed, here = published_rows("seism", "partners.csv"), set(images)
    published = {row["image"]: row["partner"] for row in listed}
    found: dict[str, str] = {}
    for image in images:
        other = published.get(image, image)
        while other not in here and other != image:
            other = published[other]
        found[image] = other
    alone = [image for image in images if found[image] == image]
    if len(alone) == 1:  # exchange it with another image and its partner
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
    raise BadInput(f"images of {sizes[0]} and {sizes[1]} cannot be swapped; use images of one size")


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
        found.append(
            [
                level.boundary_scores
                | ({} if level.comparison is None else scores_of(level.comparison, measures))
                for level in levels_of(method, away, ground_truths)
            ]
        )
    return found[0], found[1]


def _turned(result: Segmentation, shape: tuple[int, ...]) -> Segmentation:
    """A result that fits a ground truth of the other orientation."""
    sizes = {"labels": shape, "levels": tuple(2 * side + 1 for side in shape), "edges": shape}
    parts = {name: getattr(result, name) for name in sizes}
    fitting: dict[str, Any] = {
        n: turned(part, sizes[n]) for n, part in parts.items() if part is not None
    }
    return Segmentation(**fitting)


def _table(images: Sequence[Sequence[Scores]]) -> Columns:
    names = images[0][0]
    return {n: np.array([[level[n] for level in row] for row in images]) for n in names}


@dataclass(frozen=True, slots=True)
class MetaRow:
    """One measure: each requested meta-measure with its interval."""

    measure: str
    protocol: ProtocolName
    sihd: Interval | None
    sabd: Interval | None = None
    sisd: Interval | None = None

    @property
    def overall(self) -> float | None:
        """Global, the mean of the three; chance is 0 for a published SIHD, 0.5 for the others."""
        if self.sihd is None or self.sabd is None or self.sisd is None:
            return None
        return (self.sihd.value + self.sabd.value + self.sisd.value) / 3

    @property
    def value(self) -> float:
        """Global, or SIHD if it is the only one requested; rows are ranked by it."""
        return self.overall if self.overall is not None else self.sihd.value if self.sihd else 0.0


def meta_rows(
    pairs: PairScores | None,
    methods: Sequence[MethodSweeps],
    baselines: Sequence[MethodSweeps],
    measures: Sequence[str],
    protocols: Sequence[ProtocolName],
) -> list[MetaRow]:
    """The table: SIHD from people, SABD and SISD from methods and baselines.

    The corrected protocol takes settings from the sweeps' training images, or for each image from
    all others.
    """
    return [
        MetaRow(
            measure,
            protocol,
            _sihd(pairs, measure, protocol) if pairs is not None else None,
            *_of_methods(methods, baselines, measure, protocol),
        )
        for measure in measures
        for protocol in protocols
    ]


def density_charts(pairs: PairScores) -> list[page.Chart]:
    """Distributions of the scores of same and different pairs, by measure (Fig. 5)."""
    return [_densities(measure, pairs) for measure in pairs.same]


def _sihd(pairs: PairScores, measure: str, protocol: ProtocolName) -> Interval:
    """The decision is right for both pairs of an annotation, for one or for none."""
    found = meta.human_discrimination(pairs.same[measure], pairs.different[measure])
    right = (found.right_same.astype(float) + found.right_different) / 2
    limits = Resampling(pairs.images, seed="sihd").interval(right)
    if protocol == "corrected":
        return Interval(found.accuracy, limits.low, limits.high)
    return Interval(found.sihd, 2 * limits.low - 1, 2 * limits.high - 1)


def _of_methods(
    methods: Sequence[MethodSweeps],
    baselines: Sequence[MethodSweeps],
    measure: str,
    protocol: ProtocolName,
) -> tuple[Interval | None, Interval | None]:
    """SABD, where there are baselines, and SISD."""
    if not methods or measure not in methods[0].own:
        return None, None
    own, others = ([m.sweep(measure) for m in some] for some in (methods, baselines))
    away = [m.sweep(measure, swapped=True) for m in methods]
    drawn = Resampling(methods[0].images, seed="meta")
    swapped = drawn.interval(meta.against_swapped(own, away, protocol).mean(axis=0))
    if not baselines:
        return None, swapped
    return drawn.interval(meta.against_baselines(own, others, protocol).mean(axis=0)), swapped


KNOWN_MEASURES = [*FORMULAS, "fr", "fop", *BOUNDARY]
"""Measures that can be judged, those of boundaries last."""

NAMES = {
    "fb": "F_b, boundaries",
    "fb-contour": "F_b, contour grid",
    "fop": "F_op, objects and parts",
    "fr": "F_r, pairs of pixels",
    "ssc": "covering of the ground truth",
    "sc": "covering of the prediction",
    "dhd": "directional Hamming, dhd",
    "sdhd": "directional Hamming, sdhd",
    "vd": "van Dongen",
    "bgm": "bipartite matching, BGM",
    "bce": "bidirectional consistency, BCE",
    "gce": "global consistency, GCE",
    "lce": "local consistency, LCE",
    "voi": "variation of information",
    "nvoi": "normalised VoI",
    "pri": "Rand index, PRI",
}

_PROTOCOLS = (
    "**published**: SIHD is 1 minus both error rates, so that chance is 0; in SABD and SISD ties "
    "count as correct, and each method uses the setting that is best on these images.\n\n"
    "**corrected**: SIHD is balanced accuracy, so that chance is 50 in all three; ties count half, "
    "and each image is scored at a setting that was chosen on others."
)


def meta_sections(rows: Sequence[MetaRow], pairs: PairScores) -> list[page.Section]:
    """A table per protocol, best first, with the answer, then the densities of every measure."""
    ranked = sorted(rows, key=lambda row: (row.protocol != "published", -row.value))
    best = ranked[0]
    what = "Global" if best.overall is not None else "SIHD"
    tells = "discriminates" + (" best" if len({row.measure for row in ranked}) > 1 else "")
    answer = page.Answer(
        f"{NAMES[best.measure]} {tells} ({what} {100 * best.value:.1f} %).",
        f"{best.protocol.capitalize()} protocol; intervals are in the table.",
    )
    tables = [_meta_table(own) for own in grouped(ranked, lambda row: row.protocol).values()]
    text = (
        "Scores of a human partition compared with partitions of the same image, and of another "
        "image. The further apart the two curves, the better the measure."
    )
    return [
        page.Section("Meta-measures", blocks=[answer, *tables, page.Note(_PROTOCOLS)]),
        page.Section("Distribution of scores", text, [page.Multiples(density_charts(pairs))]),
    ]


_META = {"sihd": "SIHD", "sabd": "SABD", "sisd": "SISD", "overall": "Global"}


def _meta_table(ranked: Sequence[MetaRow]) -> page.Table:
    shown = [name for name in _META if any(getattr(row, name) is not None for row in ranked)]
    columns = [page.Column("measure")]
    columns += [page.Column(_META[n], "%", 1, percent=True, better="higher") for n in shown]
    rows: list[list[page.Cell]] = []
    for row in ranked:
        found = [getattr(row, name) for name in shown]
        values = (page.Value.of(f) if isinstance(f, Interval) else f for f in found)
        rows.append([page.Label(NAMES[row.measure], protocol=row.protocol), *values])
    protocol = ranked[0].protocol
    caption = f"{protocol.capitalize()}: with 95 % intervals over images"
    return page.Table(f"meta-measures-{protocol}", columns, rows, caption)


def _densities(measure: str, pairs: PairScores) -> page.Chart:
    same, different = pairs.same[measure], pairs.different[measure]
    spread, found = meta.densities(same, different), meta.human_discrimination(same, different)
    top = float(max(spread.same.max(), spread.different.max()))
    return page.Chart(
        NAMES[measure],
        page.Axis("bits" if measure == "voi" else "score"),
        page.Axis("density", 0),
        [
            page.Line("threshold", [found.threshold] * 2, [0, top], role="guide"),
            page.Line("another", spread.centres, spread.different),
            page.Line("same", spread.centres, spread.same),
        ],
        caption=f"SIHD {100 * found.sihd:.1f} % (published), "
        f"{100 * found.accuracy:.1f} % (corrected)",
    )

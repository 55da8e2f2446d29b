"""One job of the benchmark: a method's results on one image, at every setting."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from segmeter.benchmarks.seism.methods import People, number_in
from segmeter.core.benchmarks import Row
from segmeter.core.capabilities import Sweeps, SweptByRegions
from segmeter.core.errors import BadInput
from segmeter.core.models import Method, Segmentation
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene
from segmeter.measures.boundaries import BoundaryCounts, count_boundaries, outlines
from segmeter.measures.curves import THRESHOLDS, covering, sweep_edge_map
from segmeter.measures.hierarchies import Hierarchy
from segmeter.measures.outlines import Grid, Outline, outline
from segmeter.measures.partitions import scores_of
from segmeter.measures.tables import Comparison, Labels, Regions, compare, regions

# Where a hierarchy's strengths are no numbers in 0..1, it is swept by number of regions.
_REGION_COUNTS = (2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512)


@dataclass(frozen=True, slots=True)
class GroundTruths:
    """An image's ground truths, numbered and outlined once for all results.

    Boundaries are counted on the grids that have outlines.
    """

    partitions: tuple[Regions, ...]
    outlines: Mapping[Grid, tuple[Outline, ...]]
    threads: int = 1

    @classmethod
    def of(
        cls, labels: Sequence[Labels], grids: Iterable[Grid] = ("pixel",), threads: int = 1
    ) -> GroundTruths:
        numbered = [regions(part, f"ground truth {k}") for k, part in enumerate(labels, 1)]
        drawn = {grid: tuple(outlines(labels, grid)) for grid in grids}
        return cls(tuple(numbered), drawn, threads)

    def boundaries(self, labels: Labels, grid: Grid = "pixel") -> BoundaryCounts | None:
        if grid not in self.outlines:
            return None
        return count_boundaries(self.outlines[grid], outline(labels, grid), threads=self.threads)

    def without(self, place: int) -> GroundTruths:
        """All but one, for judging that one."""
        drawn = {grid: (*of[:place], *of[place + 1 :]) for grid, of in self.outlines.items()}
        numbered = (*self.partitions[:place], *self.partitions[place + 1 :])
        return GroundTruths(numbered, drawn, self.threads)

    def level(self, setting: str, threshold: float, labels: Labels) -> Level:
        """A partition compared with the ground truths."""
        compared = compare(self.partitions, labels)
        return Level(setting, threshold, self.boundaries(labels), compared)


@dataclass(frozen=True, slots=True)
class Level:
    """A result at one setting, compared with the ground truths."""

    setting: str
    threshold: float
    boundaries: BoundaryCounts | None
    comparison: Comparison | None

    @property
    def boundary_scores(self) -> dict[str, float]:
        counts = self.boundaries
        if counts is None:
            return {}
        return {"fb": counts.f, "pb": counts.precision, "rb": counts.recall}


def work(method: Method, scene: Scene, plan: Plan) -> list[Row]:
    """All rows of an image: one a setting, finest first where that is known."""
    ground_truths = GroundTruths.of(human_partitions(scene), threads=plan.threads)
    started = time.perf_counter()
    results = results_of(method, scene)
    looked = time.perf_counter()
    if isinstance(method, People):
        levels = _people(ground_truths, scene)
    else:
        levels = list(levels_of(method, results, ground_truths))
    measured = time.perf_counter()
    extra = {"seconds_encode": looked - started, "seconds_measure": measured - looked}
    return list(_rows(scene, levels, extra))


def human_partitions(scene: Scene) -> Sequence[Labels]:
    """People's partitions of a scene; BadInput where there are none."""
    if not scene.partitions:
        raise BadInput(
            f"{scene.name} has no human partitions; use a dataset that has, such as bsds500"
        )
    return scene.partitions


def results_of(method: Method, scene: Scene) -> Mapping[str, Segmentation]:
    """A method's results by setting; one result is its own sweep or has setting ''."""
    return method.sweep(scene) if isinstance(method, Sweeps) else {"": method.segment(scene)}


def levels_of(
    method: Method, results: Mapping[str, Segmentation], ground_truths: GroundTruths
) -> Iterator[Level]:
    """All results compared with the ground truths, hierarchies and edge maps at every threshold."""
    counts = method.region_counts if isinstance(method, SweptByRegions) else _REGION_COUNTS
    for name, result in results.items():
        if result.levels is not None:
            yield from _hierarchy_levels(name, Hierarchy.of(result.levels), ground_truths, counts)
        elif result.labels is not None:
            yield ground_truths.level(name, number_in(name, math.nan), result.labels)
        elif result.edges is not None:
            drawn, threads = ground_truths.outlines.get("pixel", ()), ground_truths.threads
            found = sweep_edge_map(drawn, result.edges, rule="seism", threads=threads)
            for threshold, boundaries in zip(THRESHOLDS.tolist(), found, strict=True):
                yield Level(f"{name} {threshold:.2f}".strip(), threshold, boundaries, None)
        else:
            raise BadInput("seism evaluates partitions, hierarchies and edge maps, not proposals")


def _people(ground_truths: GroundTruths, scene: Scene) -> list[Level]:
    if len(ground_truths.partitions) < 2:
        raise BadInput(f"{scene.name} has one annotator only; human agreement needs two")
    return [
        ground_truths.without(k).level(f"annotator {k + 1}", k + 1, labels)
        for k, labels in enumerate(scene.partitions)
    ]


def _hierarchy_levels(
    name: str, hierarchy: Hierarchy, ground_truths: GroundTruths, counts: Sequence[int]
) -> Iterator[Level]:
    """Levels at thresholds 0.01 to 0.99, or by numbers of regions.

    They are nested, so those with equally many regions are equal, and measured once.
    """
    settings = [(f"{t:.2f}", t, t) for t in THRESHOLDS.tolist()]
    if hierarchy.values.size and hierarchy.values[-1] > 1:
        ordered = sorted(counts, reverse=True)
        settings = [(f"{n} regions", float(n), hierarchy.threshold_for(n)) for n in ordered]
    finest = compare(ground_truths.partitions, hierarchy.finest)
    known: dict[int, tuple[BoundaryCounts | None, Comparison]] = {}
    for setting, parameter, threshold in settings:
        groups = hierarchy.groups(threshold)
        count = int(groups.max()) + 1
        if count not in known:
            boundaries = ground_truths.boundaries(hierarchy.labels(threshold))
            known[count] = boundaries, finest.merged(groups)
        yield Level(f"{name} {setting}".strip(), parameter, *known[count])


def _rows(scene: Scene, levels: Sequence[Level], extra: Mapping[str, float]) -> Iterator[Row]:
    best = _best_covered(levels)
    shared = {id(level.comparison): level.comparison for level in levels}  # by equal levels
    known = {key: _region_columns(comparison) for key, comparison in shared.items()}
    for place, level in enumerate(levels, start=1):
        yield {
            "place": place,
            "setting": level.setting,
            "threshold": level.threshold,
            **level.boundary_scores,
            **({} if level.boundaries is None else pixel_counts(level.boundaries)),
            **known[id(level.comparison)],
            "best_covered": best,
            "cluster": scene.id,
            "shape": list(scene.partitions[0].shape),
            **extra,
        }


def pixel_counts(counts: BoundaryCounts) -> Row:
    """Columns of boundary pixels, which statistics pool over images."""
    return {
        "matched_ground_truth": counts.matched_ground_truth,
        "ground_truth_pixels": counts.ground_truth,
        "matched_prediction": counts.matched_prediction,
        "prediction_pixels": counts.prediction,
    }


def _region_columns(comparison: Comparison | None) -> Row:
    """All region measures, and what covering needs to be pooled; nothing for edge maps."""
    if comparison is None:
        return {}
    found = covering([comparison])
    return {
        "regions": int(comparison.tables[0].prediction_areas.size),
        **scores_of(comparison),
        "covered": float(found.covered[0]),
        "coverable": found.coverable,
    }


def _best_covered(levels: Sequence[Level]) -> float | None:
    """Covering when every ground-truth region may choose its own setting."""
    comparisons = {id(c): c for level in levels if (c := level.comparison) is not None}
    shapes = {tuple(t.ground_truth_areas.size for t in c.tables) for c in comparisons.values()}
    if len(shapes) != 1:  # edge maps have no regions, people have each their own ground truths
        return None
    return covering(comparisons.values()).best

"""One job of the benchmark: a picture's edge map at every threshold against all annotators."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from segmeter.core.benchmarks import Row
from segmeter.core.errors import BadInput
from segmeter.core.models import Method, Reading, Segmentation
from segmeter.core.scenes import Scene
from segmeter.measures.boundaries import BoundaryCounts, outlines
from segmeter.measures.sweeps import THRESHOLDS, contour_strengths, sweep_edge_map

__all__ = ["rows_of"]


@runtime_checkable
class ByReading(Protocol):
    """A method whose sweep has an entry for each reading."""

    def sweep(self, scene: Scene) -> Mapping[str, Segmentation]: ...


def rows_of(
    method: Method, scene: Scene, readings: Sequence[Reading], threads: int = 1
) -> list[Row]:
    """All rows of a picture: one per reading and threshold."""
    if not scene.partitions:
        raise BadInput(
            f"{scene.name} has no partitions drawn by people; take a data set that has, "
            "such as bsds500"
        )
    truths = outlines(scene.partitions)
    started = time.perf_counter()
    results = _results(method, scene, readings)
    seconds = {"seconds_look": time.perf_counter() - started}
    known: dict[int, list[BoundaryCounts]] = {}  # readings may share one map
    rows: list[Row] = []
    for reading, result in results.items():
        if id(result) not in known:
            edges = _edges(result, scene)
            known[id(result)] = sweep_edge_map(truths, edges, rule="edges", threads=threads)
        rows += _rows(scene, reading, known[id(result)], seconds)
    return rows


def _results(
    method: Method, scene: Scene, readings: Sequence[Reading]
) -> dict[Reading, Segmentation]:
    if isinstance(method, ByReading):
        found = method.sweep(scene)
        if set(readings) <= set(found):
            return {reading: found[reading] for reading in readings}
    one = method.segment(scene)
    return dict.fromkeys(readings, one)


def _edges(result: Segmentation, scene: Scene) -> npt.NDArray[np.float32]:
    if result.edges is not None:
        edges = result.edges
    elif result.levels is not None:
        edges = contour_strengths(result.levels)
    else:
        raise BadInput("edges judges edge maps and hierarchies, not partitions or proposals")
    if edges.shape != scene.partitions[0].shape:
        size = " x ".join(map(str, edges.shape[::-1]))
        raise BadInput(f"{scene.name}: the edge map is {size}, not the size of the picture")
    return edges


def _rows(
    scene: Scene, reading: Reading, counts: Sequence[BoundaryCounts], seconds: Mapping[str, float]
) -> Iterator[Row]:
    for place, (threshold, count) in enumerate(zip(THRESHOLDS.tolist(), counts, strict=True), 1):
        yield {
            "target": "picture",
            "user": "",
            "reading": reading,
            "round": place,
            "threshold": threshold,
            "f": count.f,
            "matched_truth": count.matched_truth,
            "truth_pixels": count.truth,
            "matched_guess": count.matched_guess,
            "guess_pixels": count.guess,
            "cluster": scene.id,
            **seconds,
        }

"""One job of the benchmark: an image's edge map at every threshold against all annotators."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from segmeter.core.benchmarks import Row
from segmeter.core.errors import BadInput
from segmeter.core.models import Method, ProtocolName, Segmentation
from segmeter.core.scenes import Scene
from segmeter.measures.boundaries import BoundaryCounts, outlines
from segmeter.measures.sweeps import THRESHOLDS, contour_strengths, sweep_edge_map

__all__ = ["rows_of"]


@runtime_checkable
class ByProtocol(Protocol):
    """A method whose sweep has an entry for each protocol."""

    def sweep(self, scene: Scene) -> Mapping[str, Segmentation]: ...


def rows_of(
    method: Method, scene: Scene, protocols: Sequence[ProtocolName], threads: int = 1
) -> list[Row]:
    """All rows of an image: one per reading and threshold."""
    if not scene.partitions:
        raise BadInput(
            f"{scene.name} has no partitions drawn by people; take a data set that has, "
            "such as bsds500"
        )
    ground_truths = outlines(scene.partitions)
    started = time.perf_counter()
    results = _results(method, scene, protocols)
    seconds = {"seconds_encode": time.perf_counter() - started}
    known: dict[int, list[BoundaryCounts]] = {}  # protocols may share one map
    rows: list[Row] = []
    for protocol, result in results.items():
        if id(result) not in known:
            edges = _edges(result, scene)
            known[id(result)] = sweep_edge_map(ground_truths, edges, rule="edges", threads=threads)
        rows += _rows(scene, protocol, known[id(result)], seconds)
    return rows


def _results(
    method: Method, scene: Scene, protocols: Sequence[ProtocolName]
) -> dict[ProtocolName, Segmentation]:
    if isinstance(method, ByProtocol):
        found = method.sweep(scene)
        if set(protocols) <= set(found):
            return {protocol: found[protocol] for protocol in protocols}
    one = method.segment(scene)
    return dict.fromkeys(protocols, one)


def _edges(result: Segmentation, scene: Scene) -> npt.NDArray[np.float32]:
    if result.edges is not None:
        edges = result.edges
    elif result.levels is not None:
        edges = contour_strengths(result.levels)
    else:
        raise BadInput("edges judges edge maps and hierarchies, not partitions or proposals")
    if edges.shape != scene.partitions[0].shape:
        size = " x ".join(map(str, edges.shape[::-1]))
        raise BadInput(f"{scene.name}: the edge map is {size}, not the size of the image")
    return edges


def _rows(
    scene: Scene,
    protocol: ProtocolName,
    counts: Sequence[BoundaryCounts],
    seconds: Mapping[str, float],
) -> Iterator[Row]:
    for threshold, count in zip(THRESHOLDS.tolist(), counts, strict=True):
        yield {
            "protocol": protocol,
            "threshold": threshold,
            "f": count.f,
            "matched_ground_truth": count.matched_ground_truth,
            "ground_truth_pixels": count.ground_truth,
            "matched_prediction": count.matched_prediction,
            "prediction_pixels": count.prediction,
            "cluster": scene.id,
            **seconds,
        }

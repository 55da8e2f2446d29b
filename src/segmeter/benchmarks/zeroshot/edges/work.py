"""One job of the benchmark: the edge maps of one image, cut at every threshold."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from segmeter.benchmarks.seism.work import human_partitions, pixel_counts
from segmeter.core.benchmarks import Row
from segmeter.core.capabilities import SweepsProtocols
from segmeter.core.errors import BadInput
from segmeter.core.models import Method, Segmentation
from segmeter.core.plans import Plan
from segmeter.core.scenes import Scene
from segmeter.measures.boundaries import BoundaryCounts, outlines
from segmeter.measures.sweeps import THRESHOLDS, contour_strengths, sweep_edge_map


def work(method: Method, scene: Scene, plan: Plan) -> list[Row]:
    """All rows of an image: one per protocol and threshold."""
    ground_truths = outlines(human_partitions(scene))
    started = time.perf_counter()
    if isinstance(method, SweepsProtocols):
        found = method.sweep(scene)
        results = {protocol: found[protocol] for protocol in plan.protocols}
    else:
        results = dict.fromkeys(plan.protocols, method.segment(scene))
    seconds = time.perf_counter() - started
    known: dict[int, list[BoundaryCounts]] = {}  # protocols may share one map
    rows: list[Row] = []
    for protocol, result in results.items():
        if id(result) not in known:
            edges, threads = _edges(result, scene), plan.threads
            known[id(result)] = sweep_edge_map(ground_truths, edges, rule="edges", threads=threads)
        rows += [
            {"protocol": protocol, "threshold": threshold, "f": counts.f, "cluster": scene.id}
            | pixel_counts(counts)
            | {"seconds_encode": seconds}
            for threshold, counts in zip(THRESHOLDS.tolist(), known[id(result)], strict=True)
        ]
    return rows


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

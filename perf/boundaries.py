"""F_b: SciPy's way against ours, the original's times against ours, and a whole sweep.

    python perf/boundaries.py            # the first two parts, one thread
    python perf/boundaries.py --sweep    # also all available images x 99 thresholds, two threads

Partitions and images of BSDS500 are taken from `$SEGMETER_SHARED/data` (else `../shared`);
without them random Voronoi partitions stand in, and only the first part is shown.
"""

from __future__ import annotations

import csv
import os
import sys
import time
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

import plain_boundaries
from segmeter.datasets.bsds500 import Bsds500
from segmeter.measures.boundaries import BoundaryCounts, boundary_counts, outlines
from segmeter.measures.curves import THRESHOLDS, PooledCounts, summarize, sweep_edge_map
from segmeter.measures.suppression import suppress
from stopwatch import milliseconds, row

SHARED = Path(os.environ.get("SEGMETER_SHARED", Path(__file__).parents[2] / "shared"))
TIMING = SHARED / "golden" / "seism" / "timing.csv"
Labels = npt.NDArray[Any]


def drawn_partitions(count: int) -> list[Labels]:
    """Voronoi partitions of 321 x 481 whose seeds wander a little from one to the next."""
    generator = np.random.default_rng(1)
    seeds = generator.uniform((0, 0), (321, 481), size=(40, 2))
    grid = np.argwhere(np.ones((321, 481), dtype=bool))
    return [
        cKDTree(seeds + generator.normal(0, 3, seeds.shape)).query(grid)[1].reshape(321, 481)
        for _ in range(count)
    ]


def against_scipy(name: str, people: list[Labels]) -> None:
    prediction, ground_truths = people[0], people[1:]
    ours = boundary_counts(ground_truths, prediction)
    theirs = plain_boundaries.boundary_counts(ground_truths, prediction)
    assert theirs[:2] == (ours.matched_ground_truth, ours.ground_truth)
    assert theirs[3] == ours.prediction
    row(
        f"F_b, {name}, {len(ground_truths)} ground truths",
        milliseconds(lambda: plain_boundaries.boundary_counts(ground_truths, prediction), 1),
        milliseconds(lambda: boundary_counts(ground_truths, prediction)),
    )


def against_the_original(data: Bsds500) -> None:
    """CPU seconds that the original took, on its machine, against ours on this one."""
    cases = [r for r in csv.DictReader(TIMING.open()) if r["case"].startswith("annotator 1")]
    print(f"\nThe original's CPU time ({cases[0]['cpu']}) against ours, one thread:")
    for grid in ("pixel", "contour"):
        theirs, ours = [], []
        for case in cases:
            people = data.partitions(case["image"])
            theirs.append(1000 * float(case[f"fb_{grid}_cpu_s"]))
            ours.append(milliseconds(partial(boundary_counts, people[1:], people[0], grid), 5))
        row(f"mean of {len(cases)} images, {grid} grid", mean(theirs), mean(ours))
        ratio = mean(theirs) / mean(ours)
        print(f"    60 x holds as long as this machine's core is at most {ratio / 60:.1f} x theirs")


def whole_sweep(data: Bsds500) -> None:
    """Every image available at 99 thresholds: edge maps of the brightness gradient."""
    names = data.scenes()
    cpu, wall = time.process_time(), time.perf_counter()
    counts = [_sweep(data, name) for name in names]
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"\n{len(names)} images x {len(THRESHOLDS)} thresholds, two threads:", end=" ")
    print(f"{wall:.0f} s of wall, {cpu:.0f} s of CPU time; nothing is left out (reading,")
    print("gradient, suppression, thinning, matching)")
    pixels = np.mean([[c.prediction for c in image] for image in counts])
    curve = summarize(PooledCounts.of(THRESHOLDS, counts), "bench")
    print(f"    {pixels:.0f} boundary pixels a map; ODS {curve.ods.f:.3f}, OIS {curve.ois.f:.3f}")


def _sweep(data: Bsds500, name: str) -> list[BoundaryCounts]:
    grey = data.load(name).pixels.mean(axis=2)
    strength = np.hypot(*np.gradient(grey))
    strength /= np.quantile(strength, 0.995)
    ground_truths = outlines(data.partitions(name))
    return sweep_edge_map(ground_truths, suppress(np.minimum(strength, 1)), threads=2)


def main() -> None:
    print(f"{'':<44} {'SciPy':>13} {'ours':>13} {'ratio':>10}   (CPU, one thread)")
    against_scipy("drawn", drawn_partitions(6))
    if not TIMING.is_file():
        return
    data = Bsds500(SHARED / "data")
    for name in ("100007", "2018"):
        against_scipy(f"BSDS500 {name}", list(data.partitions(name)))
    against_the_original(data)
    if "--sweep" in sys.argv:
        whole_sweep(data)


if __name__ == "__main__":
    main()

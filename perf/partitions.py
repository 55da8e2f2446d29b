"""Region measures: a plain NumPy version against ours, and the original's times against ours.

    python perf/partitions.py

Partitions of BSDS500 are taken from `$SEGMETER_SHARED/data` (else `../shared`); without them
drawn ones stand in, and only the ratio against the plain version is shown.
"""

from __future__ import annotations

import csv
import math
from functools import partial
from statistics import mean

import plain_partitions
from boundaries import SHARED, TIMING, Labels, drawn_partitions
from segmeter.datasets.bsds500 import Bsds500
from segmeter.measures.curves import THRESHOLDS
from segmeter.measures.hierarchies import Hierarchy
from segmeter.measures.partitions import scores, scores_of
from segmeter.measures.tables import compare
from segmeter.models.partitioners import SlicHierarchy
from stopwatch import milliseconds, row


def against_numpy(name: str, people: list[Labels]) -> None:
    """All measures of one partition against all others; both give the same values."""
    prediction, ground_truths = people[0], people[1:]
    ours, theirs = (
        scores(ground_truths, prediction),
        plain_partitions.scores(ground_truths, prediction),
    )
    for measure, value in theirs.items():
        assert math.isclose(ours[measure], value, abs_tol=1e-11), measure
    row(
        f"14 region measures, {name}, {len(ground_truths)} ground truths",
        milliseconds(lambda: plain_partitions.scores(ground_truths, prediction), 3),
        milliseconds(lambda: scores(ground_truths, prediction)),
    )


def against_the_original(data: Bsds500) -> None:
    """CPU seconds that the original took, on its machine, against ours on this one."""
    cases = [r for r in csv.DictReader(TIMING.open()) if r["case"].startswith("annotator 1")]
    theirs, ours = [], []
    for case in cases:
        people = list(data.partitions(case["image"]))
        theirs.append(1000 * float(case["all_13_region_measures_cpu_s"]))
        ours.append(milliseconds(partial(scores, people[1:], people[0]), 5))
    print(f"\nThe original's CPU time ({cases[0]['cpu']}) against ours, one thread:")
    row(f"mean of {len(cases)} images, 13 measures (ours: 20)", mean(theirs), mean(ours))
    print(f"    the slowest of ours {max(ours):.2f} ms; under 10 ms: {max(ours) < 10}")


def levels_by_merging(data: Bsds500, name: str) -> None:
    """A hierarchy at 99 levels: every level counted from scratch, or tables merged."""
    levels = SlicHierarchy().segment(data.load(name)).levels
    assert levels is not None
    hierarchy = Hierarchy.of(levels)
    ground_truths, thresholds = list(data.partitions(name)), THRESHOLDS.tolist()

    def recounted() -> list[dict[str, float]]:
        return [scores(ground_truths, hierarchy.labels(t)) for t in thresholds]

    def merged() -> list[dict[str, float]]:
        finest = compare(ground_truths, hierarchy.finest)
        return [scores_of(finest.merged(hierarchy.groups(t))) for t in thresholds]

    print()
    row(
        f"{name}: 99 levels, recounted and merged",
        milliseconds(recounted, 1),
        milliseconds(merged, 1),
    )


def main() -> None:
    print(f"{'':<44} {'plain':>13} {'ours':>13} {'ratio':>10}   (CPU, one thread)")
    against_numpy("drawn", drawn_partitions(6))
    if not TIMING.is_file():
        return
    data = Bsds500(SHARED / "data")
    for name in ("100007", "2018"):
        against_numpy(f"BSDS500 {name}", list(data.partitions(name)))
    against_the_original(data)
    levels_by_merging(data, "2018")


if __name__ == "__main__":
    main()

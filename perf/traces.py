"""Compare a run with the reference traces, click by click.

    python perf/traces.py RUN [RUN...] [--traces ../shared/golden/traces]

For every model, dataset and reading of the runs: how many of the first three clicks fall on
the same pixel as the authors' own loop put them, and how far IoU lies apart, over all rounds
and over those up to which every click was the same.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from collections import defaultdict
from pathlib import Path

import numpy as np

from segmeter.store import Run

FOLDERS = {"grabcut": "GrabCut", "berkeley": "Berkeley", "davis": "DAVIS", "coco-mval": "COCO_MVal"}


def main() -> None:
    shared = Path(os.environ.get("SEGMETER_SHARED", "../shared"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--traces", type=Path, default=shared / "golden" / "traces")
    chosen = parser.parse_args()
    for run in chosen.runs:
        for (model, dataset, protocol), rows in sorted(rows_of(run).items()):
            path = trace_path(chosen.traces, model, dataset, protocol)
            if path.is_file():
                print(f"{model}, {dataset}, {protocol}: {agreement(rows, read_trace(path))}")


def rows_of(run: Path) -> dict[tuple[str, str, str], dict[tuple[str, int], dict[str, float]]]:
    """Rows by model, dataset and reading, then by scene and round."""
    table = Run.open(run).sql(
        "select model, dataset, protocol, scene, round, y, x, positive, iou from rows "
        "where \"user\" = 'centre-click'"
    )
    groups: dict[tuple[str, str, str], dict[tuple[str, int], dict[str, float]]] = defaultdict(dict)
    for row in table.to_pylist():
        key = row["model"], row["dataset"], row["protocol"]
        groups[key][row["scene"], row["round"]] = row
    return groups


def trace_path(traces: Path, model: str, dataset: str, protocol: str) -> Path:
    suffix = "_sound" if protocol == "corrected" else ""
    return traces / f"{model}_{FOLDERS.get(dataset, dataset)}{suffix}.csv.gz"


def read_trace(path: Path) -> dict[tuple[str, int], dict[str, str]]:
    with gzip.open(path, "rt") as stream:
        return {(Path(row["target"]).stem, int(row["k"])): row for row in csv.DictReader(stream)}


def agreement(
    ours: dict[tuple[str, int], dict[str, float]], trace: dict[tuple[str, int], dict[str, str]]
) -> str:
    same, apart, apart_while_same = [], [], []
    parted: set[str] = set()
    for (scene, k), theirs in sorted(trace.items()):
        row = ours.get((scene, k))
        if row is None or row["y"] is None or theirs["y"] == "":  # content: no click to compare
            continue
        equal = (row["y"], row["x"]) == (float(theirs["y"]), float(theirs["x"]))
        if k <= 3:
            same.append(equal)
        if not equal:
            parted.add(scene)
        apart.append(abs(row["iou"] - float(theirs["iou"])))
        if scene not in parted:
            apart_while_same.append(apart[-1])
    targets = len({scene for scene, _ in trace})
    return (
        f"{targets} targets, {100 * np.mean(same):.1f} % of the first three clicks on the same "
        f"pixel; IoU apart by at most {max(apart_while_same):.5f} while all clicks are the same "
        f"({len(apart_while_same)} of {len(apart)} rounds), {np.mean(apart):.5f} in the mean"
    )


if __name__ == "__main__":
    main()

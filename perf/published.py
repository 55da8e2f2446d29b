"""The published tables from real weights and real images, ours and the papers'.

    python perf/published.py [--data DATA] [--weights WEIGHTS] [--out runs/published]

Runs the click benchmark for every model and dataset available, in both protocols, resuming
what was done before, and prints NoC@90, NoF@90, AuC and IoU@1 next to the figures of the
RClicks paper (Tables 9 to 12) for the whole sets.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from segmeter.benchmarks.noc import Noc
from segmeter.core.catalogue import Spec
from segmeter.core.errors import NotFound
from segmeter.core.plans import Plan
from segmeter.engine import run_plan
from segmeter.runtime.remote_files import Roots
from segmeter.store import Run

MEASURES = ("noc@90", "nof@90", "auc", "iou@1")
PAPER = {
    ("sam2-hiera-tiny", "grabcut"): (1.52, 0, 98.21, 81.70),
    ("sam2-hiera-tiny", "berkeley"): (1.92, 1, 95.82, 77.97),
    ("sam2-hiera-tiny", "davis"): (4.59, 51, 91.70, 70.47),
    ("sam2-hiera-tiny", "coco-mval"): (3.76, 48, 92.45, 63.63),
    ("mobile-sam", "grabcut"): (1.70, 0, 96.92, 79.14),
    ("mobile-sam", "berkeley"): (2.73, 3, 93.56, 76.83),
    ("mobile-sam", "davis"): (5.92, 67, 88.79, 61.87),
    ("mobile-sam", "coco-mval"): (5.24, 101, 89.26, 65.53),
    # The same design and probably the same weights as RITM's HRNet-18 (COCO+LVIS).
    ("eiseg-hrnet18-ocr64", "grabcut"): (1.54, 0, 97.33, 88.33),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    shared = Path(os.environ.get("SEGMETER_SHARED", "../shared"))
    parser.add_argument("--data", type=Path, default=shared / "data")
    parser.add_argument("--weights", type=Path, default=shared / "weights")
    parser.add_argument("--out", type=Path, default=Path("runs/published"))
    parser.add_argument("--model", action="append", help="only these models")
    parser.add_argument("--dataset", action="append", help="only these datasets")
    parser.add_argument("--workers", type=int)
    chosen = parser.parse_args()
    roots = Roots(chosen.data, chosen.weights)
    print(f"{'':<34}" + "".join(f"{name:>18}" for name in MEASURES))
    for (model, dataset), paper in PAPER.items():
        if model not in (chosen.model or [model]) or dataset not in (chosen.dataset or [dataset]):
            continue
        out = chosen.out / f"{model}-{dataset}"
        try:
            run_plan(
                Plan("noc", (Spec(model),), (Spec(dataset),)),
                out,
                roots=roots,
                workers=chosen.workers,
            )
        except NotFound as error:
            print(f"{model}, {dataset}: left out, {error}")
            continue
        show(out, model, dataset, paper)


def show(out: Path, model: str, dataset: str, paper: tuple[float, ...]) -> None:
    rows = {(r.protocol, r.statistic): r for r in Noc().summary(Run.open(out))}
    for protocol in ("published", "corrected"):
        cells = [rows[protocol, name] for name in MEASURES]
        values = "".join(f"{c.value:8.2f} ±{(c.high - c.low) / 2:7.2f} " for c in cells)
        print(f"{model + ', ' + dataset:<24} {protocol:<9}{values} ({cells[0].targets} targets)")
    print(f"{'':<24} {'paper':<9}" + "".join(f"{value:8.2f} {'':<9}" for value in paper))


if __name__ == "__main__":
    main()

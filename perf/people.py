"""People's clicks on real weights and images, compared with the RClicks paper's tables.

    python perf/people.py [--data DATA] [--weights WEIGHTS] [--out runs/people] [--limit N]

Runs `rclicks` with SAM 2 tiny and MobileSAM on GrabCut in both protocols (a minute or two on
a GPU, more than an hour without), resuming what was done before, and prints the table of
docs/benchmarks/rclicks.md.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from segmeter.benchmarks.rclicks import Rclicks
from segmeter.core.benchmarks import SummaryRow
from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.engine import run_plan
from segmeter.runtime.remote_files import Roots
from segmeter.store import Run

MODELS = {"sam2-hiera-tiny": "SAM 2 Hiera-T", "mobile-sam": "MobileSAM"}
# Tables 9, 11 and 12 of the paper, GrabCut: the statistics of `CELLS` in their order.
PAPER = {
    "sam2-hiera-tiny": (1.52, 1.60, 0.23, 7.61, 11.95, 8.46, 97.99, -0.19, 0.72, 77.24),
    "mobile-sam": (1.70, 1.81, 0.32, 9.91, 11.50, 8.92, 96.90, -0.17, 1.04, 77.02),
}
# Heading, decimals, and the name in `published` and in `corrected`.
CELLS = (
    ("Base NoC", 2, "base-noc", "base-noc"),
    ("Sample", 2, "sample-noc", "sample-noc"),
    ("± std", 2, "std-noc", "std-noc-unbiased"),
    ("ΔSB %", 1, "dsb-noc", "dsb-noc-ratio"),
    ("ΔGR %", 1, "dgr-noc", "dgr-noc-ratio"),
    ("ΔHH %", 1, "dhh-noc", "dhh-noc-ratio"),
    ("Sample AuC", 2, "sample-auc", "sample-auc"),
    ("ΔGR AuC", 2, "dgr-auc", "dgr-auc-all"),
    ("NSR@20 %", 2, "nsr", "nsr-unbiased"),
    ("Sample@1", 2, "iou@1", "iou@1"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    shared = Path(os.environ.get("SEGMETER_SHARED", "../shared"))
    parser.add_argument("--data", type=Path, default=shared / "data")
    parser.add_argument("--weights", type=Path, default=shared / "weights")
    parser.add_argument("--out", type=Path, default=Path("runs/people"))
    parser.add_argument("--limit", type=int)
    parser.add_argument("--workers", type=int)
    chosen = parser.parse_args()
    if not chosen.data.is_dir() or not chosen.weights.is_dir():
        print("skipped: no images and weights; say where they are with --data and --weights")
        return
    models = tuple(Spec(name) for name in MODELS)
    plan = Plan("rclicks", models, (Spec("grabcut"),), limit=chosen.limit)
    run_plan(plan, chosen.out, roots=Roots(chosen.data, chosen.weights), workers=chosen.workers)
    show(Rclicks().summary(Run.open(chosen.out)))


def show(rows: list[SummaryRow]) -> None:
    """A Markdown table: the paper's row, ours in both protocols, and its null expectation."""
    known: dict[tuple[str, str, object], SummaryRow] = {
        (r.model, r.protocol, r.statistic): r for r in rows if r.user != "people"
    }
    print("| model | targets | | " + " | ".join(head for head, *_ in CELLS) + " |")
    print("|---|---:|---|" + "---:|" * len(CELLS))
    for model, words in MODELS.items():
        if not any(name == model for name, _, _ in known):
            continue
        cells = zip(CELLS, PAPER[model], strict=True)
        print(f"| {words} | 50 | paper | " + " | ".join(f"{v:.{c[1]}f}" for c, v in cells) + " |")
        for place, protocol in ((2, "published"), (3, "corrected")):
            found = [known.get((model, protocol, cell[place])) for cell in CELLS]
            first = next(row for row in found if row is not None)
            told = [_told(row, cell[1]) for row, cell in zip(found, CELLS, strict=True)]
            print(f"|  | {first.targets} | {protocol} | " + " | ".join(told) + " |")
            null = [known.get((model, protocol, f"{cell[place]}:null")) for cell in CELLS]
            given = [
                "" if n is None else f"{n.value:+.{c[1]}f}"
                for n, c in zip(null, CELLS, strict=True)
            ]
            print("|  |  | under the null | " + " | ".join(given) + " |")


def _told(row: SummaryRow | None, digits: int) -> str:
    if row is None:
        return ""
    return f"{row.value:.{digits}f} ± {(row.high - row.low) / 2:.{digits}f}"


if __name__ == "__main__":
    main()

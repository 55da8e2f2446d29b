"""Size of the report of 40 images, 20 rounds and three models, two of them with ragged masks.

    python perf/page_size.py --data DATA
    python perf/page_size.py --dataset mini --images 2 --rounds 2

Models are synthetic. Sessions end at 95 % IoU or after all rounds (`--whole`: never at a goal), so
that models have different numbers of rounds. Prints objects, rounds and the page's megabytes; the
goal is under 5 MB for 40 images.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import segmeter

MODELS = ("synthetic-noisy?square=3", "synthetic-noisy", "disc")
DATASETS = ("grabcut", "berkeley", "davis", "coco-mval")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the datasets")
    parser.add_argument("--dataset", action="append", help=f"by default {', '.join(DATASETS)}")
    parser.add_argument("--images", type=int, default=10, help="of each dataset")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--whole", action="store_true", help="all rounds, in both protocols")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = segmeter.evaluate(
            list(MODELS), options.dataset or list(DATASETS), data=options.data, out=f"{folder}/run",
            limit=options.images, rounds=options.rounds, until=None if options.whole else "95",
            protocols="both" if options.whole else "corrected",
        )  # fmt: skip
        for row in run.sql("""
            select model, count(distinct (dataset, scene)) as images, sum(rounds) as rounds,
                   count(*) as sessions
            from (select model, dataset, scene, max(round) as rounds from rows
                  group by model, dataset, scene, target, "user", protocol)
            group by model order by model
        """).to_pylist():
            print(
                f"{row['model']}: {row['images']} images, {row['sessions']} sessions, "
                f"{row['rounds']} rounds"
            )
        print(f"page: {run.report().stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

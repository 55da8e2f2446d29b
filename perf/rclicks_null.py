"""Which published effects of clicking groups are no larger than chance gives.

    python perf/rclicks_null.py [--tables FOLDER] [--repetitions 100]

Simulates distributions without any effect through the published formulas and reads the figures of
the paper's Tables 9 and 10 again (they lie in `perf/rclicks_tables`): once from their own columns,
once against distributions with the printed mean and spread.
Prints the tables of docs/benchmarks/rclicks-null.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rclicks_paper import (
    EFFECTS,
    TARGETS,
    Cell,
    Conclusion,
    judge_cell,
    noc_cells,
)
from rclicks_simulated_nulls import NULLS, under_the_null

WORDS = {"dsb": "ΔSB", "dgr": "ΔGR", "dhh": "ΔHH"}
PRINTED = tuple(f"{name}-noc" for name in EFFECTS)
RATIOS = tuple(f"{name}-noc-ratio" for name in EFFECTS)


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table; numbers to the right."""
    print("| " + " | ".join(heads) + " |")
    print("|---|" + "---:|" * (len(heads) - 1))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print()


def null_simulation(repetitions: int) -> None:
    """Values of the formulas when all users of a target draw from one distribution."""
    rows = []
    for words, targets, law in NULLS:
        names = ("sample-noc", "std-noc", *PRINTED, *RATIOS)
        found = under_the_null(law, targets, repetitions, words, names)
        mean = {name: float(values.mean()) for name, values in found.items()}
        rows.append(
            [
                words,
                targets,
                f"{mean['sample-noc']:.2f} ± {mean['std-noc']:.2f}",
                *(f"{100 * mean[name]:+.1f} %" for name in PRINTED),
                " / ".join(f"{100 * mean[name]:+.1f}" for name in RATIOS),
            ]
        )
    heads = [
        "distribution of every player",
        "targets",
        "clicks",
        *WORDS.values(),
        "ratio of means, %",
    ]
    table(heads, rows)


def own_columns(cells: Sequence[Cell]) -> None:
    """The printed increase over the robot, and the one in the same row's means."""
    rows = []
    for dataset in [*TARGETS, "all"]:
        here = [c for c in cells if dataset in (c.dataset, "all")]
        smaller = [c for c in here if c.ratio < 0]
        rows.append(
            [
                dataset,
                len(here),
                f"{np.mean([c.dsb for c in here]):+.1f} %",
                f"{np.mean([c.ratio for c in here]):+.1f} %",
                f"{len(smaller)}, of which {sum(c.dsb > 0 for c in smaller)} print ΔSB > 0",
            ]
        )
    table(
        ["dataset", "models", "printed ΔSB", "Sample / Base - 1", "rows with Sample < Base"], rows
    )


def conclusions(judged: Sequence[tuple[Cell, dict[str, Conclusion]]]) -> None:
    """How many printed effects are within what chance gives at the printed mean and spread."""
    rows = []
    for dataset in TARGETS:
        here = [v for c, v in judged if c.dataset == dataset]
        for name, words in WORDS.items():
            found = [v[name] for v in here]
            nothing, doubtful = sum(v.nothing for v in found), sum(v.doubtful for v in found)
            rows.append(
                [
                    f"{dataset} {words}",
                    f"{np.mean([v.printed for v in found]):+.1f} %",
                    f"{np.mean([v.steps[1] for v in found]):+.1f} %",
                    f"{np.mean([v.trials[1] for v in found]):+.1f} %",
                    nothing,
                    doubtful,
                    len(found) - nothing - doubtful,
                ]
            )
    heads = [
        "effect",
        "printed",
        "small steps",
        "wide scatter",
        "within chance",
        "doubtful",
        "beyond",
    ]
    table(heads, rows)


def families(judged: Sequence[tuple[Cell, dict[str, Conclusion]]]) -> None:
    """The same by family of models, for the group effect."""
    names = dict.fromkeys(c.model.split(" ")[0] for c, _ in judged)
    rows = []
    for name in names:
        here = [v["dgr"] for c, v in judged if c.model.split(" ")[0] == name]
        nothing, doubtful = sum(v.nothing for v in here), sum(v.doubtful for v in here)
        rows.append([name, len(here), nothing, doubtful, len(here) - nothing - doubtful])
    table(["ΔGR of", "cells", "within chance", "doubtful", "beyond"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, default=Path(__file__).parent / "rclicks_tables")
    parser.add_argument("--repetitions", type=int, default=100)
    chosen = parser.parse_args()
    print("## Distributions without an effect\n")
    null_simulation(chosen.repetitions)
    cells = noc_cells(chosen.tables)
    print("## The paper's own columns\n")
    own_columns(cells)
    judged = [(cell, judge_cell(cell, chosen.repetitions)) for cell in cells]
    print("## Printed effects against chance of the printed size\n")
    conclusions(judged)
    families(judged)


if __name__ == "__main__":
    main()

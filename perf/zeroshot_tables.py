"""Edges and proposals of Segment Anything's evaluation as tables, without a run folder.

    python perf/zeroshot_tables.py edges --data DATA --weights WEIGHTS --out edges.json \
        --model sam2-hiera-tiny --model mobile-sam [--limit 60] [--device cuda]
    python perf/zeroshot_tables.py proposals --data DATA --weights WEIGHTS --out lvis.json \
        --model sam2-hiera-tiny --dataset lvis [--points 64] [--output single --points 128]

For machines that have torch, transformers, OpenCV, scikit-image and pyarrow but no database:
the jobs are those of `segmeter run`, their rows are kept in a JSON file, image by image, and
the same command resumes it. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.models import ProtocolName

BOTH: tuple[ProtocolName, ...] = ("published", "corrected")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=["edges", "proposals"])
    parser.add_argument("--data", required=True)
    parser.add_argument("--weights")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--dataset")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--points", type=int, default=64)
    parser.add_argument("--output", choices=["three", "single"], default="three")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    name = chosen.dataset or ("bsds500" if chosen.what == "edges" else "coco")
    dataset = catalogue.datasets.make(name, data=chosen.data)
    rows = json.loads(chosen.out.read_text()) if chosen.out.is_file() else []
    for title, segmenter in segmenters(chosen):
        for scene in list(dataset.scenes())[: chosen.limit]:
            if any(row["model"] == title and row["scene"] == scene for row in rows):
                continue
            start = time.perf_counter()
            made = work(chosen, segmenter, dataset.load(scene))
            rows += [{"model": title, "dataset": name, "scene": scene, **row} for row in made]
            chosen.out.write_text(json.dumps(rows))
            print(f"{title} {scene} {time.perf_counter() - start:.1f} s", file=sys.stderr)
    print(edge_table(rows) if chosen.what == "edges" else proposal_table(rows))
    return 0


def segmenters(chosen: argparse.Namespace) -> list[tuple[str, Any]]:
    """Models, and for edges the classical detectors, by the names that tables show."""
    options = {"weights": chosen.weights, "device": chosen.device}
    known = {key: value for key, value in options.items() if value is not None}
    if chosen.what == "proposals":
        return [
            (name, catalogue.models.make(Spec.parse(name), **known, resize="pillow"))
            for name in chosen.model
        ]
    from segmeter.benchmarks.zeroshot.edges.methods import AutomaticEdges, Canny, Sobel

    made: list[tuple[str, Any]] = [(name, AutomaticEdges(name, **known)) for name in chosen.model]
    return [*made, ("canny-edges", Canny()), ("sobel-edges", Sobel())]


def work(chosen: argparse.Namespace, segmenter: Any, scene: Any) -> list[dict[str, Any]]:
    from segmeter.benchmarks.zeroshot.edges import Edges
    from segmeter.benchmarks.zeroshot.proposals import Proposals
    from segmeter.core.plans import Plan

    if chosen.what == "edges":
        plan = Plan("edges", (), (), protocols=BOTH, threads=chosen.threads)
        return list(Edges().work(segmenter, scene, plan))
    options = {"points": chosen.points}
    if chosen.output == "single":
        options |= {"nms": 0.95, "output": "single"}
    plan = Proposals().plan(Plan("proposals", (), (), options=options))
    return list(Proposals().work(segmenter, scene, plan))


class Rows:
    """Rows in memory, to be asked as a run is."""

    objects = "rows"

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        import pyarrow as pa

        self.plan = SimpleNamespace(datasets=(), protocols=BOTH)
        self.table = pa.Table.from_pylist(rows)

    def cached(self, what: str, kind: type[Any], compute: Callable[[], list[Any]]) -> list[Any]:
        return compute()

    def sql(self, query: str) -> Any:
        import duckdb

        connection = duckdb.connect(":memory:")
        connection.register("rows", self.table)
        return connection.sql(query).to_arrow_table()


def edge_table(rows: list[dict[str, Any]]) -> str:
    from segmeter.benchmarks.zeroshot.edges.statistics import MEASURES, groups

    found: Any = Rows(rows)
    lines = ["| method | reading | ODS | OIS | AP | R50 |", "|---|---|---:|---:|---:|---:|"]
    for group in groups(found):
        limits = [group.estimates[name] for name in MEASURES]
        cells = [f"{i.value:.3f} ({i.low:.3f}-{i.high:.3f})" for i in limits]
        lines.append(f"| {group.model} | {group.protocol} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"{len({r['scene'] for r in rows})} images"])


def proposal_table(rows: list[dict[str, Any]]) -> str:
    from segmeter.benchmarks.zeroshot.proposals.statistics import KINDS, groups

    found: Any = Rows(rows)
    lines = [
        f"| model | reading | masks | AR@ | {' | '.join(KINDS)} |",
        f"|---|---|---:|---:|{'---:|' * len(KINDS)}",
    ]
    for group in groups(found):
        for number in group.numbers:
            cells = [_cell(group.recall(kind, number)) for kind in KINDS]
            masks = f"{group.proposals.mean():.0f}"
            lines.append(
                f"| {group.model} | {group.protocol} | {masks} | {number} | {' | '.join(cells)} |"
            )
    return "\n".join([*lines, "", f"{len({r['scene'] for r in rows})} images"])


def _cell(recall: Any) -> str:
    if recall is None:
        return ""
    low, high = 100 * recall.low, 100 * recall.high
    return f"{100 * recall.value:.1f} ({low:.1f}-{high:.1f})"


if __name__ == "__main__":
    sys.exit(main())

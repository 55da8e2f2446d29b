"""Suites: the four zero-shot benchmarks of Segment Anything in one call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from segmeter.api.loading import Tell, roots_of, silent
from segmeter.core import catalogue
from segmeter.core.errors import NotFound, SegmeterError
from segmeter.datasets.zeroshot.suite import SUITE

if TYPE_CHECKING:
    from segmeter.api.runs import Run

# Benchmarks and the datasets that the paper reports (Kirillov et al., 2023).
ZERO_SHOT: dict[str, tuple[str, ...]] = {
    "points": tuple(kind.name for kind in SUITE),
    "boxes": ("coco", "lvis"),
    "edges": ("bsds500",),
    "proposals": ("lvis",),
}


def zero_shot(
    models: Any,
    out: str | Path,
    *,
    data: str | Path | None = None,
    weights: str | Path | None = None,
    limit: int | None = None,
    sample: int | None = None,
    tell: Tell = silent,
    **execution: Any,
) -> dict[str, Run]:
    """Run points, boxes, edges and proposals on all of their datasets that are in `data`.

    Each benchmark is a run of its own in a folder of its name below `out`; the same call resumes.
    `tell` receives the names of missing datasets. `execution` is as in `evaluate`.
    """
    from segmeter.evaluation import evaluate

    roots, runs = roots_of(data, weights), {}
    for benchmark, names in ZERO_SHOT.items():
        found, missing = [], []
        for name in names:
            try:
                catalogue.datasets.make(name, **roots.options())
                found.append(name)
            except SegmeterError:
                missing.append(name)
        if missing:
            tell(f"{benchmark}: not found: {', '.join(missing)}")
        if found:
            runs[benchmark] = evaluate(
                models, found, benchmark=benchmark, out=f"{out}/{benchmark}", data=data,
                weights=weights, limit=limit, sample=sample, **execution,
            )  # fmt: skip
    if not runs:
        raise NotFound("no dataset of the zero-shot suite is available; see --data")
    return runs

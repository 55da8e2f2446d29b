"""Estimates: what a plan would do and how long it would take, tried on one scene of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from segmeter.core import catalogue
from segmeter.core.plans import Plan, Roots
from segmeter.engine.jobs import Objects, jobs_of, steady_arithmetic
from segmeter.engine.runner import complete, default_workers
from segmeter.store.folder import RunFolder

__all__ = ["Estimate", "dry_run", "free_folder", "whole_seconds"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """One subject on one data set: scenes, rows of a scene, and seconds a scene takes alone."""

    subject: str
    dataset: str
    scenes: int
    rows: int
    seconds: float


def dry_run(plan: Plan, roots: Roots, objects: Objects | None = None) -> list[Estimate]:
    """Play the first scene of every subject and data set, keep nothing, and say what all take."""
    own = objects or {}
    filled, datasets = complete(plan, roots, own)
    benchmark = catalogue.benchmarks.make(filled.benchmark)
    shelf = catalogue.models if filled.kind == "model" else catalogue.methods
    jobs = jobs_of(filled, datasets)
    found = []
    for spec in filled.subjects:
        steady_arithmetic(filled.threads)
        subject = own.get(spec.name) or shelf.make(spec, **roots.options())
        for data in filled.datasets:
            here = [j for j in jobs if j.subject == spec and j.dataset == data]
            if not here:
                continue
            scene = datasets[str(data)].load(here[0].scene)
            start = perf_counter()
            rows = benchmark.work(subject, scene, filled)
            seconds = perf_counter() - start
            found.append(Estimate(str(spec), str(data), len(here), len(rows), seconds))
    return found


def whole_seconds(estimates: Sequence[Estimate], plan: Plan, workers: int | None = None) -> float:
    """Seconds that all scenes take on so many workers, loading left out."""
    alone = sum(e.scenes * e.seconds for e in estimates)
    return alone / max(1, default_workers(plan) if workers is None else workers)


def free_folder(
    plan: Plan, roots: Roots, objects: Objects | None = None, base: Path = Path("runs")
) -> Path:
    """Where a run goes when nobody said: `runs/<benchmark>-<n>`.

    The newest of them is gone on with if it holds the very same plan, else the next number
    is taken.
    """
    stem = f"{plan.benchmark}-"
    numbers = [
        int(tail) for p in base.glob(f"{stem}*") if (tail := p.name.removeprefix(stem)).isdecimal()
    ]
    if not numbers:
        return base / f"{stem}1"
    newest = base / f"{stem}{max(numbers)}"
    if (newest / "plan.json").is_file():
        filled, _ = complete(plan, roots, objects)
        if RunFolder.existing(newest).plan == filled:
            return newest
    return base / f"{stem}{max(numbers) + 1}"

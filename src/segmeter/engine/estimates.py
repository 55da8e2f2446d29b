"""Estimates: time and space of a plan, measured on a scene or two (of volumes, on a few slices)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from segmeter.core import catalogue
from segmeter.core.benchmarks import Benchmark
from segmeter.core.capabilities import OnDevice
from segmeter.core.masks import Mask
from segmeter.core.plans import Job, Plan, display_names
from segmeter.core.scenes import Dataset, Scene, Volume
from segmeter.core.wording import counted
from segmeter.engine.arithmetic import fix_arithmetic
from segmeter.engine.jobs import Built, Objects, jobs_of
from segmeter.engine.runner import default_workers
from segmeter.engine.validation import complete
from segmeter.runtime.remote_files import Roots
from segmeter.store.job_files import encode

_TRIED = 2  # scenes of each model and dataset


@dataclass(frozen=True, slots=True)
class Estimate:
    """One model on one dataset, measured on scenes whose rows are discarded."""

    segmenter: str
    dataset: str
    scenes: int  # how many there are, each one job
    rows: float  # of a scene, the mean of those run; a row is one prediction
    seconds: float  # of the first scene, in which much is done for the first time
    later: tuple[float, ...] = ()  # seconds of the scenes after it
    loading: float = 0.0  # seconds to make the model, once for each worker
    bytes: float = 0.0  # what the rows of a scene take on a disk
    device: str = "cpu"
    slices: float = 0.0  # of the volumes that were run
    mean_slices: float = 0.0  # of all volumes

    @property
    def each(self) -> float:
        """Seconds that one scene takes once everything is warm; of volumes, by their slices."""
        if self.slices:
            return (self.seconds + sum(self.later)) * self.mean_slices / self.slices
        return sum(self.later) / len(self.later) if self.later else self.seconds


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a whole plan on a number of workers like the one that was measured."""

    jobs: int  # each encodes a scene
    predictions: int
    workers: int
    seconds: float
    bytes: int


def run_some(
    plan: Plan, roots: Roots, objects: Objects | None, tell: Callable[[str], None]
) -> list[Estimate]:
    """Run some scenes of every model and dataset, from its first to its last; keep nothing."""
    built = Built(roots, objects)
    filled, datasets = complete(plan, built)
    benchmark = catalogue.benchmarks.make(filled.benchmark)
    jobs = jobs_of(filled, datasets)
    titles = display_names(filled.datasets)
    found = []
    for spec in filled.segmenters:
        fix_arithmetic(filled.threads)
        start = perf_counter()
        segmenter = built.segmenter(filled.kind, spec)
        loading = perf_counter() - start
        for data in filled.datasets:
            here = [j for j in jobs if j.segmenter == spec and j.dataset == data]
            chosen = [here[k] for k in _spread(len(here), _TRIED)]
            tell(f"trying {spec} on {counted(len(chosen), 'scene')} of {titles[str(data)]}")
            trials = [_trial(job, benchmark, segmenter, filled, datasets) for job in chosen]
            if trials:
                seconds, rows, sizes, slices = zip(*trials, strict=True)
                device = str(segmenter.device) if isinstance(segmenter, OnDevice) else "cpu"
                found.append(Estimate(
                    str(spec), str(data), len(here), sum(rows) / len(rows), seconds[0],
                    tuple(seconds[1:]), loading, sum(sizes) / len(sizes), device, sum(slices),
                    _mean_slices(datasets[str(data)], [job.scene for job in here]),
                ))  # fmt: skip
    return found


def cost_of(estimates: Sequence[Estimate], plan: Plan, workers: int | None = None) -> Cost:
    """Jobs, predictions, seconds and bytes of a whole plan.

    Every worker loads every model, all at the same time; contention between them is not estimated.
    """
    jobs = sum(e.scenes for e in estimates)
    count = max(1, min(default_workers(plan) if workers is None else workers, jobs))
    loading = sum({e.segmenter: e.loading for e in estimates}.values())
    alone = sum(e.scenes * e.each for e in estimates)
    rows = round(sum(e.scenes * e.rows for e in estimates)) if plan.kind == "model" else 0
    size = round(sum(e.scenes * e.bytes for e in estimates))
    return Cost(jobs, rows, count, loading + alone / count, size)


def _spread(count: int, wanted: int) -> list[int]:
    """So many places out of `count`, two or more, the first and the last among them.

    >>> _spread(9, 2), _spread(1, 2), _spread(0, 2)
    ([0, 8], [0], [])
    """
    return sorted({k * (count - 1) // (wanted - 1) for k in range(wanted)}) if count else []


def _trial(
    job: Job, benchmark: Benchmark, segmenter: Any, plan: Plan, datasets: Mapping[str, Dataset]
) -> tuple[float, int, int, int]:
    """Seconds, rows, bytes and slices of a job; reading ahead hides the reading of its image."""
    scene = datasets[str(job.dataset)].load(job.scene)
    scene.check()
    tried, share = scene, 1.0
    if isinstance(scene, Volume) and scene.targets and "volume" not in segmenter.card.abilities:
        tried, share = _few_slices(scene)
    start = perf_counter()
    rows = benchmark.work(segmenter, tried, plan)
    seconds = (perf_counter() - start) / share
    size = len(encode([job.identity() | row for row in rows]))
    fewer = len(scene.targets) / max(1, len(tried.targets))
    return seconds, round(len(rows) * fewer), round(size * fewer), _slices(scene)


def _few_slices(scene: Volume) -> tuple[Volume, float]:
    """Three slices through the largest target, and their share of all slices with targets."""
    largest = max((t.mask for t in scene.targets), key=lambda mask: mask.area)
    first = max(0, (largest.low[0] + largest.high[0]) // 2 - 1)
    shape = (min(3, scene.shape[0] - first), *scene.shape[1:])
    part = slice(first, first + shape[0])
    cut = [replace(t, mask=Mask.of(t.mask.dense()[part]), ignore=None) for t in scene.targets]
    targets = [target for target in cut if target.mask]
    held = {z for t in scene.targets for z in range(t.mask.low[0], t.mask.high[0])}
    header = replace(scene.header, shape=shape)
    few = Volume(scene.dataset, scene.id, scene.voxels[part], targets, header=header)
    return few, len(held & set(range(part.start, part.stop))) / len(held)


def _slices(scene: Scene) -> int:
    return scene.shape[0] if scene.header.kind == "volume" else 0


def _mean_slices(data: Dataset, scenes: Sequence[str]) -> float:
    """Slices per volume, by the headers of at most a hundred volumes; 0 for images."""
    if not _slices(data.load(scenes[0])):
        return 0.0
    found = [_slices(data.load(scenes[k])) for k in _spread(len(scenes), 100)]
    return sum(found) / len(found)

"""Cost of a run on SA-1B: 11 million images with 1.1 billion masks, from rates measured here.

    python perf/scale.py [--model M] [--dataset D] [--data FOLDER] [--weights FOLDER] [--limit N]

runs some scenes, compacts their rows, and measures the costs of a run of any size: seconds to
encode a scene and for an object of 20 clicks, bytes per row in a compacted file with and without
masks, bytes per second when a run resumes, seconds and memory per job at the driver. Then it
multiplies. Nothing is typed in but the size of SA-1B. With `--gpu-encode` and `--gpu-session`,
seconds measured by session.py on a GPU, hours are GPU hours; otherwise hours of one core.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tracemalloc
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from segmeter.core.catalogue import Spec
from segmeter.core.plans import Job, Plan
from segmeter.engine import run_plan
from segmeter.runtime.remote_files import Roots
from segmeter.store import Run, RunFolder
from segmeter.store.compacted_files import compacted_bytes, open_bytes, readable_jobs, whole
from segmeter.store.compaction import _MOST_BYTES, _MOST_JOBS, compact

IMAGES, MASKS = 11_000_000, 1_100_000_000  # of SA-1B, as its paper counts them
ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Rates:
    """Measured rates: seconds and bytes, each per unit of work."""

    device: str
    encode: float
    target: float  # one object of ROUNDS clicks, without encoding
    row: float
    row_without_mask: float
    hashed: float  # bytes per second
    job_seconds: float
    job_bytes: float


class Watch:
    """When each job was finished, by the clock and by the processor."""

    def __init__(self) -> None:
        self.at: list[tuple[float, float]] = []

    def begin(self, total: int, done: int) -> None:
        self.step(None)

    def step(self, outcome: Any) -> None:
        self.at.append((time.perf_counter(), time.process_time()))

    def end(self) -> None: ...


def measured(plan: Plan, roots: Roots, out: Path) -> Rates:
    watch = Watch()
    run_plan(plan, out, roots=roots, workers=0, progress=watch)
    folder = RunFolder(out)
    (facts,) = (
        Run(folder)
        .sql("""
            with jobs as (select scene, max(seconds_encode) as encode,
                count(distinct target) as targets
                          from rows group by scene)
            select avg(encode) as encode, avg(targets) as targets from jobs
        """)
        .to_pylist()
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wall, busy = (b - a for a, b in zip(watch.at[1], watch.at[-1], strict=True))  # once warm
    # On a shared core, scale by the share of it that this process had.
    ours = min(1.0, busy / wall) if device == "cpu" else 1.0
    scene = ours * wall / (len(watch.at) - 2)
    encode = ours * facts["encode"]
    compact(folder, loose=1, closing=True)
    with_masks, without, hashed = store_rates(folder)
    seconds, size = driver_rates()
    return Rates(
        device,
        encode,
        max(0.0, scene - encode) / facts["targets"],
        with_masks,
        without,
        hashed,
        seconds,
        size,
    )


def store_rates(folder: RunFolder) -> tuple[float, float, float]:
    """Bytes per row with and without masks, and bytes per second that a resume compares."""
    size = bare = rows = 0
    for compacted in folder.layout().compacted_files:
        content = folder.place.read(f"jobs/{compacted.name}")
        jobs = list(readable_jobs(compacted, open_bytes(content)))
        lighter = [type(j)(j.id, j.table.drop_columns(["mask"])) for j in jobs]
        size, bare = size + len(content), bare + len(compacted_bytes(lighter))
        rows += sum(count for _, count in compacted.jobs)
    return size / rows, bare / rows, hash_rate()


def hash_rate() -> float:
    """Bytes per second and core that a resume compares with their names."""
    content = bytes(_MOST_BYTES)
    start = time.process_time()
    whole("a compacted file", content)
    return len(content) / (time.process_time() - start)


def driver_rates(count: int = 100_000) -> tuple[float, float]:
    """Seconds and bytes that one job takes in the driver of a run."""
    model, data = Spec("model"), Spec("data")

    def named() -> list[Job]:
        jobs = [Job(model, data, f"sa_{k:08}") for k in range(count)]
        for job in jobs:
            assert job.id
        return jobs

    start = time.process_time()
    named()
    seconds = time.process_time() - start
    tracemalloc.start()
    kept = named()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return seconds / count, size / len(kept)


def table(r: Rates) -> list[tuple[str, str, str]]:
    hours = (IMAGES * r.encode + MASKS * r.target) / 3600
    rows = MASKS * ROUNDS
    unit = "core" if r.device == "cpu" else "GPU"
    size, bare = rows * r.row, rows * r.row_without_mask
    files = max(IMAGES / _MOST_JOBS, size / _MOST_BYTES)
    return [
        ("looks", f"{IMAGES:,}", f"{r.encode:.3f} s each on {r.device}"),
        ("sessions", f"{MASKS:,}", f"{r.target:.3f} s each, {ROUNDS} clicks, one user and reading"),
        (f"hours of one {unit}", f"{hours:,.0f}", "looks and sessions"),
        ("of these looks", f"{IMAGES * r.encode / 3600:,.0f}", "once for 100 masks"),
        ("rows", f"{rows:,}", "one per click"),
        ("bytes with masks", f"{size / 1e12:.1f} TB", f"{r.row:.0f} per row"),
        ("bytes without", f"{bare / 1e12:.2f} TB", f"{r.row_without_mask:.0f} per row"),
        ("files", f"{files:,.0f}", f"of {_MOST_BYTES >> 20} MiB or {_MOST_JOBS} jobs"),
        ("going on", f"{size / r.hashed / 3600:.1f} h of a core", f"{r.hashed / 1e9:.2f} GB/s"),
        ("jobs in memory", f"{IMAGES * r.job_bytes / 1e9:.1f} GB", f"{r.job_bytes:.0f} B each"),
        ("naming jobs", f"{IMAGES * r.job_seconds:.0f} s", f"{r.job_seconds * 1e6:.0f} µs each"),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="grabcut")
    parser.add_argument("--dataset", default="mini")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--limit", type=int, default=6)
    parser.add_argument("--gpu-encode", type=float, help="seconds, as perf/session.py prints")
    parser.add_argument("--gpu-session", type=float, help="seconds of 20 clicks, without encoding")
    asked = parser.parse_args()
    plan = Plan(
        "noc",
        (Spec.parse(asked.model),),
        (Spec.parse(asked.dataset),),
        rounds=ROUNDS,
        protocols=("published",),
        limit=asked.limit,
    )
    with tempfile.TemporaryDirectory() as base:
        rates = measured(plan, Roots(asked.data, asked.weights), Path(base) / "run")
    print(f"SA-1B from {asked.model} on {asked.dataset}, {asked.limit} scenes\n")
    print("| what | SA-1B | measured |\n|---|---:|---|")
    for line in table(rates):
        print(f"| {' | '.join(line)} |")
    if asked.gpu_encode and asked.gpu_session:
        given = replace(rates, device="GPU", encode=asked.gpu_encode, target=asked.gpu_session)
        for line in table(given)[:4]:
            print(f"| {' | '.join(line)} |")


if __name__ == "__main__":
    main()

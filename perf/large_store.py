"""How a run of 100 000 jobs and 1 000 000 rows is stored, and how soon it resumes.

`python perf/large_store.py [--jobs N] [--out FOLDER]` writes made-up rows into compacted files,
joins these as a run does in the background, leaves three jobs out, and resumes the run in another
process: seconds from the start of that process to the first job, and its peak memory. `--report`
reads it as well.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from segmeter.core.catalogue import Spec
from segmeter.core.plans import Job, Plan
from segmeter.core.rows import SESSION_ROWS, columns_of_measures
from segmeter.engine.jobs import Built, jobs_of
from segmeter.engine.provenance import library_versions
from segmeter.engine.validation import complete
from segmeter.store import RunFolder
from segmeter.store.compacted_files import JobRows, compacted_bytes, compacted_name
from segmeter.store.compaction import LOOSE, compact
from segmeter.store.job_files import ARROW_TYPES

ROUNDS, PROTOCOLS, LEFT = 5, ("published", "corrected"), 3


def plan_of(jobs: int) -> Plan:
    data = Spec("drawn", {"count": max(2, jobs // 2)})
    return Plan("noc", (Spec("disc"), Spec("synthetic-noisy")), (data,), rounds=ROUNDS)


def write_run(out: Path, jobs: int) -> None:
    """Write compacted files of LOOSE jobs and join them, as a run does in the background.

    The last jobs keep files of their own. Writing each job to a file first would take most of an
    hour of flushing to the disk and show nothing else; tests do that for a few hundred.
    """
    plan, datasets = complete(plan_of(jobs), Built())
    schema = SESSION_ROWS.plus(columns_of_measures(plan.measures))
    rng = np.random.default_rng(0)
    base = {
        "plan": plan.id,
        "users": json.dumps([str(spec) for spec in plan.users]),
        "source": "",
        **library_versions(),
    }
    wanted = jobs_of(plan, datasets)[:-LEFT]
    with RunFolder.claimed(out, plan) as folder:
        for model, some in groupby(wanted, key=lambda job: job.segmenter):
            provenance = base | {"segmenter": str(model), "fingerprint": ""}
            for batch in batched(list(some), LOOSE):
                if len(batch) < LOOSE:
                    for job in batch:
                        folder.finish(job, list(rows_of(job, rng)), provenance, schema)
                    continue
                rows = [JobRows(j.id, table_of(j, rng, provenance, schema)) for j in batch]
                content = compacted_bytes(rows)
                name = compacted_name(str(model), str(batch[0].dataset), content)
                folder.place.put(f"jobs/{name}", content)
                compact(folder)
        compact(folder, closing=True)


def batched(jobs: list[Job], size: int) -> Iterator[list[Job]]:
    return (jobs[k : k + size] for k in range(0, len(jobs), size))


def table_of(job: Job, rng: np.random.Generator, provenance: dict[str, str], schema: Any) -> Any:
    """The rows of a job as the store would read them back."""
    rows = list(rows_of(job, rng))
    types = {c.name: ARROW_TYPES[c.kind] for c in schema.columns if c.name in rows[0]}
    arrays = {n: [_plain(row[n]) for row in rows] for n in types}
    fields = list(types.items())
    return pa.table(arrays, schema=pa.schema(fields, metadata=provenance))


def _plain(value: Any) -> Any:
    return sorted(value.items()) if isinstance(value, dict) else value


def rows_of(job: Job, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Curves that rise, and masks of a usual length."""
    for protocol in PROTOCOLS:
        curve = np.sort(rng.uniform(0.2, 1.0, ROUNDS))
        for k in range(ROUNDS):
            yield job.identity() | {
                "target": "object", "user": "centre-click", "protocol": protocol,
                "round": k + 1, "cluster": job.scene, "shape": [480, 640], "label": "thing",
                "groups": {"size": "small"}, "area": 900, "outline_px": 120,
                "prompt": '{"click": [100, 200], "positive": true}', "y": 100.0, "x": 200.0,
                "positive": True, "score": 0.9, "mask_index": 0, "stopped": False,
                "mask_fed_back": True,
                "batch_size": 12,
                    "seconds_encode": 0.1, "seconds_predict": 0.01, "seconds_user": 0.001,
                "mask": rng.integers(48, 110, 400, np.uint8).tobytes().decode(),
                "iou": float(curve[k]), "boundary_iou": float(curve[k] ** 2),
            }  # fmt: skip


RESUMED = """
import resource, sys, time
start = time.perf_counter()
from pathlib import Path
sys.path.insert(0, {here!r})
from large_store import plan_of
from segmeter.engine import run_plan

class Watch:
    def begin(self, total, done):
        wall, cpu = time.perf_counter() - start, time.process_time()
        print(f"{{done}} of {{total}} jobs known after {{wall:.1f}} s, {{cpu:.1f}} s of processor")
    def step(self, outcome):
        print(f"first job done after {{time.perf_counter() - start:.1f}} s")
    def end(self):
        pass

print(run_plan(plan_of({jobs}), Path({out!r}), workers=0, progress=Watch()))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
print(f"all after {{time.perf_counter() - start:.1f}} s, {{peak:.2f}} GB at most")
"""
REPORTED = """
import resource, sys, time
from segmeter.cli.app import run_app
sys.argv = ["segmeter", "report", {out!r}, "--json"]
start = time.perf_counter()
try:
    run_app()
finally:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"report --json: {{time.perf_counter() - start:.1f}} s, {{peak:.2f}} GB", file=sys.stderr)
"""


def in_a_process(code: str, **words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code.format(here=str(Path(__file__).parent), **words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        out = asked.out or Path(base) / "run"
        start = time.perf_counter()
        if not (out / "plan.json").exists():
            write_run(out, asked.jobs)
            print(f"{asked.jobs} jobs written in {time.perf_counter() - start:.0f} s", flush=True)
        files = [p for p in out.rglob("*") if p.is_file()]
        size = sum(p.stat().st_size for p in files) / 1e6
        print(f"{len(files)} files, {size:.0f} MB", flush=True)
        done = in_a_process(RESUMED, out=str(out), jobs=asked.jobs)
        print(done.stdout, done.stderr[-2000:], flush=True)
        if asked.report:
            print(in_a_process(REPORTED, out=str(out)).stderr[-500:])


if __name__ == "__main__":
    main()

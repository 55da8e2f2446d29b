"""How long a large run takes to read: report, compare and --json of 720 000 made-up rows.

`python perf/reading_runs.py [--rows N] [--out FOLDER]` writes the run once and times each
command in a process of its own, without and with cached statistics, with its peak memory.
`--compacted` puts the rows of many jobs into one file before, as a finished run has them.
`--like RUN --times K` writes the rows of a small run of any benchmark K times instead, with scenes
and patients renamed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from segmeter.core.catalogue import Spec
from segmeter.core.plans import Job, Plan
from segmeter.core.rows import SESSION_ROWS, columns_of_measures
from segmeter.store import Run, RunFolder
from segmeter.store.compaction import compact

MODELS, TARGETS, ROUNDS, PROTOCOLS = ("disc", "synthetic-noisy"), 6, 20, ("published", "corrected")
MEASURES = ("iou", "boundary-iou")


def write_run(out: Path, rows: int) -> None:
    """A run of `noc` with curves that rise, and masks of a usual length."""
    scenes = max(1, rows // (len(MODELS) * TARGETS * ROUNDS * len(PROTOCOLS)))
    plan = Plan(
        "noc",
        tuple(map(Spec, MODELS)),
        (Spec("drawn"),),
        users=(Spec("centre-click"),),
        rounds=ROUNDS,
        protocols=PROTOCOLS,  # type: ignore[arg-type]  # two of the two
        measures=MEASURES,
    )
    schema = SESSION_ROWS.plus(columns_of_measures(MEASURES))
    rng = np.random.default_rng(0)
    with RunFolder.claimed(out, plan) as folder:
        for model in MODELS:
            for number in range(scenes):
                job = Job(Spec(model), Spec("drawn"), f"scene-{number:05d}")
                folder.finish(job, list(_rows(job, rng)), {"segmenter": model}, schema)


def write_like(out: Path, run: Run, times: int) -> None:
    """The rows of a run so many times, each time as other scenes."""
    rows = run.sql("select * from rows").to_pylist(maps_as_pydicts="lossy")
    by_job: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        by_job.setdefault((row["model"], row["dataset"], row["scene"]), []).append(row)
    with RunFolder.claimed(out, run.plan) as folder:
        for k in range(times):
            for (model, dataset, scene), own in by_job.items():
                job = Job(Spec.parse(model), Spec.parse(dataset), f"{scene}-{k:04d}")
                named = {"scene": job.scene, "cluster": f"{own[0]['cluster']}-{k:04d}"}
                folder.finish(job, [r | named for r in own], {"segmenter": model}, run.schema)


def _rows(job: Job, rng: np.random.Generator):  # type: ignore[no-untyped-def]  # rows are dicts
    for target in range(TARGETS):
        for protocol in PROTOCOLS:
            curve = np.sort(rng.uniform(0.2, 1.0, ROUNDS))
            for k in range(ROUNDS):
                yield job.identity() | {
                    "target": f"object-{target}", "user": "centre-click", "protocol": protocol,
                    "round": k + 1, "cluster": job.scene, "shape": [480, 640], "label": "thing",
                    "groups": {"size": "small"}, "area": 900, "outline_px": 120,
                    "prompt": '{"click": [100, 200], "positive": true}', "y": 100.0, "x": 200.0,
                    "positive": True, "score": 0.9, "mask_index": 0, "stopped": False,
                    "kinds": "click", "prompts_given": 1, "prompts_obeyed": 1.0,
                    "earlier_clicks": k, "earlier_kept": k, "earlier_undone": 0,
                    "mask_changed": True, "mask_fed_back": True, "batch_size": 12,
                    "seconds_encode": 0.1, "seconds_predict": 0.01, "seconds_user": 0.001,
                    "mask": "".join(map(chr, rng.integers(48, 110, 400))),
                    "iou": float(curve[k]), "boundary_iou": float(curve[k] ** 2),
                }  # fmt: skip


TIMED = """
import resource, sys, time
from segmeter.cli.app import run_app
sys.argv = ["segmeter", *sys.argv[1:]]
start = time.perf_counter()
try:
    run_app()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    wall, cpu = time.perf_counter() - start, used.ru_utime + used.ru_stime
    print(f"{wall:.1f} s, {cpu:.1f} s of CPU, {used.ru_maxrss / 1024**2:.2f} GB", file=sys.stderr)
"""


def timed(cache: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", TIMED, *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
    )
    return f"exit {done.returncode}, {done.stderr.strip().splitlines()[-1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=720_000)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--compacted", action="store_true")
    parser.add_argument("--like", type=Path, default=None)
    parser.add_argument("--times", type=int, default=100)
    asked = parser.parse_args()
    out = asked.out or Path(tempfile.mkdtemp()) / "run"
    if not (out / "plan.json").exists():
        if asked.like is None:
            write_run(out, asked.rows)
        else:
            write_like(out, Run.open(asked.like), asked.times)
        (counted,) = Run.open(out).sql("select count(*) as rows from rows").to_pylist()
        print(f"{counted['rows']} rows written")
    if asked.compacted:
        with RunFolder.existing(out).locked():
            compact(RunFolder.existing(out))
    for words in (("report", "--json"), ("compare",), ("report",)):
        name, *options = words
        with tempfile.TemporaryDirectory() as cache:
            for turn in ("first", "again"):
                took = timed(Path(cache), name, str(out), *options)
                print(f"{' '.join(words)}, {turn}: {took}", flush=True)


if __name__ == "__main__":
    main()

"""Torture: runs are killed at random moments for some minutes, and must come out the same.

`python perf/torture.py --minutes 5 --seed 1 --where disk,memory,s3`: on a disk, and on an S3
protocol server that is started for it, the parent or a worker is killed (SIGKILL, SIGTERM,
SIGINT) at a random moment, again and again, until the run is complete; in `memory://` a write is
broken off. Each time the rows must equal those of an undisturbed run, and no temporary file, no
lock and no lease may be left. Ends with exit code 1 at the first difference.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.engine import run_plan
from segmeter.store import Run, RunFolder
from segmeter.store.remote import RemotePlace

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "store"))

from s3_server import s3_server

PLAN = Plan("noc", (Spec("disc"), Spec("noisy")), (Spec("drawn"),), rounds=3, limit=6)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
QUERY = """
    select model, dataset, scene, target, "user", reading, round, prompt, iou, boundary_iou, mask
    from rows order by all
"""


def rows_of(address: str | Path) -> list[dict[str, Any]]:
    """All rows but their times."""
    found: list[dict[str, Any]] = Run.open(address).sql(QUERY).to_pylist()
    return found


def torture_processes(out: str, chance: random.Random) -> int:
    """Kill and resume until the run is complete; how often it was killed."""
    workers = str(chance.choice((0, 1, 2)))
    words = ["run", "noc", "-m", "disc", "-m", "noisy", "-d", "drawn", "--rounds", "3",
             "--limit", "6", "--workers", workers, "--out", out]  # fmt: skip
    kills = 0
    while True:
        process = subprocess.Popen(
            [sys.executable, "-m", "segmeter", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if kills < 6:
            wait = chance.uniform(0.2, 6.0)
            try:
                process.wait(wait)
            except subprocess.TimeoutExpired:
                kills += 1
                _kill(process.pid, chance)
        if process.wait() == 0:
            return kills


def _kill(parent: int, chance: random.Random) -> None:
    """The parent, or one of the processes it has started."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    found = [int(p) for p in children.read_text().split()] if children.exists() else []
    victim = chance.choice([parent, parent, *found])
    with suppress(ProcessLookupError):  # it ended a moment ago
        os.kill(victim, chance.choice(SIGNALS) if victim == parent else signal.SIGKILL)


def torture_memory(address: str, chance: random.Random) -> int:
    """Break writes off until the run is complete; how often one was broken off."""
    put, breaks = RemotePlace.put, 0

    def breaking(place: RemotePlace, name: str, data: bytes, *, leased: bool = True) -> None:
        if breaks < 8 and chance.random() < 0.15:
            raise KeyboardInterrupt
        put(place, name, data, leased=leased)

    RemotePlace.put = breaking  # type: ignore[method-assign]  # this is the torture
    try:
        while True:
            try:
                run_plan(PLAN, address)
            except KeyboardInterrupt:
                breaks += 1
            else:
                return breaks
    finally:
        RemotePlace.put = put  # type: ignore[method-assign]


def left_over(out: str) -> list[str]:
    """Temporary files, and a lock or a lease that is still held."""
    files = [str(p) for p in Path(out).rglob(".*") if p.name.startswith((".open-", ".page-"))]
    if RunFolder(out).place.exists("lease.json"):
        files.append(f"{out}/lease.json")
    with RunFolder(out).locked():
        return files


def turn(where: str, base: str, number: int, chance: random.Random) -> tuple[str, int]:
    """One run on one storage: where it lies, and how often it was killed."""
    if where == "memory":
        out = f"memory://torture/{number}"
        return out, torture_memory(out, chance)
    out = f"{base}/run-{number}"
    return out, torture_processes(out, chance)


def forget(out: str) -> None:
    import fsspec

    files, root = fsspec.core.url_to_fs(out)
    files.rm(root, recursive=True)


def torture(minutes: float, seed: int, folder: str, bases: dict[str, str]) -> int:
    chance = random.Random(seed)
    run_plan(PLAN, f"{folder}/whole", workers=0)
    whole = rows_of(f"{folder}/whole")
    end, turns, kills = time.monotonic() + 60 * minutes, 0, dict.fromkeys(bases, 0)
    while time.monotonic() < end:
        turns += 1
        for where, base in bases.items():
            out, times = turn(where, base, turns, chance)
            kills[where] += times
            wrong = left_over(out) + ([] if rows_of(out) == whole else [f"rows of {out}"])
            if wrong:
                print(f"turn {turns}: {', '.join(wrong)}; seed {seed}, folder {folder}")
                return 1
            forget(out)
    told = ", ".join(f"{times} kills on {where}" for where, times in kills.items())
    print(f"{turns} runs on each: {told}; all rows equal, nothing left over")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--where", default="disk,memory,s3", help="disk, memory, s3 or several")
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if asked.seed is None else asked.seed
    print(f"seed {seed}", flush=True)
    wanted = asked.where.split(",")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="torture-"))
        bases = {"disk": folder, "memory": "memory://torture"}
        if "s3" in wanted:
            bases["s3"] = stack.enter_context(s3_server())
        return torture(asked.minutes, seed, folder, {where: bases[where] for where in wanted})


if __name__ == "__main__":
    sys.exit(main())

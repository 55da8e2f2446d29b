"""Torture: kill runs at random moments for some minutes; their rows must come out the same.

`python perf/torture.py --minutes 5 --seed 1 --where disk,memory,s3,ray,copies,study`

On `disk`, and on an S3 server that is started for it, the parent or a worker is killed (SIGKILL,
SIGTERM, SIGINT) at a random moment, again and again, until the run is complete. On a Ray cluster
of two nodes it is the driver, an actor or a node; in `memory://` a write is interrupted. `copies`
runs two shards and then copies their folders over each other, merges them, adds a model and
compacts, killing each command. Rows must be unique after every step, and in the end equal to
those of an undisturbed run, with no temporary file, lock or lease left. `study` kills a study's
server five times while people answer and commands run (`perf/study.py`): no
acknowledged answer may be lost or stored twice. The first difference ends the script with exit
code 1.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from segmeter.core.catalogue import Spec
from segmeter.core.plans import Plan
from segmeter.engine import run_plan, runner
from segmeter.store import Run, RunFolder, compaction
from segmeter.store.storage import RemotePlace

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "store"))

from s3_server import s3_server

PLAN = Plan("noc", (Spec("disc"), Spec("synthetic-noisy")), (Spec("drawn"),), rounds=3, limit=6)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
QUERY = """
    select model, dataset, scene, target, "user", protocol, round, prompt, iou, boundary_iou, mask
    from rows order by all
"""


# Finished jobs are compacted from the third on, so that kills meet that as well.
START = """
from segmeter.cli.app import run_app
from segmeter.engine import runner
from segmeter.store import compaction
if __name__ == "__main__":
    for module in (compaction, runner):
        setattr(module, "LOOSE", 3)  # noqa: B010  # each keeps the number it imported
    run_app()
"""


COMPACT = """
import sys
from segmeter.store import RunFolder
from segmeter.store.compaction import compact
folder = RunFolder(sys.argv[1])
with folder.locked():
    compact(folder, loose=1, closing=True)
"""
WIDE = ["run", "noc", "-m", "disc", "-m", "synthetic-noisy", "-m", "synthetic-oracle", "--add",
        "--workers", "0"]  # fmt: skip


def rows_of(address: str | Path) -> list[dict[str, Any]]:
    """All rows but their times."""
    found: list[dict[str, Any]] = Run.open(address).sql(QUERY).to_pylist()
    return found


def torture_processes(
    out: str, chance: random.Random, who: Sequence[str], kill: Callable[[int], None]
) -> int:
    """Kill and resume until the run is complete; how often it was killed."""
    words = ["run", "noc", "-m", "disc", "-m", "synthetic-noisy", "-d", "drawn", "--rounds", "3",
             "--limit", "6", *who, "--out", out]  # fmt: skip
    kills = 0
    while True:
        process = subprocess.Popen(
            [sys.executable, "-c", START, *words],
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
                kill(process.pid)
        if process.wait() == 0:
            return kills


def torture_copies(folder: str, chance: random.Random) -> tuple[str, int, list[str]]:
    """Copy, merge, add and compact under kills: the run, the kills, and what went wrong."""
    one, two, merged = (f"{folder}/{name}" for name in ("one", "two", "merged"))
    kills = 0
    for k, out in enumerate((one, two)):
        who = ["--workers", "0", "--shard", f"{k + 1}/2"]
        kills += torture_processes(out, chance, who, lambda pid: kill_process(pid, chance))
    steps: dict[str, Callable[[str, str], list[str]]] = {
        "copy": lambda x, y: ["cp", "-r", f"{x}/.", y],
        "add": lambda x, _: [sys.executable, "-c", START, *WIDE, "--out", x],
        "merge": lambda *_: [sys.executable, "-c", START, "merge", merged, one, two],
        "compact": lambda x, _: [sys.executable, "-c", COMPACT, x],
    }
    for _ in range(12):
        there = [run for run in (one, two, merged) if Path(run, "plan.json").exists()]
        name = chance.choice(list(steps))
        first, second = chance.sample(there, 2)
        killed, code = interrupted(steps[name](first, second), chance)
        kills += killed
        if killed and name == "copy":  # a copied plan that was cut short has to be copied again
            shutil.copy(f"{first}/plan.json", f"{second}/plan.json")
        if not killed and code == 70:
            return one, kills, [f"a trace in '{name}'"]
        for run in there:
            if doubled := doubled_rows(run):
                return one, kills, [f"{doubled} rows of {run} twice after '{name}'"]
    while interrupted([sys.executable, "-c", START, *WIDE, "--out", one], chance, 0.0)[1] != 0:
        kills += 1
    return one, kills, []


def interrupted(
    command: Sequence[str], chance: random.Random, chance_to_kill: float = 0.7
) -> tuple[bool, int]:
    """Run a command, which may be killed at a random moment: whether it was, and its exit code."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **quiet)  # type: ignore[call-overload]  # two keywords
    if chance.random() < chance_to_kill:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.002 if command[0] == "cp" else chance.uniform(0.5, 6.0))
        if process.poll() is None:
            process.kill()
            process.wait()
            return True, process.returncode
    return False, process.wait()


def doubled_rows(run: str) -> int:
    """How many rows share the key of another; none where a killed merge has copied no job yet."""
    if not RunFolder(run).place.files("jobs"):
        return 0
    key = 'model, dataset, scene, target, "user", protocol, round'
    (found,) = (
        Run.open(run)
        .sql(f"select count(*) - count(distinct ({key})) as doubled from rows")
        .to_pylist()
    )
    return int(found["doubled"])


class Nodes:
    """A Ray cluster of two nodes of which one may be lost, and comes back."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        self._second = self._cluster.add_node(num_cpus=1)
        self.address: str = self._cluster.address

    def kill(self, driver: int, chance: random.Random) -> None:
        """The driver, an actor or the second node, which is restarted."""
        victim = chance.choice(("driver", "actor", "node"))
        if victim == "node":
            self._cluster.remove_node(self._second, allow_graceful=False)
            self._second = self._cluster.add_node(num_cpus=1)
        elif victim == "actor":
            subprocess.run(["pkill", "-KILL", "-f", "ray::_Actor"], check=False)
        else:
            with suppress(ProcessLookupError):
                os.kill(driver, chance.choice(SIGNALS))

    def shut(self) -> None:
        self._cluster.shutdown()


def kill_process(parent: int, chance: random.Random) -> None:
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

    for module in (compaction, runner):
        setattr(module, "LOOSE", 3)  # noqa: B010  # each keeps the number it imported
    threading.excepthook = lambda raised: (
        None
    )  # of the thread that compacted files, when it is broken off
    setattr(RemotePlace, "put", breaking)  # noqa: B010  # this is the torture
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


def turn(
    where: str, base: str, number: int, chance: random.Random, nodes: Nodes | None
) -> tuple[str, int]:
    """One run at one place: where it lies, and how often it was killed."""
    out = f"{base}/{where}-{number}"
    if where == "memory":
        return out, torture_memory(out, chance)
    if where == "ray" and nodes is not None:
        who = ["--ray-address", nodes.address]
        return out, torture_processes(out, chance, who, lambda pid: nodes.kill(pid, chance))
    who = ["--workers", str(chance.choice((0, 1, 2)))]
    return out, torture_processes(out, chance, who, lambda pid: kill_process(pid, chance))


def forget(out: str) -> None:
    import fsspec

    files, root = fsspec.core.url_to_fs(out)
    files.rm(root, recursive=True)


def torture(
    minutes: float, seed: int, folder: str, bases: dict[str, str], nodes: Nodes | None
) -> int:
    chance = random.Random(seed)
    run_plan(PLAN, f"{folder}/whole", workers=0)
    whole = rows_of(f"{folder}/whole")
    oracle = replace(PLAN, segmenters=(*PLAN.segmenters, Spec("synthetic-oracle")))
    run_plan(oracle, f"{folder}/wide", workers=0)
    wide = rows_of(f"{folder}/wide")
    end, turns, kills = time.monotonic() + 60 * minutes, 0, dict.fromkeys(bases, 0)
    while time.monotonic() < end:
        turns += 1
        for where, base in bases.items():
            wrong: list[str] = []
            if where == "copies":
                out, times, wrong = torture_copies(f"{base}/copies-{turns}", chance)
            else:
                out, times = turn(where, base, turns, chance, nodes)
            kills[where] += times
            if not RunFolder(out).layout().compacted_files:
                print(f"turn {turns}: no job of {out} was compacted")
            wanted = wide if where == "copies" else whole
            wrong += left_over(out) + ([] if rows_of(out) == wanted else [f"rows of {out}"])
            if wrong:
                print(f"turn {turns}: {', '.join(wrong)}; seed {seed}, folder {folder}")
                return 1
            forget(out)
    told = ", ".join(f"{times} kills on {where}" for where, times in kills.items())
    print(f"{turns} runs on each: {told}; all rows equal, nothing left over")
    return 0


def torture_study(times: int = 5) -> bool:
    """Kill a study's server; whether everything acknowledged is kept once."""
    import study

    found = study.kill(times, None)
    kept = found["acknowledged"] > 0 and found["backup equal"]
    broken = found["errors"] + found["lost"] + found["stored twice"] + len(found["commands failed"])
    print(f"study: {found}", flush=True)
    return bool(kept and not broken)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None)
    places = "disk,memory,s3,ray,copies,study"
    parser.add_argument("--where", default=places, help="several of these")
    asked = parser.parse_args()
    if unknown := set(asked.where.split(",")) - set(places.split(",")):
        parser.error(f"--where knows no '{min(unknown)}', only {places}")
    seed = random.SystemRandom().randrange(10**6) if asked.seed is None else asked.seed
    print(f"seed {seed}", flush=True)
    wanted = [name for name in asked.where.split(",") if name != "study"]
    if "study" in asked.where.split(",") and not torture_study():
        return 1
    if not wanted:
        return 0
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="torture-"))
        bases = {"disk": folder, "memory": "memory://torture", "ray": folder, "copies": folder}
        if "s3" in wanted:
            bases["s3"] = stack.enter_context(s3_server())
        nodes = Nodes() if "ray" in wanted else None
        if nodes is not None:
            stack.callback(nodes.shut)
        chosen = {where: bases[where] for where in wanted}
        return torture(asked.minutes, seed, folder, chosen, nodes)


if __name__ == "__main__":
    sys.exit(main())

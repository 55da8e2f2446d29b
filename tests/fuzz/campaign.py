"""`make fuzz`: every reader of files against many mutated inputs, each reader in its own process.

    python -m tests.fuzz [--inputs 20000] [--seed N] [--keep FOLDER] [READER...]

Prints the seed; inputs that gave a trace, took over 5 s, killed the process or brought it above
1 GB are kept. Exit 1 if there is any.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from .harness import fuzz
from .readers import READERS

SLOWEST_S = 5.0
STUCK_S = 60.0
MOST_BYTES = 1 << 30


def main() -> int:
    asked = _asked()
    seed = asked.seed if asked.seed is not None else time.time_ns() % 1_000_000
    names = asked.readers or list(READERS)
    print(f"seed {seed}, {asked.inputs} inputs per reader", flush=True)
    bad = 0
    for name in names:
        if not READERS[name].available:
            print(f"{name:12} passed over: needs {READERS[name].needs}", flush=True)
            continue
        bad += _in_own_process(name, seed, asked.inputs, asked.keep)
    return 1 if bad else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("readers", nargs="*", choices=[*READERS, []], metavar="READER")
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    return parser.parse_args()


def _in_own_process(name: str, seed: int, inputs: int, keep: Path) -> int:
    """How much was found; a process that dies leaves its last input behind."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        start = time.perf_counter()
        context = multiprocessing.get_context("spawn")
        told = context.Queue()
        child = context.Process(target=_child, args=(name, seed, inputs, Path(folder), keep, told))
        child.start()
        child.join()
        spent = time.perf_counter() - start
        if child.exitcode:
            last = Path(folder) / READERS[name].file
            _keep(keep, name, f"dead-{seed}", last.read_bytes() if last.is_file() else b"")
            print(f"{name:12} DIED with exit code {child.exitcode}; its input is in {keep}")
            return 1
        found, kinds, peak = told.get()
    tried = -(-inputs // READERS[name].share)
    print(
        f"{name:12} {tried} inputs, {found} findings, {spent:.0f} s, {peak >> 20} MiB at most",
        flush=True,
    )
    for kind, count in kinds.items():
        print(f"  {count:6} {kind}", flush=True)
    return int(found)


def _child(
    name: str, seed: int, inputs: int, folder: Path, keep: Path, told: multiprocessing.Queue[object]
) -> None:
    # Decoders write their complaints past Python; only what ends the process matters.
    keep.mkdir(parents=True, exist_ok=True)
    with (keep / f"{name}.log").open("w") as log:
        os.dup2(log.fileno(), 2)
    faulthandler.enable()
    reader, kinds, found = replace(READERS[name], read=_watched(name)), dict[str, int](), 0
    for finding in fuzz(reader, folder, seed, inputs, SLOWEST_S):
        found += 1
        if finding.kind not in kinds:
            _keep(keep, name, f"{seed}-{finding.number}", finding.raw, finding.what)
        kinds[finding.kind] = kinds.get(finding.kind, 0) + 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if peak > MOST_BYTES:
        found += 1
        kinds[f"memory rose to {peak >> 20} MiB"] = 1
    told.put((found, kinds, peak))
    told.close()
    told.join_thread()
    os._exit(0)  # threads that a library left behind must not end the process with an error


def _watched(name: str) -> Callable[[Path], object]:
    """The reader, ended with its whole process when it never comes back."""

    def read(path: Path) -> object:
        faulthandler.dump_traceback_later(STUCK_S, exit=True)
        try:
            return READERS[name].read(path)
        finally:
            faulthandler.cancel_dump_traceback_later()

    return read


def _keep(folder: Path, name: str, number: str, raw: bytes, what: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name}-{number}"
    (folder / f"{stem}{Path(READERS[name].file).suffix}").write_bytes(raw)
    if what:
        (folder / f"{stem}.txt").write_text(what, errors="backslashreplace")


def _memory() -> str | None:
    """A folder in memory where there is one: hundreds of thousands of files are written."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None

"""A whole run by the command line: time to the first row, then objects per second.

    python perf/throughput.py [--objects 345] [--workers N] [--out RUN] [--data D] [--weights W]

Runs the click benchmark with SAM 2 tiny on DAVIS in one protocol. Where fewer than so many
objects are available, they are repeated under other names, so that the run has its published
size; the copies are files like any other and each is encoded. The rate once warm leaves out
the first tenth of the objects, in which workers capture their graphs. The GPU's utilisation is
what nvidia-smi reports over that time: the share of it in which a kernel ran.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["main"]

JOB_ID = 20  # letters; files with longer names are compacted files of many jobs


def enlarged(data: Path, folder: Path, objects: int) -> Path:
    """DAVIS with so many objects, copies of those available; the first keep their names."""
    root = folder / "DAVIS"
    images = sorted((data / "DAVIS" / "img").glob("*.jpg"))
    for part in ("img", "gt"):
        (root / part).mkdir(parents=True)
    for place in range(objects):
        again, at = divmod(place, len(images))
        image = images[at]
        stem = image.stem if not again else f"{image.stem}-{again}"
        shutil.copy(image, root / "img" / f"{stem}.jpg")
        shutil.copy(data / "DAVIS" / "gt" / f"{image.stem}.png", root / "gt" / f"{stem}.png")
    return folder


class Utilisation:
    """GPU utilisation, sampled a few times per second during a run."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float]] = []
        self._process: subprocess.Popen[str] | None = None
        if shutil.which("nvidia-smi") is None:
            return
        request = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        self._process = subprocess.Popen(
            [*request, "-lms", "200"], stdout=subprocess.PIPE, text=True
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip().isdecimal():
                self.seen.append((time.time(), float(line)))

    def between(self, start: float, end: float) -> str:
        if self._process is not None:
            self._process.terminate()
        shares = [share for at, share in self.seen if start <= at <= end]
        return f"{statistics.mean(shares):.0f} %" if shares else "not known"


def timed_run(command: list[str], run: Path) -> tuple[float, list[float], int]:
    """When a command began, when each of its parts was written, and its exit code.

    Job files are compacted during the run, so they are polled all the time.
    """
    begun = time.time()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    seen: dict[str, float] = {}
    over = False
    while not over:
        over = process.poll() is not None
        for part in run.glob("jobs/*.parquet"):
            if part.name not in seen and len(part.stem) == JOB_ID:
                with suppress(FileNotFoundError):
                    seen[part.name] = part.stat().st_mtime
        time.sleep(0.02)
    return begun, sorted(seen.values()), process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    shared = Path(os.environ.get("SEGMETER_SHARED", "../shared"))
    parser.add_argument("--data", type=Path, default=shared / "data")
    parser.add_argument("--weights", type=Path, default=shared / "weights")
    parser.add_argument("--model", default="sam2-hiera-tiny")
    parser.add_argument("--objects", type=int, default=345)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    if not (chosen.data / "DAVIS").is_dir():
        print(f"skipped: no DAVIS in '{chosen.data}'")
        return
    with tempfile.TemporaryDirectory() as place:
        data = enlarged(chosen.data, Path(place), chosen.objects)
        run = chosen.out or Path(place) / "run"
        command = [sys.executable, "-m", "segmeter", "run", "noc", "--model", chosen.model]
        command += ["--dataset", "davis", "--data", str(data), "--weights", str(chosen.weights)]
        command += ["--protocol", "published", "--out", str(run)]
        command += [] if chosen.workers is None else ["--workers", str(chosen.workers)]
        busy = Utilisation()
        begun, written, code = timed_run(command, run)
        if not written:
            print(f"no row was written, exit code {code}")
            return
        warm = written[len(written) // 10 :]
        seconds = warm[-1] - warm[0]
        print(f"{len(written)} of {chosen.objects} objects, exit code {code}")
        first, last = written[0] - begun, written[-1] - begun
        print(f"first row {first:.1f} s after the command, the last {last:.1f} s")
        share = busy.between(warm[0], warm[-1])
        print(f"once warm {(len(warm) - 1) / seconds:.1f} objects a second, GPU busy {share}")


if __name__ == "__main__":
    main()

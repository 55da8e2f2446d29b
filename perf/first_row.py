"""How long a command takes until its first rows lie on the disk.

    python perf/first_row.py -- segmeter demo --out RUN
    python perf/first_row.py RUN -- segmeter run noc --model grabcut --dataset mini --out RUN

Watches the folder (by default the word after `--out`) for the first finished part. The command
is stopped once it is there, unless --all is given.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["seconds_to_first_row"]


def seconds_to_first_row(
    command: list[str], folder: Path, *, whole: bool = False
) -> tuple[float, float]:
    """Wall seconds from starting a command to the first part under a folder, and the longest CPU
    time of any of its processes until then, on which others on the machine have no influence."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = busiest = float("nan")
    while process.poll() is None:
        if any(folder.glob("**/jobs/**/*.parquet")):
            found = time.perf_counter() - start
            busiest = max(cpu_seconds(process.pid), default=busiest)
            break
        time.sleep(0.01)
    if not whole:
        process.send_signal(signal.SIGINT)
    process.wait()
    return found, busiest


def cpu_seconds(parent: int) -> list[float]:
    """CPU seconds of a process with each of its children; none where there is no /proc."""
    own, children = 0.0, [0.0]
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            spent = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            if int(stat.parent.name) == parent:
                own = spent
            elif int(fields[1]) == parent:
                children.append(spent)
    return [own + spent for spent in children] if own else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--all", action="store_true", help="let the command finish")
    own, command = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, command = own[:at], own[at + 1 :]
    chosen = parser.parse_args(own)
    if "--out" not in command[:-1]:
        parser.error("give the command to time after --, with its --out FOLDER")
    folder = chosen.folder or Path(command[command.index("--out") + 1])
    seconds, cpu = seconds_to_first_row(command, folder, whole=chosen.all)
    if math.isnan(seconds):
        sys.exit("the command ended without a row: run it alone to see why")
    print(
        f"first row after {seconds:.2f} s; command and its busiest worker spent {cpu:.2f} s of CPU"
    )


if __name__ == "__main__":
    main()

"""How long a command takes until its first rows lie on the disk.

    python perf/first_row.py -- segmeter demo --out RUN
    python perf/first_row.py RUN -- segmeter run noc --model grabcut --dataset mini --out RUN

Watches the folder (by default the word after `--out`) for the first finished part. The command
is stopped once it is there, unless --all is given.
"""

from __future__ import annotations

import argparse
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["seconds_to_first_row"]


def seconds_to_first_row(command: list[str], folder: Path, *, whole: bool = False) -> float:
    """Wall seconds from starting a command to the first part under a folder."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = float("nan")
    while process.poll() is None or found != found:
        if any(folder.glob("**/parts/**/*.parquet")):
            found = time.perf_counter() - start
            break
        if process.poll() is not None:
            break
        time.sleep(0.01)
    if not whole:
        process.send_signal(signal.SIGINT)
    process.wait()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--all", action="store_true", help="let the command finish")
    own, command = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, command = own[:at], own[at + 1 :]
    chosen = parser.parse_args(own)
    folder = chosen.folder or Path(command[command.index("--out") + 1])
    seconds = seconds_to_first_row(command, folder, whole=chosen.all)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = spent.ru_utime + spent.ru_stime
    print(f"first row after {seconds:.2f} s ({cpu:.2f} s of CPU until the command ended)")


if __name__ == "__main__":
    main()

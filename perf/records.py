"""Reading recorded clicks: a realistic file of full size, ours against Python's own reader.

    python perf/records.py [--rows 475544]

The file has as many rows as the published one (475 544), drawn from the click model on
ellipses; ours checks every row, the plain reader only splits lines and makes numbers. Each
reads three times, the least time counts: the first reading also imports the reader.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from segmeter.clickability.click_files import ClickTarget, write_simulated
from segmeter.core.masks import Mask
from segmeter.datasets.recorded_clicks import read_clicks

SHAPE = (120, 160)
A_TARGET = 3 * 48  # first, false negatives, false positives


def things(count: int) -> Iterator[ClickTarget]:
    """Ellipses of many sizes, spread over five datasets."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    names = ("GrabCut", "Berkeley", "DAVIS", "COCO", "TETRIS")
    for i in range(count):
        (cy, cx), (ry, rx) = rng.uniform(40, 80, 2), rng.uniform(12, 36, 2)
        inside = ((y - cy) / ry) ** 2 + ((x - cx) / rx) ** 2 <= 1
        yield ClickTarget(names[i % 5], f"{i:05d}", Mask.of(inside))


def plain(path: Path) -> int:
    with path.open(newline="", encoding="utf-8") as file:
        rows = [(int(r["x"]), int(r["y"]), r["full_stem"]) for r in csv.DictReader(file)]
    return len(rows)


def timed(read: Callable[[], int], rows: int) -> float:
    start = time.process_time()
    assert read() == rows
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=475_544)
    wanted = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clicks.csv"
        rows = write_simulated(path, things(wanted // A_TARGET + 12))
        ways: tuple[Callable[[], int], ...] = (lambda: len(read_clicks(path)), lambda: plain(path))
        seconds = [min(timed(read, rows) for _ in range(3)) for read in ways]
        print(f"{rows} rows, {path.stat().st_size / 1e6:.0f} MB")
    print(f"segmeter      {seconds[0]:6.2f} s of CPU time, every row checked")
    print(f"plain reader  {seconds[1]:6.2f} s")
    print(f"{seconds[1] / seconds[0]:.1f} x faster")


if __name__ == "__main__":
    main()

"""Overhead of `segmeter models serve` per click on the loopback; the goal is under 15 ms.

    python perf/service_overhead.py [--model disc] [--clicks 200]

Prints the median and 95th percentile of wall milliseconds per click in this process and over the
service, in turn on the same image, and their difference.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time

import numpy as np

from segmeter.core import catalogue
from segmeter.core.models import EncodedScene, Request
from segmeter.core.prompts import Click
from segmeter.models.services import ServiceModel

GOAL_MS = 15.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="disc")
    parser.add_argument("--clicks", type=int, default=200)
    asked = parser.parse_args()
    words = ["-m", "segmeter", "models", "serve", "--model", asked.model, "--port", "0"]
    service = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert service.stdout is not None
        found = re.search(r"http://[\w.]+:\d+", service.stdout.readline())
        assert found is not None, "the service did not print its address"
        data = catalogue.datasets.make("mini")
        scene = data.load(data.scenes()[0])
        here = catalogue.models.make(asked.model).encode(scene)
        there = ServiceModel(found[0]).encode(scene)
        rng = np.random.default_rng(0)
        places = rng.integers(0, scene.shape, (asked.clicks, 2)).tolist()
        spent = np.array([[_seconds(e, y, x) for e in (here, there)] for y, x in places])
    finally:
        service.kill()
        service.wait()
    library, over = (1000 * np.quantile(column, (0.5, 0.95)) for column in spent.T)
    extra = 1000 * float(np.median(spent[:, 1] - spent[:, 0]))
    print(f"{asked.model}, {scene.shape[0]} x {scene.shape[1]} pixels, {asked.clicks} clicks")
    print(f"library  p50 {library[0]:7.2f} ms  p95 {library[1]:7.2f} ms")
    print(f"service  p50 {over[0]:7.2f} ms  p95 {over[1]:7.2f} ms")
    print(f"overhead per click {extra:.2f} ms (goal: under {GOAL_MS:g} ms)")
    return int(extra >= GOAL_MS)


def _seconds(encoded: EncodedScene, y: int, x: int) -> float:
    start = time.perf_counter()
    (found,) = encoded.predict([Request((Click((y, x)),))])
    _ = found.mask().area
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())

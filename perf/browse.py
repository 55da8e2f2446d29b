"""How quick browsing a large run is: opening it, a page, a filter, one session.

    python perf/browse.py [--sessions 100000] [--rounds 5]

A run is made by hand, with rows as the engine keeps them (small masks, ten sessions per part).
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np

from segmeter.core.catalogue import Spec
from segmeter.core.masks import Mask
from segmeter.core.plans import Job, Plan
from segmeter.core.rows import SESSION_ROWS, columns_of_measures
from segmeter.report.browsing import BrowseServer, Sessions
from segmeter.store import Run
from segmeter.store.folder import RunFolder

MODELS = ("synthetic-oracle", "disc", "synthetic-noisy", "grabcut", "random-walker")
CLASSES = ("cat", "dog", "horse", "car", "tree")
TARGETS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "run", chosen.sessions, chosen.rounds)
        timed(Path(folder) / "run")


def make(path: Path, sessions: int, rounds: int) -> None:
    """A run of so many sessions."""
    plan = Plan("noc", tuple(map(Spec, MODELS)), (Spec("drawn"),), users=(Spec("centre-click"),),
                rounds=rounds, protocols=("corrected",), measures=("iou",))  # fmt: skip
    schema = SESSION_ROWS.plus(columns_of_measures(["iou"]))
    mask = Mask.box((64, 64), (10, 10), (40, 50)).encoded()
    rng = np.random.default_rng(5)
    scenes = sessions // (TARGETS * len(MODELS))
    with RunFolder.claimed(path, plan) as run:
        for model in MODELS:
            for number in range(scenes):
                job = Job(Spec(model), Spec("drawn"), f"scene-{number:05d}")
                run.finish(job, rows_of(job, rounds, mask, rng), {"segmenter": model}, schema)


def rows_of(job: Job, rounds: int, mask: str, rng: np.random.Generator) -> list[dict[str, object]]:
    return [
        job.identity()
        | {"target": f"t{t}", "user": "centre-click", "protocol": "corrected", "round": k + 1,
           "cluster": job.scene, "shape": [64, 64], "label": CLASSES[t % len(CLASSES)],
           "groups": {}, "area": int(area), "outline_px": 160, "y": 20.0, "x": 20.0,
           "positive": True, "prompt": '[{"kind":"click","point":[20.0,20.0],"positive":true}]',
           "mask": mask, "seconds_encode": 0.1, "seconds_predict": 0.1, "seconds_user": 0.0,
           "batch": 1, "stopped": False, "iou": float(ious[k])}
        for t, area in enumerate(rng.integers(200, 20_000, TARGETS))
        for ious in [np.sort(rng.random(rounds))]
        for k in range(rounds)
    ]  # fmt: skip


def timed(path: Path) -> None:
    for when in ("the first time", "again"):
        start = time.perf_counter()
        sessions = Sessions(Run.open(path))
        print(f"opened {when}: {time.perf_counter() - start:.2f} s")
    server = BrowseServer(sessions)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    asked = {
        "first page": "/",
        "filter by model, class and result": "/?model=synthetic-noisy&class=dog&result=failed",
        "sorted by size, page 400": "/?sort=smallest&page=400",
        "one session": "/session?" + urllib.parse.urlencode({
            "model": "synthetic-noisy", "dataset": "drawn", "scene": "scene-00007", "target": "t3",
            "user": "centre-click", "protocol": "corrected"}),
    }  # fmt: skip
    for what, path_ in asked.items():
        best = min(_seconds(address + path_) for _ in range(3))
        print(f"{what}: {1000 * best:.0f} ms")
    server.shutdown()


def _seconds(address: str) -> float:
    start = time.perf_counter()
    with urllib.request.urlopen(address) as answer:
        answer.read()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()

"""A large COCO file: read whole, gone through once, and opened again.

    python perf/coco_index.py          # 60 000 objects, 60 MB
    python perf/coco_index.py 260000   # 259 MB

Each way runs in a process of its own, so that its memory can be told.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from segmeter.datasets import coco_files

WAYS = ("json.loads", "first time", "again")


def write(path: Path, objects: int) -> None:
    """Polygons of sixty corners on images of thirteen objects each, as in LVIS."""
    draws = np.random.default_rng(0)
    count = max(1, objects // 13)
    images = [
        {"id": n, "height": 480, "width": 640, "coco_url": f"http://a/val2017/{n:012}.jpg"}
        for n in range(count)
    ]
    with path.open("w") as file:
        file.write('{"annotations": [')
        for n in range(objects):
            polygon = np.round(draws.uniform(0, 480, 120), 2).tolist()
            thing = {"id": n, "image_id": n % count, "area": 1.0, "segmentation": [polygon]}
            file.write((", " if n else "") + json.dumps(thing))
        file.write(f'], "images": {json.dumps(images)}, "categories": []}}')


def one(way: str, path: Path) -> None:
    """Open the file one way; print CPU seconds, MiB and the number of objects."""
    import platformdirs  # noqa: F401  # a run has imported it to look for weights

    coco_files._LARGE = 1  # smaller files are not worth a table, but are quicker to write here
    begin = time.process_time()
    if way == "json.loads":
        found = len(json.loads(path.read_bytes())["annotations"])
    else:
        found = len(coco_files.index_of(path).objects)
    seconds = time.process_time() - begin
    state = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([seconds, state, found]))


def main(objects: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.json")
        write(path, objects)
        size = f"{objects} objects, {path.stat().st_size / 1e6:.0f} MB"
        print(f"{size}: CPU seconds, memory, times faster, times smaller")
        inside = {**os.environ, "XDG_CACHE_HOME": folder}
        base = None
        for way in WAYS:
            command = [sys.executable, __file__, way, str(path)]
            said = subprocess.run(command, env=inside, capture_output=True, text=True, check=True)
            seconds, state, found = json.loads(said.stdout)
            assert found == objects
            base = base or (seconds, state)
            faster, smaller = base[0] / seconds, base[1] / state
            print(f"{way:12} {seconds:8.2f} s {state:8.0f} MiB {faster:8.1f} x {smaller:8.1f} x")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        one(sys.argv[1], Path(sys.argv[2]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 60_000)

"""The gradient attack on several objects and in both directions: together against one by one.

    python perf/attack.py [--data DATA] [--weights WEIGHTS] [--model mobile-sam] [--objects 8]

Discs on a GrabCut image stand for objects; each is attacked by the first click, ten steps
towards the worst and ten towards the best. Together means that all of them take every step in
one pass of the network; one by one, that each session has its own.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from segmeter.core import catalogue
from segmeter.core.errors import NotFound
from segmeter.core.masks import Mask
from segmeter.core.models import EncodedScene
from segmeter.core.scenes import Image, Scene, Target
from segmeter.core.users import Observation
from segmeter.engine.arithmetic import fix_arithmetic
from segmeter.users.adversary import Attempt, Direction, follow

COLUMNS = 4


def with_discs(scene: Scene, objects: int) -> Scene:
    """The scene with discs on a lattice as its targets."""
    height, width = scene.shape[:2]
    rows = -(-objects // COLUMNS)
    radius = 0.3 * min(height / rows, width / COLUMNS)
    y, x = np.ogrid[:height, :width]
    targets = []
    for i in range(objects):
        row, column = divmod(i, COLUMNS)
        middle = (row + 0.5) * height / rows, (column + 0.5) * width / COLUMNS
        disc = (y - middle[0]) ** 2 + (x - middle[1]) ** 2 < radius**2
        targets.append(Target(str(i), Mask.of(disc)))
    return Image(scene.dataset, scene.id, scene.pixels, targets)


def tasks(scene: Scene, encoded: EncodedScene) -> tuple[list[Observation], list[Direction]]:
    empty = Mask.empty(scene.shape)
    observations = [
        Observation(scene, target, empty, (), "corrected", encoded) for target in scene.targets
    ]
    ways: tuple[Direction, Direction] = ("worst", "best")
    return [*observations, *observations], [way for way in ways for _ in observations]


def timed(work: Callable[[], list[Attempt | None]]) -> tuple[float, list[Attempt | None]]:
    """Seconds of the second call, and what it found."""
    work()
    start = time.perf_counter()
    found = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    shared = Path(os.environ.get("SEGMETER_SHARED", "../shared"))
    parser.add_argument("--data", type=Path, default=shared / "data")
    parser.add_argument("--weights", type=Path, default=shared / "weights")
    parser.add_argument("--model", default="mobile-sam")
    parser.add_argument("--objects", type=int, default=8)
    chosen = parser.parse_args()
    fix_arithmetic(threads=1)  # as in a run: rounding could change the steps
    try:
        model = catalogue.models.make(chosen.model, weights=chosen.weights)
        dataset = catalogue.datasets.make("grabcut", data=chosen.data)
    except NotFound as missing:
        print(f"skipped: {missing}")
        return
    scene = with_discs(dataset.load(dataset.scenes()[0]), chosen.objects)
    observations, directions = tasks(scene, model.encode(scene))
    together, found = timed(lambda: follow(observations, directions))
    alone, others = timed(
        lambda: [follow([s], [d])[0] for s, d in zip(observations, directions, strict=True)]
    )
    same = sum(
        a is not None and b is not None and a.click == b.click
        for a, b in zip(found, others, strict=True)
    )
    steps = 10 * len(observations)
    print(f"{chosen.model}, {chosen.objects} objects, both directions, ten steps each")
    print(f"together   {together:8.2f} s, {1000 * together / steps:7.1f} ms a step of a session")
    print(f"one by one {alone:8.2f} s, {1000 * alone / steps:7.1f} ms a step of a session")
    print(f"together {alone / together:.1f} x faster; same click in {same} of {len(observations)}")


if __name__ == "__main__":
    main()

"""A whole click session: the published loop against ours, in one run.

    python perf/session.py [--data DATA] [--weights WEIGHTS] [--objects 10] [--threads 1]

The published loop encodes the image again at every click, clicks and scores on the whole
image, runs users one after the other and launches its network kernel by kernel; its libraries
take as many threads as they like. Ours encodes once, runs users together and replays captured
graphs where the device has them; kernels have the threads that a run's worker gives them. Both
use the same weights, device and precision (--dtype); decoding the image is counted for both.
All variants run an object one after the other before the next object comes, so that whatever
slows the machine down for a while slows them all. This is the time of a lone session;
perf/throughput.py has the rate of a whole run, whose workers overlap theirs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import published_way
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import NotFound
from segmeter.core.models import Model, Request, render
from segmeter.core.plans import Plan
from segmeter.core.prompts import Click, Prompt
from segmeter.core.scenes import Dataset, Scene
from segmeter.core.users import User
from segmeter.kernels import set_threads
from segmeter.runtime.workers_and_devices import usable_cores
from segmeter.users.error_prompts import CentreClick, RandomFirstClick
from segmeter.users.humanlike_clicks import ClickingGroup
from segmeter.users.simulation import simulate_scene

ROUNDS = 20
USERS = 11
WARM_UP = 3 if torch.cuda.is_available() else 1  # graphs are captured at the second image
PLAN = Plan(
    "noc",
    (Spec("model"),),
    (Spec("data"),),
    rounds=ROUNDS,
    protocols=("published",),
    measures=("iou", "boundary-iou"),
)


def published_session(model: Model, scene: Scene) -> None:
    """One object, one user, everything recomputed at every click."""
    target = scene.targets[0]
    labels = target.mask.dense().astype(np.int32)
    if target.ignore is not None:
        labels[target.ignore.dense()] = -1
    clicker = published_way.Clicker(labels)
    prediction = np.zeros(labels.shape, dtype=bool)
    prompts: tuple[Prompt, ...] = ()
    state = None
    for _ in range(ROUNDS):
        y, x, positive = clicker.click(prediction)
        prompts = (*prompts, Click((y, x), positive))
        encoded: Any = model.encode(scene)
        encoded.graphs = False  # the authors' code has no captured graphs
        predictions = encoded.predict([Request(prompts, state)])
        state = predictions[0].state
        prediction = render(encoded, predictions)[0].dense()
        published_way.iou(labels, prediction)
        published_way.boundary_iou(labels, prediction)


def seconds_an_object(
    ways: Mapping[str, Callable[[Scene], object]], dataset: Dataset, objects: int
) -> dict[str, float]:
    """Median wall seconds of each variant over newly read scenes; the first ones warm up."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for scene in list(dataset.scenes())[: objects + WARM_UP]:
        for name, simulate in ways.items():
            start = time.perf_counter()
            simulate(dataset.load(scene))
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(spent[WARM_UP:]) for name, spent in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    shared = Path(os.environ.get("SEGMETER_SHARED", "../shared"))
    parser.add_argument("--data", type=Path, default=shared / "data")
    parser.add_argument("--weights", type=Path, default=shared / "weights")
    parser.add_argument("--model", default="sam2-hiera-tiny")
    parser.add_argument("--dataset", default="davis")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--objects", type=int, default=10 if torch.cuda.is_available() else 1)
    parser.add_argument("--threads", type=int, default=max(1, usable_cores() // 2))
    chosen = parser.parse_args()
    try:
        model = catalogue.models.make(chosen.model, weights=chosen.weights, dtype=chosen.dtype)
        dataset = catalogue.datasets.make(chosen.dataset, data=chosen.data)
    except NotFound as missing:
        print(f"skipped: {missing}")
        return
    plan = PLAN
    torch.backends.cudnn.allow_tf32 = False  # as in a run
    set_threads(chosen.threads)
    people: list[User] = [CentreClick(), *(ClickingGroup(group) for group in range(1, USERS))]
    crowd = [RandomFirstClick(name=f"person {i}") for i in range(USERS)]

    def together(*users: User) -> Callable[[Scene], object]:
        return lambda scene: list(simulate_scene(model, scene, plan, users))

    print(f"{chosen.model} ({chosen.dtype}) on {getattr(model, 'device', 'cpu')}, {chosen.dataset}")
    spent = seconds_an_object(
        {
            "published loop, one user": lambda scene: published_session(model, scene),
            "one centre click per round": together(CentreClick()),
            "eleven random first clicks together": together(*crowd),
            "one clicking group": together(ClickingGroup(5)),
            "ten clicking groups and the centre click": together(*people),
        },
        dataset,
        chosen.objects,
    )
    for name, seconds in spent.items():
        print(f"{name:<44} {seconds:8.3f} s per object")
    published, one, many, group, groups = spent.values()
    print(f"one user: {published / one:.1f} x faster than the published loop")
    print(f"{USERS} users: {USERS * published / many:.1f} x faster; {many / one:.2f} x one user")
    print(f"ten clicking groups and the centre click: {groups / group:.2f} x one group")


if __name__ == "__main__":
    main()

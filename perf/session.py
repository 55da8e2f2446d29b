"""A whole click session: the published loop against ours, in one run.

    python perf/session.py [--data DATA] [--weights WEIGHTS] [--objects 10] [--threads 8]

The published loop encodes the picture anew at every click, clicks and scores on the whole
picture, and plays users one after the other. Ours looks once and plays them together. Both
use the same network, device and precision; decoding the picture is counted for both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import published_way
from segmeter.benchmarks.sessions import play_scene
from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import NotFound
from segmeter.core.models import Ask, Model, render
from segmeter.core.plans import Plan
from segmeter.core.prompts import Click, Prompt
from segmeter.core.scenes import Dataset, Scene
from segmeter.core.threads import set_threads
from segmeter.users.centre_click import CentreClick
from segmeter.users.clicking_group import ClickingGroup
from segmeter.users.random_click import RandomFirstClick

ROUNDS = 20
USERS = 11
PLAN = Plan(
    "noc",
    (Spec("model"),),
    (Spec("data"),),
    rounds=ROUNDS,
    readings=("published",),
    measures=("iou", "boundary-iou"),
)


def published_session(model: Model, scene: Scene) -> None:
    """One object, one user, everything anew at every click."""
    target = scene.targets[0]
    labels = target.mask.dense().astype(np.int32)
    if target.ignore is not None:
        labels[target.ignore.dense()] = -1
    clicker = published_way.Clicker(labels)
    guess = np.zeros(labels.shape, dtype=bool)
    prompts: tuple[Prompt, ...] = ()
    memory = None
    for _ in range(ROUNDS):
        y, x, positive = clicker.click(guess)
        prompts = (*prompts, Click((y, x), positive))
        view = model.look(scene)
        predictions = view.answer([Ask(prompts, memory)])
        memory = predictions[0].memory
        guess = render(view, predictions)[0].dense()
        published_way.iou(labels, guess)
        published_way.boundary_iou(labels, guess)


def seconds_an_object(play: Callable[[Scene], object], dataset: Dataset, objects: int) -> float:
    """Median wall seconds over scenes that are read anew; the first one warms up."""
    times = []
    for scene in list(dataset.scenes())[: objects + 1]:
        start = time.perf_counter()
        play(dataset.load(scene))
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    shared = Path(os.environ.get("SEGMETER_SHARED", "../shared"))
    parser.add_argument("--data", type=Path, default=shared / "data")
    parser.add_argument("--weights", type=Path, default=shared / "weights")
    parser.add_argument("--model", default="sam2-hiera-tiny")
    parser.add_argument("--dataset", default="davis")
    parser.add_argument("--objects", type=int, default=10 if torch.cuda.is_available() else 1)
    parser.add_argument("--threads", type=int, default=8)
    chosen = parser.parse_args()
    try:
        model = catalogue.models.make(chosen.model, weights=chosen.weights)
        dataset = catalogue.datasets.make(chosen.dataset, data=chosen.data)
    except NotFound as missing:
        print(f"skipped: {missing}")
        return
    plan = replace(PLAN, threads=chosen.threads)
    set_threads(chosen.threads)
    crowd = [RandomFirstClick(name=f"person {i}") for i in range(USERS)]

    def timed(name: str, play: Callable[[Scene], object]) -> float:
        seconds = seconds_an_object(play, dataset, chosen.objects)
        print(f"{name:<48} {seconds:8.3f} s an object", flush=True)
        return seconds

    print(f"{chosen.model} on {getattr(model, 'device', 'cpu')}, {chosen.dataset}, {ROUNDS} clicks")
    published = timed("published loop, one user", lambda s: published_session(model, s))
    one = timed("segmeter, one user", lambda s: play_scene(model, s, plan, [CentreClick()]))
    many = timed(f"segmeter, {USERS} users together", lambda s: play_scene(model, s, plan, crowd))
    person = [ClickingGroup(5)]
    people = [CentreClick(), *(ClickingGroup(g) for g in range(1, USERS))]
    alone = timed("segmeter, one clicking group", lambda s: play_scene(model, s, plan, person))
    together = timed(
        "segmeter, ten groups and the centre click", lambda s: play_scene(model, s, plan, people)
    )
    print(f"one user: {published / one:.1f} x faster")
    print(f"{USERS} users: {USERS * published / many:.1f} x faster; {many / one:.2f} x one user")
    print(f"ten clicking groups and the centre click: {together / alone:.2f} x one group")


if __name__ == "__main__":
    main()

"""Cost of a click on an encoded scene; eleven users together and one at a time.

    python perf/answers.py [--weights WEIGHTS] [--model sam2-hiera-tiny]

One scene that ships inside, one object, 20 clicks, on the processor with one thread. CPU
seconds, everything in one run: encoding, predictions, finding the clicks, IoU. Exits with
status 1 if one of these does not hold:

- 20 clicks of one object cost one embedding, and so do eleven users of it;
- eleven users together cost at most half of eleven separate runs, and at most 5.5 x one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from segmeter.core import catalogue
from segmeter.core.catalogue import Spec
from segmeter.core.errors import NotFound
from segmeter.core.models import Request
from segmeter.core.plans import Plan
from segmeter.core.prompts import Click
from segmeter.core.scenes import Image, Scene
from segmeter.core.users import User
from segmeter.models.sam.model import Sam
from segmeter.users.error_prompts import RandomFirstClick
from segmeter.users.simulation import simulate_scene

ROUNDS, USERS = 20, 11
PLAN = Plan(
    "noc",
    (Spec("model"),),
    (Spec("mini"),),
    rounds=ROUNDS,
    protocols=("corrected",),
    measures=("iou",),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="sam2-hiera-tiny")
    parser.add_argument(
        "--weights", default=os.environ.get("SEGMETER_WEIGHTS") or default_weights()
    )
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    try:
        model = catalogue.models.make(chosen.model, weights=chosen.weights, device="cpu")
    except NotFound as missing:
        print(f"skipped: {missing}")
        return 0
    scene = one_object()
    model.encode(scene)  # loads the network
    print(f"{chosen.model} on one thread, {scene.name}, {ROUNDS} clicks; CPU seconds")
    pieces(model, scene)
    return 0 if sessions(model, scene) else 1


def default_weights() -> str | None:
    place = Path(__file__).resolve().parents[2] / "shared" / "weights"
    return str(place) if place.is_dir() else None


def one_object() -> Scene:
    """The first scene of the images that ship inside, with one target only."""
    dataset = catalogue.datasets.make("mini")
    whole = dataset.load(dataset.scenes()[0])
    return Image(whole.dataset, whole.id, whole.pixels, whole.targets[:1])


def sessions(model: Sam, scene: Scene) -> bool:
    """One user, eleven apart, eleven together; whether the promises hold."""
    crowd = [RandomFirstClick(name=f"person {i}") for i in range(USERS)]

    def simulate(users: Sequence[User]) -> None:
        list(simulate_scene(model, scene, PLAN, users))

    with embeddings(model) as counted:
        apart = [seconds(lambda user=user: simulate([user])) for user in crowd]  # type: ignore[misc]
        alone = len(counted)
        together = seconds(lambda: simulate(crowd))
        shared = len(counted) - alone
    one = sum(apart) / USERS
    print(f"one user                  {one:8.2f} s")
    print(f"{USERS} users, separate runs  {sum(apart):8.2f} s   {alone} embeddings")
    print(f"{USERS} users together        {together:8.2f} s   {shared} embedding")
    share, times = together / sum(apart), together / one
    held = [
        promise(f"{ROUNDS} clicks of one user cost one embedding", alone == USERS),
        promise(f"{USERS} users together cost one embedding", shared == 1),
        promise(f"together {share:.2f} of separate runs (at most 0.50)", share <= 0.5),
        promise(f"together {times:.2f} x one user (at most 5.5)", times <= 5.5),
    ]
    return all(held)


def pieces(model: Sam, scene: Scene) -> None:
    """Cost of encoding and of a prediction; requests decoded one by one or in one call."""
    encode = seconds(lambda: model.encode(scene), 2)
    encoded = model.encode(scene)
    requests = [Request((Click((40 + 10 * i, 60)), Click((5, 5 + i), False))) for i in range(USERS)]
    apart = seconds(lambda: encoded.predict(requests), 2)
    encoded.groups = lambda sizes: iter([list(range(len(sizes)))])  # type: ignore[method-assign]
    passed = seconds(lambda: encoded.predict(requests), 2)
    answers = encode / apart * USERS
    print(f"an encoding               {encode:8.2f} s, as much as {answers:.0f} predictions")
    print(f"{USERS} requests in one pass      {passed / apart:8.2f} x as long as one by one")


def promise(text: str, held: bool) -> bool:
    print(f"{'holds ' if held else 'BROKEN'}  {text}")
    return held


def seconds(work: Callable[[], Any], repeats: int = 1) -> float:
    """Least CPU seconds of a call."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


@contextmanager
def embeddings(model: Sam) -> Iterator[list[int]]:
    """Counts how often the image is embedded."""
    counted: list[int] = []
    encode = model.network.encode

    def counting(pixels: torch.Tensor) -> Any:
        counted.append(1)
        return encode(pixels)

    model.network.encode = counting  # type: ignore[method-assign]
    try:
        yield counted
    finally:
        del model.network.encode


if __name__ == "__main__":
    sys.exit(main())

"""How near the gradient-free search comes to the true extremes of the first click.

    python perf/tetris_search.py --model mobile-sam --data DATA --weights WEIGHTS [--objects 20]

For each object every `--stride`-th pixel is clicked, which gives the true worst and best IoU,
and the search looks for them with some two hundred clicks. `--smallest` takes the objects of
smallest area, for a machine without a GPU. `segmeter run tetris --exhaustive 1` does
the same within a run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from segmeter.benchmarks.tetris.click_response import click_response_map
from segmeter.core import catalogue
from segmeter.core.masks import Mask
from segmeter.core.scenes import Dataset
from segmeter.core.users import Observation
from segmeter.users.adversary import search

WITHIN = 0.05


def chosen_scenes(dataset: Dataset, objects: int, smallest: bool, skip: set[str]) -> list[str]:
    names = [name for name in dataset.scenes() if name not in skip]
    if smallest:
        names.sort(key=lambda name: dataset.load(name).targets[0].mask.area)
    return names[:objects]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="mobile-sam")
    parser.add_argument("--dataset", default="grabcut")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--objects", type=int, default=20)
    parser.add_argument("--stride", type=int, default=4)
    parser.add_argument("--smallest", action="store_true")
    parser.add_argument("--skip", nargs="*", default=[], help="scenes to leave out")
    chosen = parser.parse_args()
    dataset = catalogue.datasets.make(chosen.dataset, data=chosen.data)
    model = catalogue.models.make(
        chosen.model, **({"weights": chosen.weights} if chosen.weights else {})
    )
    gaps = []
    for name in chosen_scenes(dataset, chosen.objects, chosen.smallest, set(chosen.skip)):
        scene = dataset.load(name)
        encoded, target = model.encode(scene), scene.targets[0]
        observation = Observation(scene, target, Mask.empty(scene.shape), (), "corrected", encoded)
        worst, best = search([observation] * 2, ["worst", "best"])
        found = click_response_map(encoded, target, chosen.stride, boundary=False)
        assert worst is not None
        assert best is not None
        gaps.append(
            (worst.chosen.iou - found.extreme(worst=True)[1],
             found.extreme(worst=False)[1] - best.chosen.iou)
        )  # fmt: skip
        print(
            f"{name:<16} {found.clicks:6d} clicks, {len(worst.trials):4d} tries: worst "
            f"{found.extreme(worst=True)[1]:.3f}, search {worst.chosen.iou:.3f}; best "
            f"{found.extreme(worst=False)[1]:.3f}, search {best.chosen.iou:.3f}",
            flush=True,
        )
    table = np.array(gaps)
    for k, said in enumerate(("worst", "best")):
        near = int((table[:, k] <= WITHIN).sum())
        off = f"{table[:, k].mean():.4f} off on average, {table[:, k].max():.4f} at most"
        print(f"{said}: within {WITHIN} on {near} of {len(table)} objects, {off}")


if __name__ == "__main__":
    main()

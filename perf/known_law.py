"""Does training work? A known click distribution on real objects, learnt from clicks alone.

The distribution is not the shipped prior: people click high on the object, where its colours are
strong, and rather inside than at the edge. Real objects of BSDS500, Berkeley, DAVIS and COCO
get 48 clicks each from it; a network learns from some images and is judged on others,
with the uniform map, the distance map, the prior, and the distribution itself, the best possible.

    python perf/known_law.py make ../shared/data known-law
    segmeter clicks train --clicks known-law/clicks.csv -d known-law/images \
        --learn known-law/learn.txt --report known-law/report.txt --out known-law/network
    python perf/known_law.py judge known-law known-law/network/clickability.safetensors
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from segmeter.clickability.map_sources import SCORES, scores_by_key, source
from segmeter.clickability.maps import ClickabilityMap, ClickRegion
from segmeter.clickability.network import network_source
from segmeter.clickability.training.samples import samples_of
from segmeter.core import catalogue
from segmeter.core.scenes import Scene
from segmeter.core.seeds import generator
from segmeter.datasets.data_roots import read_list
from segmeter.datasets.recorded_clicks import COLUMNS, read_clicks

LONGEST = 512
CLICKS = 48
REPORTED = 0.25
SMALLEST, LARGEST = 0.01, 0.6
MOST_OBJECTS = 5
NAME = "images"
ROWS = 20

Labelled = tuple[str, np.ndarray, np.ndarray]  # name, image, label map
Scored = tuple[str, Any]  # image, and the scores of a map


def itself(region: ClickRegion) -> ClickabilityMap:
    """The distribution as a source of clickability maps."""
    return ClickabilityMap.of(law(region.scene.pixels, region.target.mask.dense()))


def law(image: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Chance of a click at each pixel: depth, height on the object, strength of colour."""
    inside = target.astype(np.uint8)
    depth = cv2.distanceTransform(np.pad(inside, 1), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)[1:-1, 1:-1]
    rows = np.flatnonzero(target.any(axis=1))
    height = (np.arange(target.shape[0]) - rows[0]) / (rows[-1] - rows[0] + 1)
    high = np.exp(-0.5 * ((height - 0.28) / 0.14) ** 2)[:, None]
    colours = image.astype(np.float32)
    strength = colours.max(axis=2) - colours.min(axis=2)
    strength = cv2.GaussianBlur(strength, (0, 0), 0.012 * math.hypot(*target.shape))
    own = strength[target]
    strength = (strength - own.mean()) / max(float(own.std()), 1.0)
    return np.asarray(np.sqrt(depth) * high * np.exp(1.2 * np.clip(strength, -2, 2)) * target)


def make(data: Path, out: Path) -> None:
    """Images, masks, clicks and the two lists of images."""
    for part in ("images", "masks"):
        (out / NAME / part).mkdir(parents=True, exist_ok=True)
    lists: dict[bool, list[str]] = {True: [], False: []}
    with (out / "clicks.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for name, image, labels in things(data):
            cv2.imwrite(str(out / NAME / "images" / f"{name}.jpg"), image[..., ::-1])
            cv2.imwrite(str(out / NAME / "masks" / f"{name}.png"), labels)
            for row in clicks_on(name, read_back(out, name), labels):
                writer.writerow(row)
            lists[generator("report", source_image(name)).random() < REPORTED].append(name)
    (out / "learn.txt").write_text("\n".join(lists[False]) + "\n")
    (out / "report.txt").write_text("\n".join(lists[True]) + "\n")
    print(f"{len(lists[False])} images to learn from, {len(lists[True])} to report on")


def source_image(name: str) -> str:
    """One image occurs in several sets; its number identifies it."""
    return name.split("_")[-1].lstrip("0").rstrip("ab")


def read_back(out: Path, name: str) -> np.ndarray:
    """The image as the network will see it, after JPEG."""
    file = str(out / NAME / "images" / f"{name}.jpg")
    return np.asarray(cv2.imread(file))[..., ::-1]


def things(data: Path) -> Iterator[Labelled]:
    """Name, image and label map of every image, at most 512 pixels long."""
    for dataset in ("berkeley", "davis", "coco-mval", "coco"):
        files = catalogue.datasets.make(dataset, data=data)
        for name in files.scenes():
            scene = files.load(name)
            masks = [target.mask.dense() for target in scene.targets]
            yield from labelled(f"{dataset.replace('-', '')}_{name}", scene, masks)
    files = catalogue.datasets.make("bsds500", data=data)
    for name in files.scenes():
        scene = files.load(name)
        if scene.partitions:
            regions = scene.partitions[0]
            masks = [regions == label for label in np.unique(regions)]
            yield from labelled(f"bsds500_{name}", scene, masks)


def labelled(name: str, scene: Scene, masks: list[np.ndarray]) -> Iterator[Labelled]:
    """The image with its largest objects of middling size, if it has any."""
    try:
        image = scene.pixels
    except OSError:
        return
    shares = [m.mean() for m in masks]
    fit = [i for i in np.argsort(shares)[::-1] if SMALLEST < shares[i] < LARGEST][:MOST_OBJECTS]
    if not fit:
        return
    scale = min(1.0, LONGEST / max(image.shape[:2]))
    size = tuple(round(n * scale) for n in image.shape[1::-1])
    labels = np.zeros(size[::-1], dtype=np.uint8)
    for label, i in enumerate(fit, start=1):
        small = cv2.resize(masks[i].astype(np.uint8), size, interpolation=cv2.INTER_NEAREST)
        labels[(small > 0) & (labels == 0)] = label
    yield name.replace(" ", "-"), cv2.resize(image, size, interpolation=cv2.INTER_AREA), labels


def clicks_on(name: str, image: np.ndarray, labels: np.ndarray) -> Iterator[list[object]]:
    """Rows of the clicks file, for every object of an image."""
    present = [int(n) for n in np.unique(labels) if n]
    for label in present:
        target = labels == label
        chances = law(image, target).ravel().astype(np.float64)
        rng = generator("known law", name, label)
        places = rng.choice(chances.size, CLICKS, p=chances / chances.sum())
        object = str(label) if len(present) > 1 else ""
        stem = f"{name}_______{object}" if object else name
        for y, x in zip(*np.unravel_index(places, labels.shape), strict=True):
            device = "pc" if rng.random() < 0.5 else "mobile"
            size = labels.shape[::-1]
            yield [NAME, name, object, "", "first", stem, device, int(x), int(y), *size]


def judge(out: Path, weights: Path) -> None:
    """A table of mean scores on the images to report on, with intervals by image."""
    images = catalogue.datasets.make("folder", path=str(out / NAME), kind="labels")
    reported = read_list(out / "report.txt")
    training_samples = [
        sample
        for sample in samples_of(read_clicks(out / "clicks.csv"), {NAME: images})
        if sample.image.partition("/")[2] in reported
    ]
    sources = {name: source(name).inner for name in ("uniform", "distance", "prior")}
    sources |= {"network": network_source(weights), "the distribution itself": itself}
    found = {
        name: scores_by_key(training_samples, each, rows=ROWS) for name, each in sources.items()
    }
    print(f"{len(training_samples)} objects on {len(reported)} held-out images\n")
    print(f"| map | {' | '.join(SCORES)} |\n|{'---|' * (len(SCORES) + 1)}")
    for name, rows in found.items():
        cells = [f"{np.mean([getattr(r, s) for _, r in rows]):.3f}" for s in SCORES]
        print(f"| {name} | {' | '.join(cells)} |")
    print()
    for other in ("uniform", "distance", "prior"):
        ahead = [paired(found["network"], found[other], score) for score in ("nss", "pde", "ks")]
        print(f"network over {other}: " + ", ".join(ahead))


def paired(ours: Sequence[Scored], theirs: Sequence[Scored], score: str) -> str:
    """Mean difference with a 95 % interval from 2000 draws of images."""
    gaps: dict[str, list[float]] = {}
    for (image, a), (_, b) in zip(ours, theirs, strict=True):
        gaps.setdefault(image, []).append(getattr(a, score) - getattr(b, score))
    sums = np.array([[sum(g), len(g)] for g in gaps.values()])
    rng = generator("bootstrap", score)
    drawn = sums[rng.integers(len(sums), size=(2000, len(sums)))].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], (0.025, 0.975))
    whole = sums.sum(axis=0)
    return f"{score} {whole[0] / whole[1]:+.2f} ({low:+.2f} to {high:+.2f})"


if __name__ == "__main__":
    verb, first, second = sys.argv[1:]
    (make if verb == "make" else judge)(Path(first), Path(second))

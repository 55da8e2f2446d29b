"""Click training: a network that predicts where people click."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segmeter.api.click_files import clicked_datasets, warn_of_samples
from segmeter.api.loading import Tell, silent
from segmeter.clickability.click_files import Row
from segmeter.clickability.map_sources import map_scores, source
from segmeter.clickability.network import network_source
from segmeter.clickability.training.samples import TrainingSample, samples_of, split
from segmeter.core.errors import BadInput
from segmeter.core.seeds import fingerprint
from segmeter.datasets.data_roots import read_list
from segmeter.datasets.recorded_clicks import read_clicks

if TYPE_CHECKING:
    from segmeter.clickability.training.training_loop import Recipe


def train_clicks(
    clicks: str | Path,
    datasets: Sequence[str],
    out: str | Path,
    *,
    data: str | Path | None = None,
    previous: str | Path | None = None,
    learn: str | Path | None = None,
    report: str | Path | None = None,
    recipe: str = "corrected",
    epochs: int | None = None,
    batch: int | None = None,
    rate: float | None = None,
    size: str = "base",
    frame: int = 416,
    seed: int = 0,
    device: str = "cpu",
    workers: int = 0,
    backbone: str | Path | None = None,
    progress: Callable[[Any], None] = lambda step: None,
    tell: Tell = silent,
) -> tuple[Path, list[Row]]:
    """Train the clickability network on recorded clicks; resumes an interrupted training.

    Returns its weights, and with `report` its scores next to maps without training.

    Parameters
    ----------
    learn, report
        Lists of images to learn from and to report on.
    recipe, epochs, batch, rate
        `"published"` as the authors' code or `"corrected"`; values that replace the recipe's.
    size, frame, backbone
        `"base"`, `"small"` or `"tiny"`; side of the input in pixels; pretrained MSCAN weights.
    """
    from segmeter.clickability.training.training_loop import Course, train
    from segmeter.models.weights import pick_device

    chosen = _recipe(recipe, epochs, batch, rate)
    start = None if backbone is None else Path(backbone)
    course = Course(chosen, size, frame, seed, str(pick_device(device)), workers, start)
    opened, file = clicked_datasets(datasets, data), read_clicks(Path(clicks))
    shown = None if previous is None else Path(previous)
    prints = [Path(clicks).read_bytes(), *(one.fingerprint() for one in opened.values())]
    course = replace(course, data=fingerprint(*prints))
    warn_of_samples(Path(clicks), file, opened, shown, tell)
    samples = samples_of(file, opened, shown)
    lists = [None if names is None else Path(names) for names in (learn, report)]
    learning, choosing = _parts(samples, lists, chosen.corrected, seed)
    tell(f"{len(learning)} training samples to learn from, {len(choosing)} to choose by")
    path = train(learning, choosing, course, Path(out), progress)
    if lists[1] is None:
        return path, []
    # Scores on images that the network has not seen, next to maps without training.
    sources = {name: source(name).inner for name in ("uniform", "distance", "prior")}
    sources["network"] = network_source(path)
    return path, list(map_scores(_only(samples, lists[1]), sources, rows=20))


def _recipe(name: str, epochs: int | None, batch: int | None, rate: float | None) -> Recipe:
    """A recipe by name, with the values that replace its own."""
    from segmeter.clickability.training.training_loop import recipe

    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise BadInput(f"--learning-rate is a number above 0, not {rate:g}")
    found = recipe(name)
    given: dict[str, Any] = {"epochs": epochs, "batch": batch, "rate": rate}
    return replace(found, **{name: value for name, value in given.items() if value})


def _parts(
    samples: list[TrainingSample], lists: Sequence[Path | None], corrected: bool, seed: int
) -> tuple[list[TrainingSample], list[TrainingSample]]:
    """Samples to learn from and samples to choose by.

    The published recipe chooses by the images that are reported; the corrected one by a tenth
    of those it would learn from, so that the report stays fair.
    """
    learn, report = lists
    reported = _only(samples, report) if report is not None else []
    names = {sample.image for sample in reported}
    learning = _only(samples, learn) if learn is not None else samples
    learning = [sample for sample in learning if sample.image not in names]
    if not learning:
        raise BadInput("no training sample is left to learn from; see --learn and --report")
    if reported and not corrected:
        return learning, reported
    return split(learning, seed)


def _only(training_samples: list[TrainingSample], names: Path) -> list[TrainingSample]:
    known = set(read_list(names))
    kept = [sample for sample in training_samples if sample.image.partition("/")[2] in known]
    if not kept:
        raise BadInput(f"no training sample is of an image that '{names}' lists")
    return kept

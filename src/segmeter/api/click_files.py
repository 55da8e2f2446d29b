"""Click files: simulate recorded clicks, compare them, and warn of clicks that are not used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np

from segmeter.api.loading import Tell, dataset_spec, load_dataset, protocol_names, roots_of, silent
from segmeter.clickability import click_files as recorded
from segmeter.clickability.map_sources import map_scores, source
from segmeter.clickability.training.samples import samples_of
from segmeter.core import catalogue
from segmeter.core.errors import BadInput, check_choice
from segmeter.core.models import ProtocolName
from segmeter.core.plans import Plan
from segmeter.core.prompts import Scribble
from segmeter.core.scenes import Dataset
from segmeter.datasets.recorded_clicks import Clicks, Key, read_clicks, read_prompts
from segmeter.measures.clicks import Sides, scribble_shape
from segmeter.runtime.remote_files import Roots
from segmeter.stats.intervals import Resampling
from segmeter.users.error_prompts import stroke
from segmeter.users.replay import NAMES, open_clicks

_MAPS = ("uniform", "distance", "prior")


def make_click_file(
    datasets: Sequence[str],
    out: str | Path,
    *,
    people: int = 48,
    first_only: bool = False,
    masks: str | Path | None = None,
    data: str | Path | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> int:
    """Write a synthetic click file, for testing what reads recorded clicks; returns the count.

    Parameters
    ----------
    people
        Clicks per object.
    first_only, masks
        Leave out later rounds; folder for the masks that later rounds showed.

    Examples
    --------
    >>> import segmeter
    >>> segmeter.make_click_file(
    ...     ["mini"], getfixture("tmp_path") / "clicks.csv", people=2, first_only=True, limit=1
    ... )
    10
    """
    if not Path(out).parent.is_dir():
        raise BadInput(f"--out: there is no folder '{Path(out).parent}'")
    folder = None if masks is None else Path(masks)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    things = (  # under the names that the published file gives them
        recorded.ClickTarget(
            _clicked_name(one), scene.id, t.mask, t.id if scene.targets[1:] else ""
        )
        for one in [load_dataset(name, data) for name in datasets]
        for scene in map(one.load, one.scenes()[:limit])
        for t in scene.targets
    )
    first = next(things, None)
    if first is None:
        raise BadInput("the dataset has no targets; there is nothing to click on")
    return recorded.write_simulated(
        Path(out), chain([first], things), seed, people, not first_only, folder
    )


def compare_clicks(
    clicks: str | Path,
    datasets: Sequence[str],
    compare: str = "devices",
    maps: Sequence[str] = _MAPS,
    *,
    previous: str | Path | None = None,
    data: str | Path | None = None,
    protocols: str | Sequence[str] = "both",
    tell: Tell = silent,
) -> list[tuple[ProtocolName, recorded.Row]]:
    """Compare recorded clicks with each other or with clickability maps.

    Parameters
    ----------
    clicks
        A clicks or previews file (CSV); for scribbles a table of recorded prompts.
    compare
        `"devices"`, `"modes"`, `"halves"` (people with people), `"maps"`, or `"scribbles"`:
        coverage, centredness and length of recorded first strokes and of the user `scribble`'s.
    maps
        Clickability maps to judge; weights of a network as `name=FILE`.
    previous
        Folder of the masks that later rounds showed.

    Returns
    -------
    list of (protocol, Row)
        A row has `what`, `score`, `value`, `low`, `high` and `keys`.
    """
    check_choice("--compare", compare, ("devices", "modes", "halves", "maps", "scribbles"))
    opened = clicked_datasets(datasets, data)
    if compare == "scribbles":
        return [("corrected", row) for row in _scribble_rows(Path(clicks), opened)]
    path, chosen = Path(clicks), protocol_names(protocols)
    file, shown = read_clicks(path), None if previous is None else Path(previous)
    if compare == "maps":
        warn_of_samples(path, file, opened, shown, tell)
        samples, sources = samples_of(file, opened, shown), {}
        for text in maps:
            name, _, weights = text.partition("=")
            sources[name] = source(name, Path(weights) if weights else None).inner
        return [(each, row) for each in chosen for row in map_scores(samples, sources, each)]
    _warn_of_compared(path, file, opened, compare, tell)
    sides = _sides_in(opened, modes=compare == "modes")
    if compare == "halves":
        return [("corrected", row) for row in recorded.ceilings(file, sides)]
    rule = recorded.devices if compare == "devices" else recorded.display_modes
    return [(each, row) for each in chosen for row in rule(file, sides, each)]


def _scribble_rows(path: Path, datasets: Mapping[str, Dataset]) -> Iterator[recorded.Row]:
    """Shapes of recorded first strokes, of simulated ones on the same objects, and differences."""
    shapes, images = [], []
    for (dataset, scene, target, _), rounds in read_prompts(path).items():
        drawn = [p for p in rounds.get(1, ()) if isinstance(p, Scribble) and p.positive]
        held = [d for name, d in datasets.items() if dataset in ("", name, d.card.name)]
        if not drawn or not held or scene not in held[0].scenes():
            continue
        for thing in held[0].load(scene).targets:
            if target in ("", thing.id):
                pair = (drawn[0].points, stroke(thing.mask))
                shapes.append([astuple(scribble_shape(p, thing.mask)) for p in pair])
                images.append(scene)
    if not shapes:
        raise BadInput(f"'{path}' holds no positive first stroke on these datasets")
    table = np.array(shapes)  # (objects, recorded or simulated, measure)
    kinds = {"recorded": table[:, 0], "simulated": table[:, 1],
             "recorded - simulated": table[:, 0] - table[:, 1]}  # fmt: skip
    drawing = Resampling(images)
    for what, values in kinds.items():
        for k, score in enumerate(("coverage", "centredness", "length")):
            found = drawing.interval(values[:, k])
            yield recorded.Row(what, score, found.value, found.low, found.high, len(images))


def _warn_of_compared(
    path: Path, file: Clicks, datasets: dict[str, Dataset], compare: str, tell: Tell
) -> None:
    """Warn about clicks that are not compared, and clicks that miss their objects."""
    if compare == "modes":
        only = next(iter(datasets.values()))
        datasets = {key.dataset: only for key in file.keys}
        reason = recorded.without_partner(file, recorded.REFERENCE)
    elif compare == "devices":
        reason = recorded.few_of_a_device(file, recorded.ENOUGH)
    else:
        reason = recorded.too_few(recorded.HALVES)
    _warn(tell, path, file, [reason], datasets)


def _sides_in(datasets: Mapping[str, Dataset], modes: bool) -> Callable[[Key], Sides]:
    """Sides of the object of a key, in the pixels of the image that people saw."""
    # Display modes stand where datasets do, all on the images of one.
    only = next(iter(datasets.values())) if modes else None

    @cache
    def find(dataset: str, image: str, object: str) -> Sides:
        data = only or datasets.get(dataset)
        if data is None:
            raise BadInput(f"the clicks are of '{dataset}', which no --dataset names")
        targets = data.load(image).targets
        for target in targets:
            if target.id == object or (not object and len(targets) == 1):
                height, width = target.mask.bits.shape
                return float(height), float(width)
        raise BadInput(f"image '{image}' has no object '{object}'")

    return lambda key: find("" if modes else key.dataset, key.image, key.object)


def clicked_datasets(names: Sequence[str], data: str | Path | None = None) -> dict[str, Dataset]:
    """Datasets by the names that click files have for them."""
    places = roots_of(data).options()
    opened = [catalogue.datasets.make(dataset_spec(text), **places) for text in names]
    return {_clicked_name(made): made for made in opened}


def _clicked_name(dataset: Dataset) -> str:
    return NAMES.get(dataset.card.name, dataset.card.name)


def warn_of_skipped(plan: Plan, roots: Roots, tell: Tell) -> None:
    """Warn about recorded clicks that a benchmark leaves out, and clicks that miss objects."""
    declared = catalogue.benchmarks.make(plan.benchmark).options
    if "clicks" not in [option.name for option in declared]:
        return  # an option that the benchmark refuses itself
    path = Path(str(plan.options["clicks"]))
    datasets, scenes = {}, {}
    for spec in plan.datasets:
        data = catalogue.datasets.make(spec, **roots.options())
        name = _clicked_name(data)
        datasets[name] = data
        scenes[name] = frozenset(plan.scenes_of(str(spec), data.scenes()))
    _warn(tell, path, open_clicks(path)[0], recorded.outside_run(scenes), datasets, scenes)


def warn_of_samples(
    path: Path, clicks: Clicks, datasets: Mapping[str, Dataset], previous: Path | None, tell: Tell
) -> None:
    """Warn about clicks without a training sample, and clicks that miss their objects."""
    reasons = [recorded.unasked(datasets), *([recorded.without_masks] if previous is None else [])]
    _warn(tell, path, clicks, reasons, datasets)


def _warn(
    tell: Tell, path: Path, clicks: Clicks, reasons: Sequence[recorded.Why],
    datasets: Mapping[str, Dataset], scenes: Mapping[str, frozenset[str]] | None = None,
) -> None:  # fmt: skip
    """Warn about clicks that are left out for these reasons, and clicks that miss their objects."""
    used = scenes or {name: frozenset(data.scenes()) for name, data in datasets.items()}
    found = recorded.left_out(clicks, *reasons), recorded.astray(clicks, datasets, used)
    for sentence in filter(None, found):
        tell(f"{path.name}: {sentence}")

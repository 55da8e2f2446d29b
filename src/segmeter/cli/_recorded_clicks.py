"""Recorded clicks on the command line: their data sets, and what to say about them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from segmeter.cli._option_values import dataset_spec
from segmeter.core import catalogue
from segmeter.core.errors import BadInput

if TYPE_CHECKING:
    from segmeter.core.plans import Plan
    from segmeter.core.scenes import Dataset
    from segmeter.datasets.recorded_clicks import Clicks
    from segmeter.runtime.remote_files import Roots

__all__ = ["clicked_datasets", "clicks_option", "say", "say_of_played", "say_of_samples"]


def clicked_datasets(texts: list[str], data: Path | None) -> dict[str, Dataset]:
    """Data sets by the names that the file has for them."""
    from segmeter.users.replay import NAMES

    opened: dict[str, Dataset] = {}
    for text in texts:
        spec = dataset_spec(text)
        options = dict(spec.options)
        if spec.name != "folder" and data is not None:
            options.setdefault("data", data)
        made = catalogue.datasets.make(spec.name, **options)
        opened[NAMES.get(made.card.name, made.card.name)] = made
    return opened


def clicks_option(benchmark: str, clicks: Path | None) -> dict[str, str]:
    """The benchmark's setting that `--clicks` stands for; refused where there is none."""
    if clicks is None:
        return {}
    if "clicks" not in _settings(catalogue.benchmarks.entry(benchmark)):
        able = [entry.name for entry in catalogue.benchmarks if "clicks" in _settings(entry)]
        raise BadInput(
            f"benchmark '{benchmark}' plays no recorded clicks; leave out --clicks, "
            f"which is for {' and '.join(able)}"
        )
    return {"clicks": str(clicks)}


def say_of_played(plan: Plan, places: Roots) -> None:
    """On stderr: which recorded clicks a benchmark leaves out, and if they miss their objects."""
    from segmeter.clickability.click_files import astray, left_out, unplayed
    from segmeter.users.replay import NAMES, open_clicks

    if "clicks" not in _settings(catalogue.benchmarks.entry(plan.benchmark)):
        return  # an --option that the benchmark refuses itself
    path = Path(str(plan.options["clicks"]))
    opened = [catalogue.datasets.make(spec, **places.options()) for spec in plan.datasets]
    datasets = {NAMES.get(data.card.name, data.card.name): data for data in opened}
    scenes = {name: frozenset(data.scenes()[: plan.limit]) for name, data in datasets.items()}
    clicks, _ = open_clicks(path)
    say(path, left_out(clicks, *unplayed(scenes)), astray(clicks, datasets, scenes))


def say_of_samples(
    path: Path, clicks: Clicks, datasets: Mapping[str, Dataset], previous: Path | None
) -> None:
    """On stderr: which clicks make no training sample, and if they miss their objects."""
    from segmeter.clickability.click_files import astray, left_out, unasked, without_masks

    reasons = [unasked(datasets), *([without_masks] if previous is None else [])]
    scenes = {name: frozenset(data.scenes()) for name, data in datasets.items()}
    say(path, left_out(clicks, *reasons), astray(clicks, datasets, scenes))


def say(path: Path, *sentences: str) -> None:
    """Each sentence that is not empty, as a line on stderr."""
    for sentence in filter(None, sentences):
        typer.echo(f"{path.name}: {sentence}", err=True)


def _settings(entry: catalogue.Entry[Any]) -> set[str]:
    return {option.name for option in getattr(entry.make, "options", ())}

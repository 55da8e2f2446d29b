"""Click comparison: how well click models agree with recorded clicks."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segmeter.cli._option_values import protocols, roots
from segmeter.cli._options import AsJson, Data, ImageSets, MasksShown, ProtocolChoice
from segmeter.cli._recorded_clicks import clicked_datasets, say, say_of_samples
from segmeter.cli.app import Exit
from segmeter.core.errors import BadInput

if TYPE_CHECKING:
    from segmeter.clickability.click_similarity import Row
    from segmeter.core.models import ProtocolName
    from segmeter.core.scenes import Dataset
    from segmeter.datasets.recorded_clicks import Clicks, Key
    from segmeter.measures.clicks import Sides

__all__ = ["similarity"]

_MAPS = ("uniform", "distance", "prior")

ClicksFile = Annotated[Path, typer.Option("--clicks", help="Clicks or previews file (CSV).")]
Compare = Annotated[
    str, typer.Option("--compare", help="devices, modes, halves (people and people), or maps.")
]
Maps = Annotated[
    list[str] | None,
    typer.Option("--map", help="Click map to judge; a network's weights as name=FILE."),
]


def similarity(
    clicks: ClicksFile,
    dataset: ImageSets,
    compare: Compare = "devices",
    map: Maps = None,
    previous: MasksShown = None,
    data: Data = None,
    protocol: ProtocolChoice = "both",
    as_json: AsJson = False,
) -> int:
    """Compare clicks with clicks (devices, display modes, people and people) or with maps.

    Example: `segmeter clicks compare --clicks clicks.csv -d grabcut --data DATA --compare devices`
    """
    from segmeter.datasets.recorded_clicks import read_clicks

    if compare not in ("devices", "modes", "halves", "maps"):
        raise BadInput(f"--compare is devices, modes, halves or maps, not '{compare}'")
    datasets = clicked_datasets(dataset, roots(data, None).options().get("data"))
    file = read_clicks(clicks)
    if compare == "maps":
        say_of_samples(clicks, file, datasets, previous)
        found = _maps(file, datasets, previous, map or list(_MAPS), protocols(protocol))
    else:
        _say(clicks, file, datasets, compare)
        found = _samples(file, datasets, compare, protocols(protocol))
    if as_json:
        print(json.dumps([{"protocol": each, **asdict(row)} for each, row in found], indent=1))
    else:
        _print(found)
    return Exit.DONE


def _say(path: Path, file: Clicks, datasets: dict[str, Dataset], compare: str) -> None:
    """On stderr: which clicks are not compared, and if they miss their objects."""
    from segmeter.clickability import click_files as file_warnings
    from segmeter.clickability.click_similarity import ENOUGH, HALVES, REFERENCE

    if compare == "modes":
        only = next(iter(datasets.values()))
        datasets = {key.dataset: only for key in file.keys}
        reason = file_warnings.without_partner(file, REFERENCE)
    elif compare == "devices":
        reason = file_warnings.few_of_a_device(file, ENOUGH)
    else:
        reason = file_warnings.too_few(HALVES)
    scenes = {name: frozenset(data.scenes()) for name, data in datasets.items()}
    say(
        path,
        file_warnings.left_out(file, reason),
        file_warnings.astray(file, datasets, scenes),
    )


def _samples(
    file: Clicks, datasets: dict[str, Dataset], compare: str, chosen: tuple[ProtocolName, ...]
) -> list[tuple[str, Row]]:
    from segmeter.clickability import click_similarity as rules

    sides = _Sides(datasets, modes=compare == "modes")
    if compare == "halves":
        return [("corrected", row) for row in rules.ceilings(file, sides)]
    rule = rules.devices if compare == "devices" else rules.display_modes
    return [(each, row) for each in chosen for row in rule(file, sides, each)]


def _maps(
    file: Clicks,
    datasets: dict[str, Dataset],
    previous: Path | None,
    names: list[str],
    chosen: tuple[ProtocolName, ...],
) -> list[tuple[str, Row]]:
    from segmeter.clickability.map_sources import map_scores, source
    from segmeter.clickability.training.samples import samples_of

    sources = {}
    for text in names:
        name, _, weights = text.partition("=")
        sources[name] = source(name, Path(weights) if weights else None).inner
    training_samples = samples_of(file, datasets, previous)
    return [(each, row) for each in chosen for row in map_scores(training_samples, sources, each)]


class _Sides:
    """Sides of the object of a key, in the pixels of the image that people saw."""

    def __init__(self, datasets: dict[str, Dataset], modes: bool) -> None:
        self._datasets = datasets
        # Display modes stand where data sets do, all on the images of one.
        self._only = next(iter(datasets.values())) if modes else None
        self._of = lru_cache(maxsize=None)(self._find)

    def __call__(self, key: Key) -> Sides:
        return self._of(key.dataset if self._only is None else "", key.image, key.object)

    def _find(self, dataset: str, image: str, object: str) -> Sides:
        data = self._only or self._datasets.get(dataset)
        if data is None:
            raise BadInput(f"the clicks are of '{dataset}', which no --dataset names")
        targets = data.load(image).targets
        for target in targets:
            if target.id == object or (not object and len(targets) == 1):
                height, width = target.mask.bits.shape
                return float(height), float(width)
        raise BadInput(f"image '{image}' has no object '{object}'")


def _print(found: list[tuple[str, Row]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "protocol", "score", "mean", "95 % interval", "keys", box=None)
    for protocol, row in found:
        value, low, high = (_number(v, row) for v in (row.value, row.low, row.high))
        table.add_row(row.what, protocol, row.score, value, f"{low} to {high}", str(row.keys))
    Console(markup=False).print(table)


def _number(value: float, row: Row) -> str:
    """Three decimals; of a density, which shrinks as images grow, three digits."""
    return f"{value:.2e}" if row.score == "pde" and row.value < 0.01 else f"{value:.3f}"

"""Click simulation: a synthetic click file, drawn from the click model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segmeter.cli._option_values import dataset_spec, roots
from segmeter.cli._options import Data, ImageSets, Limit, Seed
from segmeter.cli.app import Exit
from segmeter.core.errors import BadInput

if TYPE_CHECKING:
    from segmeter.clickability.click_files import Thing
    from segmeter.core.scenes import Dataset

__all__ = ["lifelike"]

Out = Annotated[Path, typer.Option("--out", "-o", help="CSV file to write.")]
People = Annotated[int, typer.Option("--people", min=1, help="Clicks per object.")]
FirstOnly = Annotated[bool, typer.Option("--first-only", help="Leave out later rounds.")]
MasksFolder = Annotated[
    Path | None, typer.Option("--masks", help="Folder for later rounds' previous masks.")
]


def lifelike(
    dataset: ImageSets,
    out: Out,
    data: Data = None,
    people: People = 48,
    first_only: FirstOnly = False,
    masks: MasksFolder = None,
    limit: Limit = None,
    seed: Seed = 0,
) -> int:
    """Generate a synthetic click file, for testing what reads recorded clicks.

    Example: `segmeter clicks simulate --dataset mini --out clicks.csv`
    """
    from segmeter.clickability.click_files import write_lifelike
    from segmeter.core import catalogue

    if not out.parent.is_dir():
        raise BadInput(f"--out: there is no folder '{out.parent}'")
    if masks is not None:
        masks.mkdir(parents=True, exist_ok=True)
    made = [
        catalogue.datasets.make(dataset_spec(name), **roots(data, None).options())
        for name in dataset
    ]
    things = (thing for one in made for thing in _things(one, limit))
    first = next(things, None)
    if first is None:
        raise BadInput("the data set has no targets; there is nothing to click on")
    count = write_lifelike(out, chain([first], things), seed, people, not first_only, masks)
    typer.echo(f"{count} clicks: {out}")
    return Exit.DONE


def _things(dataset: Dataset, limit: int | None) -> Iterator[Thing]:
    """The objects of a data set, under the names that the published file gives them."""
    from segmeter.clickability.click_files import Thing
    from segmeter.users.replay import NAMES

    name = dataset.card.name
    for scene in map(dataset.load, dataset.scenes()[:limit]):
        several = len(scene.targets) > 1
        for target in scene.targets:
            yield Thing(NAMES.get(name, name), scene.id, target.mask, target.id if several else "")

"""`segmeter similarity`: how alike the clicks of a file are, without a model."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segmeter.cli._clicked import clicked_datasets
from segmeter.cli._options import AsJson, Data, ReadingChoice, readings, roots
from segmeter.cli.app import Exit, app
from segmeter.core.errors import BadInput

if TYPE_CHECKING:
    from segmeter.clickability.records import Key
    from segmeter.clickability.similarity import Row
    from segmeter.core.scenes import Dataset
    from segmeter.measures.clicks import Sides

__all__ = ["similarity"]


@app.command()
def similarity(
    clicks: Annotated[Path, typer.Option("--clicks", help="Clicks or previews file (CSV).")],
    dataset: Annotated[
        list[str], typer.Option("--dataset", "-d", help="Data set of the pictures, or a folder.")
    ],
    compare: Annotated[
        str, typer.Option("--compare", help="devices, modes, or halves (people and people).")
    ] = "devices",
    data: Data = None,
    reading: ReadingChoice = "both",
    as_json: AsJson = False,
) -> int:
    """Compare clicks with clicks: desks and telephones, display modes, people and people.

    Example: `segmeter similarity --clicks clicks.csv -d grabcut --data DATA --compare devices`
    """
    from segmeter.clickability import similarity as rules
    from segmeter.clickability.records import read_clicks

    if compare not in ("devices", "modes", "halves"):
        raise BadInput(f"--compare is devices, modes or halves, not '{compare}'")
    place = roots(data, None).data
    sides = _Sides(clicked_datasets(dataset, place), modes=compare == "modes")
    file = read_clicks(clicks)
    found: list[tuple[str, Row]] = []
    for each in readings(reading):
        if compare == "halves":
            found += [("sound", row) for row in rules.ceilings(file, sides)] if not found else []
            continue
        rule = rules.devices if compare == "devices" else rules.display_modes
        found += [(each, row) for row in rule(file, sides, each)]
    if as_json:
        print(json.dumps([{"reading": each, **asdict(row)} for each, row in found], indent=1))
    else:
        _print(found)
    return Exit.DONE


class _Sides:
    """Sides of the object of a key, in the pixels of the picture that people saw."""

    def __init__(self, datasets: dict[str, Dataset], modes: bool) -> None:
        self._datasets = datasets
        # Display modes stand where data sets do, all on the pictures of one.
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
        raise BadInput(f"picture '{image}' has no object '{object}'")


def _print(found: list[tuple[str, Row]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "reading", "score", "mean", "95 % interval", "keys", box=None)
    for reading, row in found:
        interval = f"{row.low:.3f} to {row.high:.3f}"
        table.add_row(row.what, reading, row.score, f"{row.value:.3f}", interval, str(row.keys))
    Console().print(table)

"""`segmeter measure`: all partition measures of one result, without a run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from segmeter.cli._options import AsJson
from segmeter.cli.app import Exit, app
from segmeter.core.errors import BadInput

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["measure"]


@app.command()
def measure(
    guess: Annotated[
        Path,
        typer.Argument(metavar="PRED", help="The result: PNG, .npy, .mat or run-length JSON."),
    ],
    truths: Annotated[
        list[Path],
        typer.Argument(metavar="GT...", help="Ground truths; one file may hold several."),
    ],
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Where to cut a contour map (.mat, ucm2).")
    ] = None,
    boundaries: Annotated[
        bool, typer.Option("--boundaries/--no-boundaries", help="Also F_b, on both grids.")
    ] = True,
    as_json: AsJson = False,
) -> int:
    """Compare a partition with one or several ground truths.

    Example: `segmeter measure result.png person1.png person2.png --json`
    """
    from segmeter.datasets.labelmaps import read_label_maps

    drawn = [(path, labels) for path in truths for labels in read_label_maps(path)]
    result = _result(guess, threshold)
    for path, labels in drawn:
        if labels.shape != result.shape:
            sizes = [f"{w} x {h}" for h, w in (result.shape, labels.shape)]
            raise BadInput(f"'{guess}' is {sizes[0]} but '{path}' is {sizes[1]}; sizes must agree")
    values = _values([labels for _, labels in drawn], result, boundaries)
    if as_json:
        plain = {k: v if math.isfinite(v) else None for k, v in values.items()}
        print(json.dumps(plain, indent=1))
    else:
        _print(values, len(drawn))
    return Exit.DONE


def _result(path: Path, threshold: float | None) -> npt.NDArray[Any]:
    """A label map, or a contour map cut into one."""
    from segmeter.datasets.labelmaps import read_results
    from segmeter.measures.hierarchies import partition_at

    found = read_results(path)
    if len(found) != 1:
        raise BadInput(f"'{path}' holds {len(found)} label maps; PRED is one")
    (result,) = found.values()
    if result.labels is not None:
        return result.labels
    if result.levels is None or threshold is None:
        raise BadInput(f"'{path}' holds a contour map; say where to cut it with --threshold")
    return partition_at(result.levels, threshold)


def _values(
    truths: list[npt.NDArray[Any]], guess: npt.NDArray[Any], boundaries: bool
) -> dict[str, float]:
    from segmeter.measures.boundaries import boundary_counts
    from segmeter.measures.partitions import scores

    values = scores(truths, guess)
    if boundaries:
        pixel = boundary_counts(truths, guess)
        values |= {"fb": pixel.f, "pb": pixel.precision, "rb": pixel.recall}
        values["fb-contour"] = boundary_counts(truths, guess, "contour").f
    return values


def _print(values: dict[str, float], truths: int) -> None:
    from rich.console import Console
    from rich.table import Table

    from segmeter.core import catalogue

    cards = {entry.name: entry for entry in catalogue.measures}
    title = f"against {truths} ground truth{'s' if truths > 1 else ''}"
    table = Table("measure", "value", "better", "what it says", title=title, box=None)
    for name, value in values.items():
        card = cards[name].make() if name in cards else None
        text = card.summary if card is not None else _PARTS.get(name, "")
        shown = f"{value:.4f}" if math.isfinite(value) else "undefined"
        table.add_row(name, shown, card.better if card is not None else "higher", text)
    Console().print(table)


_PARTS = {
    "pr": "precision of pairs",
    "rr": "recall of pairs",
    "pop": "precision of objects and parts",
    "rop": "recall of objects and parts",
    "fop_paper": "F_op as the paper's text has it (0.95, all regions)",
    "pop_paper": "its precision; may pass 1 with several truths",
    "rop_paper": "its recall",
    "pb": "precision of boundary pixels",
    "rb": "recall of boundary pixels",
}

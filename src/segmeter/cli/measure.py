"""`segmeter measure`: all measures of one result, without a run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from segmeter.cli._figures import check_figure, write_figure
from segmeter.cli._object_measures import (
    object_values,
    print_proposals,
    proposal_curves,
    proposal_values,
    same_size,
)
from segmeter.cli._options import AsJson, FigureFile
from segmeter.cli.app import Exit, app
from segmeter.core.errors import BadInput, suggestion
from segmeter.core.wording import counted

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["measure"]

_KINDS = ("partition", "object", "proposals")
_COUNTS = ("cntR", "sumR", "cntP", "sumP")  # of F_b, as the literature calls them

Prediction = Annotated[
    Path, typer.Argument(metavar="PRED", help="The result: PNG, .npy, .mat or run-length JSON.")
]
GroundTruths = Annotated[
    list[Path], typer.Argument(metavar="GT", help="Ground truths; one file may hold several.")
]
Kind = Annotated[
    str, typer.Option("--as", help="What the files hold: partition, object or proposals.")
]
Threshold = Annotated[
    float | None, typer.Option("--threshold", help="Where to cut a contour map (.mat, ucm2).")
]
VoidLabel = Annotated[
    int | None, typer.Option("--void", help="Label of a mask's pixels that are not judged.")
]
Boundaries = Annotated[
    bool, typer.Option("--boundaries/--no-boundaries", help="Also measures of boundaries.")
]


@app.command()
def measure(
    prediction: Prediction,
    ground_truths: GroundTruths,
    kind: Kind = "partition",
    threshold: Threshold = None,
    void: VoidLabel = None,
    boundaries: Boundaries = True,
    figure: FigureFile = None,
    as_json: AsJson = False,
) -> int:
    """Compare a partition, an object's mask or proposals with what people drew.

    Examples: `segmeter measure result.png person1.png person2.png --json`,
    `segmeter measure --as object mask.png ground_truth.png`,
    `segmeter measure --as proposals offered/ objects/` (a file per image, or one file each)
    """
    _check(kind, ground_truths, threshold, void, figure)
    if kind == "proposals":
        _measure_proposals(prediction, ground_truths[0], void, boundaries, figure, as_json)
        return Exit.DONE
    if kind == "object":
        values, title = object_values(prediction, ground_truths[0], void, boundaries), "one object"
    else:
        values, title = _partition_values(prediction, ground_truths, threshold, boundaries)
    if as_json:
        plain = {k: v if math.isfinite(v) else None for k, v in values.items()}
        print(json.dumps(plain, indent=1))
    else:
        _print(values, title)
    return Exit.DONE


def _check(
    kind: str,
    ground_truths: list[Path],
    threshold: float | None,
    void: int | None,
    figure: Path | None,
) -> None:
    """Refuse options that say nothing about what is measured."""
    if kind not in _KINDS:
        raise BadInput(f"no --as '{kind}';{suggestion(kind, _KINDS)} it is {', '.join(_KINDS)}")
    if kind != "partition" and len(ground_truths) > 1:
        raise BadInput(f"--as {kind} takes one ground truth, but {len(ground_truths)} are given")
    if kind != "partition" and threshold is not None:
        raise BadInput(f"--threshold cuts a partition's contour map; --as {kind} has none")
    if kind == "partition" and void is not None:
        raise BadInput("--void is for objects; in a partition every label is a region")
    if kind != "proposals" and figure is not None:
        raise BadInput(f"--figure draws the curves of proposals; --as {kind} has none")
    check_figure(figure)


def _measure_proposals(
    prediction: Path,
    ground_truth: Path,
    void: int | None,
    boundaries: bool,
    figure: Path | None,
    as_json: bool,
) -> None:
    from segmeter.cli._seism_figures import draw_proposals

    curves = proposal_curves(prediction, ground_truth, void, boundaries)
    write_figure(draw_proposals, curves, figure)
    if as_json:
        print(json.dumps(proposal_values(curves), indent=1))
    else:
        print_proposals(curves)


def _partition_values(
    prediction: Path, ground_truths: list[Path], threshold: float | None, boundaries: bool
) -> tuple[dict[str, float], str]:
    from segmeter.datasets.labelmaps import read_label_maps

    drawn = [(path, labels) for path in ground_truths for labels in read_label_maps(path)]
    result = _result(prediction, threshold)
    for path, labels in drawn:
        same_size(prediction, result.shape, path, labels.shape)
    title = f"against {counted(len(drawn), 'ground truth')}"
    return _values([labels for _, labels in drawn], result, boundaries), title


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
    ground_truths: list[npt.NDArray[Any]], prediction: npt.NDArray[Any], boundaries: bool
) -> dict[str, float]:
    from segmeter.measures.boundaries import boundary_counts
    from segmeter.measures.outlines import Grid
    from segmeter.measures.partitions import scores

    values = scores(ground_truths, prediction)
    grids: dict[str, Grid] = {"": "pixel", "-contour": "contour"} if boundaries else {}
    for end, grid in grids.items():
        counts = boundary_counts(ground_truths, prediction, grid)
        values |= {
            f"fb{end}": counts.f,
            f"pb{end}": counts.precision,
            f"rb{end}": counts.recall,
            f"cntR{end}": counts.matched_ground_truth,
            f"sumR{end}": counts.ground_truth,
            f"cntP{end}": counts.matched_prediction,
            f"sumP{end}": counts.prediction,
        }
    return values


def _print(values: dict[str, float], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from segmeter.core import catalogue

    cards = {entry.name: entry for entry in catalogue.measures}
    table = Table("measure", "value", "better", "what it says", title=title, box=None)
    for name, value in values.items():
        if name.startswith(_COUNTS):
            continue  # for programs: the table has the shares
        card = cards[name].make() if name in cards else None
        text = card.summary if card is not None else _PARTS.get(name, "")
        shown = f"{value:.4f}" if math.isfinite(value) else "undefined"
        table.add_row(name, shown, card.better if card is not None else "higher", text)
    Console(markup=False).print(table)


_PARTS = {
    "pr": "precision of pairs",
    "rr": "recall of pairs",
    "pop": "precision of objects and parts",
    "rop": "recall of objects and parts",
    "fop_paper": "F_op as the paper's text has it (0.95, all regions)",
    "pop_paper": "its precision; may pass 1 with several ground truths",
    "rop_paper": "its recall",
    "pb": "precision of boundary pixels",
    "rb": "recall of boundary pixels",
    "pb-contour": "precision on the contour grid",
    "rb-contour": "recall on the contour grid",
}

"""`segmeter measures`: compute them for files, and judge the measures themselves."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table
from typer import Argument, Option

import segmeter
from segmeter.api.listing import measure_cards
from segmeter.cli._options import AsJson, Data, FigureFile, Processes, ProtocolChoice
from segmeter.cli._printing import print_json, print_table, say
from segmeter.cli.app import command_group

if TYPE_CHECKING:
    from segmeter.api.measuring import Measured

group = command_group("measures", "Compute measures for files, or evaluate measures.")

_COUNTS = ("cntR", "sumR", "cntP", "sumP")  # of F_b, as the literature calls them
# How many proposals the table shows; the JSON has all numbers.
_SHOWN = (10, 50, 100, 500, 1000, 100_000)


@group.command()
def compute(
    prediction: Annotated[
        Path, Argument(metavar="PRED", help="The result: PNG, .npy, .mat or run-length JSON.")
    ],
    ground_truths: Annotated[
        list[Path], Argument(metavar="GT", help="Ground truth; one file may contain several.")
    ],
    kind: Annotated[
        str, Option("--as", help="Content of the files: partition, object or proposals.")
    ] = "partition",
    threshold: Annotated[
        float | None, Option(help="Threshold of a contour map (.mat, ucm2).")
    ] = None,
    void: Annotated[int | None, Option(help="Label of pixels that are ignored.")] = None,
    boundaries: Annotated[
        bool, Option("--boundaries/--no-boundaries", help="Also compute boundary measures.")
    ] = True,
    figure: FigureFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare a partition, an object's mask or proposals with human annotations.

    Examples: `segmeter measures compute result.png person1.png person2.png --json`,
    `segmeter measures compute --as object mask.png ground_truth.png`,
    `segmeter measures compute --as proposals offered/ objects/` (a file per image, or one each)
    """
    found = segmeter.measure_files(
        prediction, ground_truths, kind, threshold=threshold, void=void, boundaries=boundaries,
        figure=figure,
    )  # fmt: skip
    if found.warning:
        say(found.warning)
    if as_json:
        print_json(found.facts())
    elif found.curves:
        _print_proposals(found)
    else:
        _print(found)


def _print_proposals(measured: Measured) -> None:
    for name, found in measured.curves.items():
        quality = "J" if name == "iou" else "F of the outline"
        columns = {"offered": found.mean_number, "mean": found.instance, "median": found.median}
        columns |= {f"above {level}": share for level, share in found.recall.items()}
        columns["AR"] = found.average_recall
        if name == "iou" and any(found.by_class):
            columns["J class"] = found.class_mean
        title = f"best {quality} among the first N, {len(found.best)} objects"
        table = Table("N", *columns, title=title, box=None)
        for place, number in enumerate(found.numbers):
            if number in _SHOWN:
                shown = "all" if number == _SHOWN[-1] else str(number)
                table.add_row(shown, *(f"{values[place]:.3f}" for values in columns.values()))
        print_table(table)


def _print(measured: Measured) -> None:
    cards = measure_cards()
    table = Table("measure", "value", "better", "meaning", title=measured.title, box=None)
    for name, value in measured.values.items():
        if name.startswith(_COUNTS):
            continue  # for programs: the table has the shares
        card = cards.get(name)
        text = card.summary if card is not None else _PARTS.get(name, "")
        shown = f"{value:.4f}" if math.isfinite(value) else "undefined"
        table.add_row(name, shown, card.better if card is not None else "higher", text)
    print_table(table)


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


@group.command()
def meta(
    dataset: Annotated[
        str, Option("--dataset", "-d", help="Dataset with human partitions.")
    ] = "bsds500",
    measure: Annotated[
        list[str] | None, Option(help="Measure to evaluate; all but boundary measures by default.")
    ] = None,
    method: Annotated[
        list[str] | None, Option(help="Method, or folder with its results, for SABD and SISD.")
    ] = None,
    baseline: Annotated[
        list[str] | None, Option(help="Baseline method; a quadtree by default.")
    ] = None,
    train: Annotated[
        str | None, Option(help="Where corrected settings are chosen: bsds500?split=train.")
    ] = None,
    data: Data = None,
    protocol: ProtocolChoice = "both",
    limit: Annotated[int | None, Option(min=2, help="Only the first N images.")] = None,
    workers: Processes = 1,
    figure: FigureFile = None,
    report: Annotated[
        Path | None, Option(help="Write the table and the curves as a page to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate measures: how well do they distinguish good partitions from bad ones?

    SIHD needs only human partitions; SABD and SISD also need `--method`.

    Example: `segmeter measures meta --measure fop --measure ssc --dataset bsds500`
    """
    found = segmeter.meta_measures(
        dataset, measure or (), method or (), baseline or (), train=train, data=data,
        protocols=protocol, limit=limit, workers=workers, figure=figure, page=report,
    )  # fmt: skip
    if as_json:
        print_json(found.facts())
        return
    table = Table("measure", "protocol", title=f"percent; {found.images}", box=None)
    for name in ("SIHD", "SABD", "SISD", "Global"):
        table.add_column(name, justify="right")
    for row in found.rows:
        overall = "" if row.overall is None else f"{100 * row.overall:.1f}"
        cells = ["" if one is None
                 else f"{100 * one.value:.1f} ({100 * one.low:.1f}–{100 * one.high:.1f})"
                 for one in (row.sihd, row.sabd, row.sisd)]  # fmt: skip
        table.add_row(row.measure, row.protocol, *cells, overall)
    print_table(table)

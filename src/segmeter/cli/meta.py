"""`segmeter meta`: judge the measures themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

import segmeter
from segmeter.cli._options import AsJson, Data, FigureFile, Processes, ProtocolChoice
from segmeter.cli._printing import print_json, print_table
from segmeter.cli.app import Exit, app

OneDataset = Annotated[
    str, typer.Option("--dataset", "-d", help="Data set that people cut into regions.")
]
Measures = Annotated[
    list[str] | None,
    typer.Option("--measure", help="Measure to judge, by id; all but boundaries by default."),
]
Methods = Annotated[
    list[str] | None,
    typer.Option("--method", help="Segmenter, or folder of results, for SABD and SISD."),
]
Baselines = Annotated[
    list[str] | None,
    typer.Option("--baseline", help="What a segmenter should beat; a quadtree by default."),
]
TrainingSet = Annotated[
    str | None,
    typer.Option("--train", help="Where corrected settings are chosen: bsds500?split=train."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=2, help="Only the first images.")]
PageFile = Annotated[
    Path | None, typer.Option("--report", help="Write the table and the curves as a page here.")
]


@app.command()
def meta(
    dataset: OneDataset = "bsds500",
    measure: Measures = None,
    method: Methods = None,
    baseline: Baselines = None,
    train: TrainingSet = None,
    data: Data = None,
    protocol: ProtocolChoice = "both",
    limit: Limit = None,
    workers: Processes = 1,
    figure: FigureFile = None,
    report: PageFile = None,
    as_json: AsJson = False,
) -> int:
    """How well do measures tell good partitions from bad ones?

    SIHD needs people's partitions only; with `--method` also SABD and SISD are computed.

    Example: `segmeter meta --measure fop --measure ssc --dataset bsds500`
    """
    found = segmeter.meta_measures(
        dataset, measure or (), method or (), baseline or (), train=train, data=data,
        protocols=protocol, limit=limit, workers=workers, figure=figure, page=report,
    )  # fmt: skip
    if as_json:
        print_json(found.facts())
        return Exit.DONE
    table = Table("measure", "protocol", title=f"percent; {found.images}", box=None)
    for name in ("SIHD", "SABD", "SISD", "Global"):
        table.add_column(name, justify="right")
    for row in found.rows:
        overall = "" if row.overall is None else f"{100 * row.overall:.1f}"
        cells = [_cell(one) for one in (row.sihd, row.sabd, row.sisd)]
        table.add_row(row.measure, row.protocol, *cells, overall)
    print_table(table)
    return Exit.DONE


def _cell(found: Any) -> str:
    if found is None:
        return ""
    return f"{100 * found.value:.1f} ({100 * found.low:.1f}–{100 * found.high:.1f})"

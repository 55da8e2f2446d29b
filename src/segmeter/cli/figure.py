"""`segmeter figure`: a measure over the rounds, for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segmeter.cli._options import OneProtocol, Runs
from segmeter.cli.app import Exit, app
from segmeter.core.errors import BadInput, check_choice

__all__ = ["figure"]

FigureOut = Annotated[
    Path, typer.Option("--out", "-o", help="Figure to write: .pdf, .svg or .png.")
]
MeasureName = Annotated[str, typer.Option("--measure", help="Measure to draw, such as iou.")]


@app.command()
def figure(
    runs: Runs,
    out: FigureOut,
    measure: MeasureName = "iou",
    protocol: OneProtocol = "corrected",
) -> int:
    """A measure over the rounds with its bands, as a vector figure for a paper.

    Example: `segmeter figure runs/mine --out fig.pdf`
    """
    from segmeter.report.figures import draw_measure
    from segmeter.store import Run

    check_choice("protocol", protocol, ("published", "corrected"))
    if out.suffix not in (".pdf", ".svg", ".png"):
        raise BadInput(f"--out is a .pdf, .svg or .png, not '{out.name}'")
    draw_measure(Run.open(runs), measure, protocol, out)
    typer.echo(f"figure: {out}")
    return Exit.DONE

"""`segmeter figure`: a measure over the rounds, for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

import segmeter
from segmeter.cli._options import OneProtocol, Runs, out_option
from segmeter.cli.app import app

FigureOut = Annotated[Path, out_option("Figure to write: .pdf, .svg or .png.")]
MeasureName = Annotated[str, Option(help="Measure to plot, such as iou.")]


@app.command()
def figure(
    runs: Runs, out: FigureOut, measure: MeasureName = "iou", protocol: OneProtocol = "corrected"
) -> None:
    """Plot a measure against the number of clicks, with 95% confidence bands, as a vector figure.

    Example: `segmeter figure runs/mine --out fig.pdf`
    """
    drawn = segmeter.open_run(runs).figure(out, measure=measure, protocol=protocol)
    typer.echo(f"figure: {drawn}")

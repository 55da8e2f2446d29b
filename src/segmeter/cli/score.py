"""`segmeter score`: add a measure to a finished run, without its model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segmeter.cli._options import Data, roots
from segmeter.cli.app import Exit, app

__all__ = ["score"]


@app.command()
def score(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    measure: Annotated[
        list[str], typer.Option("--measure", help="Measure by name; 'segmeter list measures'.")
    ],
    data: Data = None,
) -> int:
    """Add a measure from the masks a run has kept.

    Example: `segmeter score runs/mine --measure dice`
    """
    from segmeter.engine.scoring import score_run

    for name in measure:
        count = score_run(run, name, roots(data, None))
        typer.echo(f"{name}: {count} scenes scored in {run}")
    return Exit.DONE

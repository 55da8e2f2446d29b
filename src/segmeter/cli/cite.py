"""`segmeter cite`: BibTeX of everything that runs used."""

from __future__ import annotations

import segmeter
from segmeter.api import printable
from segmeter.cli._options import Runs
from segmeter.cli.app import app


@app.command()
def cite(runs: Runs) -> None:
    """Print BibTeX of every model, dataset, measure and benchmark used in runs.

    Example: `segmeter cite runs/mine > used.bib`
    """
    print(printable(segmeter.open_run(runs).cite()), end="")

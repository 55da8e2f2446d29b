"""`segmeter cite`: BibTeX of everything that runs used."""

from __future__ import annotations

from segmeter.cli._options import Runs
from segmeter.cli._words import printable
from segmeter.cli.app import Exit, app

__all__ = ["cite"]


@app.command()
def cite(runs: Runs) -> int:
    """BibTeX of every model, data set, measure and benchmark that runs used.

    Example: `segmeter cite runs/mine > used.bib`
    """
    from segmeter.report.references import bibtex, citations_of
    from segmeter.store import Run

    print(printable(bibtex(citations_of(Run.open(runs)))), end="")
    return Exit.DONE

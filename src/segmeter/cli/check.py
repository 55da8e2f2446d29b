"""`segmeter check`: does a model keep the promises that every benchmark relies on?"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from segmeter.cli._options import AsJson, Weights, roots
from segmeter.cli.app import Exit, app

__all__ = ["check"]


@app.command()
def check(
    model: Annotated[str, typer.Argument(help="Model by name, or file.py:name.")],
    weights: Weights = None,
    as_json: AsJson = False,
) -> int:
    """Say which promises a model breaks, one sentence each; exit 1 if it breaks any.

    Example: `segmeter check examples/own_model.py:Lookalike`
    """
    from segmeter.core import catalogue
    from segmeter.models.conformance import check as broken_promises

    made = catalogue.models.make(model, **roots(None, weights).options())
    faults = broken_promises(made)
    if as_json:
        print(json.dumps({"model": model, "broken": faults}, indent=1))
    else:
        for fault in faults:
            typer.echo(fault)
        typer.echo(f"{model}: {_conclusion(len(faults))}")
    return Exit.WITH_ERRORS if faults else Exit.DONE


def _conclusion(broken: int) -> str:
    if broken == 0:
        return "keeps every promise; it can be measured"
    return "one promise is broken" if broken == 1 else f"{broken} promises are broken"

"""Model parity: are two models the same?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from segmeter.cli._options import AsJson, Data, Trust, Weights
from segmeter.cli.app import Exit

__all__ = ["parity"]


def parity(
    a: Annotated[str, typer.Argument(metavar="A", help="Model: name, file, folder, address.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Model that should be the same.")],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="Images to prompt on.")] = "mini",
    run: Annotated[Path | None, typer.Option(help="Use the prompts recorded in a run.")] = None,
    at_least: Annotated[
        float | None, typer.Option(min=0, max=1, help="Exit 1 if the mean IoU is lower.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Most clicks per object.")] = 10,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first scenes.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write a page (HTML).")] = None,
    data: Data = None,
    weights: Weights = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> int:
    """Compare two models mask by mask on the same prompts: exports, ports, services, new weights.

    Example: `segmeter models parity mobile-sam mobile-sam.onnx --dataset mini --at-least 0.99`
    """
    from segmeter.model_parity import parity as compare

    found = compare(
        a, b, dataset, run=run, rounds=rounds, limit=limit, data=data, weights=weights, trust=trust
    )
    facts = found.facts()
    if as_json:
        print(json.dumps(facts, indent=1))
    else:
        for line in found.lines():
            typer.echo(line)
    if out is not None:
        typer.echo(f"page: {found.report(out)}", err=as_json)
    return Exit.WITH_ERRORS if at_least is not None and found.mean_iou < at_least else Exit.DONE

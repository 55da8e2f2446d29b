"""`segmeter models`: compare two models, or serve one over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import segmeter
from segmeter.cli._options import AsJson, Data, Trust, Weights
from segmeter.cli._printing import print_json
from segmeter.cli.app import Exit, command_group

group = command_group("models", "Compare two models, or serve one over HTTP.")


@group.command()
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
    found = segmeter.parity(
        a, b, dataset, run=run, rounds=rounds, limit=limit, data=data, weights=weights, trust=trust
    )
    if as_json:
        print_json(found.facts())
    else:
        for line in found.lines():
            typer.echo(line)
    if out is not None:
        typer.echo(f"page: {found.report(out)}", err=as_json)
    return Exit.WITH_ERRORS if at_least is not None and found.mean_iou < at_least else Exit.DONE


@group.command()
def serve(
    model: Annotated[str, typer.Option("--model", "-m", help="Model: name, file or folder.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for a free one.")] = 8008,
    weights: Weights = None,
) -> int:
    """Serve a model over HTTP, for `--model http://host:port` and for annotation tools.

    Example: `segmeter models serve --model mobile-sam`
    """
    server = segmeter.serve(model, host, port, weights=weights)
    typer.echo(f"{model} at {server.address}; Ctrl-C stops it")
    try:
        server.serve_forever()
    finally:
        server.server_close()
    return Exit.DONE

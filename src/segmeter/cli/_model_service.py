"""Model service: a model behind HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from segmeter.cli._option_values import roots
from segmeter.cli._options import Weights
from segmeter.cli.app import Exit

__all__ = ["serve"]


def serve(
    model: Annotated[str, typer.Option("--model", "-m", help="Model: name, file or folder.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for a free one.")] = 8008,
    weights: Weights = None,
) -> int:
    """Serve a model over HTTP, for `--model http://host:port` and for annotation tools.

    Example: `segmeter models serve --model mobile-sam`
    """
    from segmeter.serving import serve as make

    server = make(model, host, port, **roots(None, weights).options())
    typer.echo(f"{model} at {server.address}; Ctrl-C stops it")
    try:
        server.serve_forever()
    finally:
        server.server_close()
    return Exit.DONE

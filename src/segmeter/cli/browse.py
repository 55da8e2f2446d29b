"""`segmeter browse`: every session of a run on a local page."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer
from typer import Option

import segmeter
from segmeter.cli._options import Data, RunAddress
from segmeter.cli.app import app

Port = Annotated[int, Option(min=0, max=65535, help="Port to listen on; 0 for any free port.")]


@app.command()
def browse(run: RunAddress, data: Data = None, port: Port = 0) -> None:
    """Browse the sessions of a run in a local, read-only web page: filter, sort, open.

    Example: `segmeter browse runs/mine`
    """
    server = segmeter.open_run(run, data=data).browse(port)
    with server, suppress(KeyboardInterrupt):  # the usual way to stop it
        typer.echo(f"{server.address} (Ctrl-C stops it)")
        server.serve_forever()

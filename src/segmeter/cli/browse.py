"""`segmeter browse`: every session of a run on a local page."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer
from typer import Option

import segmeter
from segmeter.cli._options import Data, RunAddress
from segmeter.cli.app import Exit, app

Port = Annotated[
    int, Option("--port", min=0, max=65535, help="Port to listen on; 0 takes a free one.")
]


@app.command()
def browse(run: RunAddress, data: Data = None, port: Port = 0) -> int:
    """Filter, sort and open every session of a run; read-only, on this machine only.

    Example: `segmeter browse runs/mine`
    """
    server = segmeter.open_run(run, data=data).browse(port)
    with server, suppress(KeyboardInterrupt):  # the usual way to stop it
        typer.echo(f"{server.address} (Ctrl-C stops it)")
        server.serve_forever()
    return Exit.DONE

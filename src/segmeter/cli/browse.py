"""`segmeter browse`: every session of a run on a local page."""

from __future__ import annotations

import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qsl, urlsplit

import typer

import segmeter
from segmeter.cli._options import Data, RunAddress
from segmeter.cli.app import Exit, app
from segmeter.core.errors import SegmeterError

if TYPE_CHECKING:
    from segmeter.report.browsing import Sessions

__all__ = ["Server", "browse"]

Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 takes a free one.")
]


@app.command()
def browse(run: RunAddress, data: Data = None, port: Port = 0) -> int:
    """Filter, sort and open every session of a run; read-only, on this machine only.

    Example: `segmeter browse runs/mine`
    """
    from segmeter.report.browsing import Sessions

    opened = segmeter.open_run(run, data=data)
    server = Server(Sessions(opened), port)
    with server, suppress(KeyboardInterrupt):  # which is how it is ended
        typer.echo(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)")
        server.serve_forever()
    return Exit.DONE


class Server(ThreadingHTTPServer):
    """Shows sessions to one person at this machine: one answer at a time, GET only.

    Connections are heard side by side, since browsers open some that they never use.
    """

    daemon_threads = True  # Ctrl-C waits for nobody
    block_on_close = False

    def __init__(self, sessions: Sessions, port: int = 0) -> None:
        self.pages = {"/": sessions.page, "/session": sessions.session}
        self.answering = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    timeout = 30

    def do_GET(self) -> None:
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in ("127.0.0.1", "localhost"):  # another site that points here
            self._send(403, "only this machine may look")
            return
        asked = urlsplit(self.path)
        if asked.path not in self.server.pages:
            self._send(404, "no such page")
            return
        try:
            with self.server.answering:
                page = self.server.pages[asked.path](dict(parse_qsl(asked.query)))
            self._send(200, page, "text/html")
        except SegmeterError as error:
            self._send(404, str(error))

    def _send(self, code: int, text: str, kind: str = "text/plain") -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal is the person's."""

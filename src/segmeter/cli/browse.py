"""`segmeter browse`: every session of a run on a local page."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

import typer

from segmeter.cli._options import Data, RunAddress, remembered
from segmeter.cli.app import Exit, app
from segmeter.core.errors import SegmeterError

__all__ = ["browse", "server_of"]


@app.command()
def browse(
    run: RunAddress,
    data: Data = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 0,
) -> int:
    """Filter, sort and open every session of a run; read-only, on this machine only.

    Example: `segmeter browse runs/mine`
    """
    from segmeter.report.browsing import Sessions
    from segmeter.store import Run

    opened = Run.open(run)
    opened.roots = remembered(opened, data)
    server = server_of(Sessions(opened), port)
    typer.echo(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)")
    try:
        server.serve_forever()
    finally:
        server.server_close()
    return Exit.DONE


def server_of(sessions: object, port: int = 0) -> ThreadingHTTPServer:
    """A server for one person at this machine: one answer at a time, GET only.

    Connections are heard side by side, since browsers open some that they never use.
    """
    from segmeter.report.browsing import Sessions

    assert isinstance(sessions, Sessions)
    held, answering = sessions, threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_GET(self) -> None:
            host = (self.headers.get("Host") or "").rpartition(":")[0]
            if host not in ("127.0.0.1", "localhost"):  # another site that points here
                self._send(403, "only this machine may look")
                return
            parts = urlsplit(self.path)
            asked = dict(parse_qsl(parts.query))
            pages = {"/": held.page, "/session": held.session}
            if parts.path not in pages:
                self._send(404, "no such page")
                return
            try:
                with answering:
                    page = pages[parts.path](asked)
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

    class Server(ThreadingHTTPServer):
        daemon_threads = True  # Ctrl-C waits for nobody
        block_on_close = False

    return Server(("127.0.0.1", port), Handler)

"""The server of `segmeter browse`: sessions of a run on a local page, read-only."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from segmeter.core.errors import SegmeterError
from segmeter.report.browsing import Sessions

__all__ = ["BrowseServer"]


class BrowseServer(ThreadingHTTPServer):
    """Shows sessions to one person at this machine: one page at a time, GET only.

    Connections have threads of their own, since browsers open some that they never use.
    """

    daemon_threads = True  # Ctrl-C does not wait for connections
    block_on_close = False

    def __init__(self, sessions: Sessions, port: int = 0) -> None:
        self.pages = {"/": sessions.page, "/session": sessions.session}
        self.answering = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: BrowseServer
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
        """Keep requests out of the terminal."""

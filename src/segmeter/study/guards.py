"""Guards: what stands between the study and the open network."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "Limiter", "Shield", "same_site", "same_text", "signed", "signed_by"]

_LARGEST_BODY = 64 << 10
_UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Limiter:
    """So many requests per second for each client, with some room for bursts."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._rate, self._burst = per_second, burst
        self._buckets: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def allows(self, client: str, now: float | None = None) -> bool:
        moment = monotonic() if now is None else now
        with self._lock:
            if len(self._buckets) > 100_000:  # a flood of clients must not fill the memory
                self._buckets.clear()
            left, since = self._buckets.get(client, (float(self._burst), moment))
            left = min(self._burst, left + (moment - since) * self._rate)
            allowed = left >= 1
            self._buckets[client] = (left - allowed, moment)
        return allowed


def signed(secret: str, *words: str) -> str:
    """A token that only this server can make for these words."""
    return hmac.new(secret.encode(), "\0".join(words).encode(), hashlib.sha256).hexdigest()


def signed_by(secret: str, given: str, *words: str) -> bool:
    return same_text(given, signed(secret, *words))


def same_text(given: str, kept: str) -> bool:
    """Compare with a secret in a time that tells nothing about it.

    >>> same_text("pässword", "password")
    False
    """
    raw = given.encode("utf-8", "surrogatepass")
    return hmac.compare_digest(raw, kept.encode())


def same_site(request: Request) -> bool:
    """Whether a request that changes something comes from one of our own pages."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


class Shield:
    """Limits on size and rate before anything is parsed, and headers on all that leaves.

    Each session has a limit, and each address one for all its sessions together: cookies can
    be made up, and a class may share an address.
    """

    def __init__(
        self, app: ASGIApp, sessions: Limiter | None, addresses: Limiter | None = None
    ) -> None:
        self._app, self._sessions, self._addresses = app, sessions, addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refusal(Request(scope))
        if refused is not None:
            await refused(scope, receive, _with_headers(send))
            return
        await self._app(scope, _bounded(receive), _with_headers(send))

    def _refusal(self, request: Request) -> PlainTextResponse | None:
        length = request.headers.get("content-length", "0")
        if len(length) > 20 or not length.isdecimal() or int(length) > _LARGEST_BODY:
            return _too_large()
        if request.method in _UNSAFE and not same_site(request):
            return PlainTextResponse("this request comes from another site", 403)
        if not self._may(request):
            return PlainTextResponse("too many requests; wait a little", 429)
        return None

    def _may(self, request: Request) -> bool:
        address = request.client.host if request.client else ""
        if self._addresses is not None and not self._addresses.allows(address):
            return False
        own = request.cookies.get("segmeter_session", "")[:100] or address
        return self._sessions is None or self._sessions.allows(own)


def _too_large() -> PlainTextResponse:
    return PlainTextResponse("the request is too large", 413)


def _bounded(receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Reads a body that may lie about its length, up to the limit."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > _LARGEST_BODY:
            raise HTTPException(413)
        return message

    return bounded


def _with_headers(send: Send) -> Callable[[MutableMapping[str, Any]], Awaitable[None]]:
    added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            known = {name for name, _ in message["headers"]}
            more = [(b"cache-control", b"no-store")] if b"cache-control" not in known else []
            message["headers"] = [*message["headers"], *added, *more]
        await send(message)

    return sending

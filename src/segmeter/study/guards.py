"""Guards: limits, tokens, headers and the conductor's password."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from time import monotonic
from typing import Any, Literal
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from segmeter.study.records import Refused

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
    """A token bucket per client: `per_second` on average, `burst` at once."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._rate, self._burst = per_second, burst
        self._buckets: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def allows(self, client: str, now: float | None = None) -> bool:
        moment = monotonic() if now is None else now
        with self._lock:
            if len(self._buckets) > 100_000:  # bounds the memory that a flood of clients can take
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
    """Compare with a secret in constant time.

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


class Limits:
    """All limits on rates of a server.

    A session has its own limit. Requests without a session share one per address, and so do all
    requests of an address together, since cookies can be made up. Bursts admit a class of 100
    people behind one address.
    """

    def __init__(self) -> None:
        self.sessions = Limiter(20.0, 150)
        self.newcomers = Limiter(20.0, 1500)
        self.addresses = Limiter(100.0, 5000)
        self.joins = Limiter(1.0, 300)
        self.tries = Limiter(0.2, 10)

    def allow(self, request: Request) -> bool:
        """Whether a request may be served now."""
        address = address_of(request)
        if not self.addresses.allows(address):
            return False
        session = request.cookies.get("segmeter_session", "")[:100]
        if session:
            return self.sessions.allows(session)
        return "/static/" in request.url.path or self.newcomers.allows(address)


def keep_cookie(
    request: Request,
    answer: Response,
    name: str,
    value: str,
    seconds: int,
    path: str,
    samesite: Literal["lax", "strict"],
) -> None:
    """Hand a cookie to the browser that no script can read."""
    secure = request.url.scheme == "https"
    answer.set_cookie(
        name, value, seconds, path=path, secure=secure, httponly=True, samesite=samesite
    )


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


class Shield:
    """Checks size, origin and rate before anything is parsed, and adds headers to responses."""

    def __init__(self, app: ASGIApp, limits: Limits | None) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        head = scope["method"] == "HEAD"
        if head:
            scope = {**scope, "method": "GET"}
        sending = _with_headers(send, without_body=head)
        refused = self._refusal(Request(scope))
        if refused is not None:
            await refused(scope, receive, sending)
            return
        await self._app(scope, _bounded(receive), sending)

    def _refusal(self, request: Request) -> PlainTextResponse | None:
        length = request.headers.get("content-length", "0")
        if len(length) > 20 or not length.isdecimal() or int(length) > _LARGEST_BODY:
            return PlainTextResponse("the request is too large", 413)
        if "\0" in request.url.path or b"%00" in request.scope.get("query_string", b""):
            return PlainTextResponse("the address contains a NUL character", 400)
        if request.method in _UNSAFE and not same_site(request):
            return PlainTextResponse("this request comes from another site", 403)
        if self._limits is not None and not self._limits.allow(request):
            headers = {"retry-after": "2"}
            return PlainTextResponse("too many requests; wait a moment", 429, headers)
        return None


class Gate:
    """The conductor's password, which opens their pages for half a day.

    Wrong passwords are limited per address. A browser that has logged in before keeps a device
    cookie and has a limit of its own, so that other clients of the same address cannot lock it out.
    """

    COOKIE = "segmeter_conductor"
    DEVICE = "segmeter_device"
    _SECONDS = 12 * 3600
    _DEVICE_SECONDS = 365 * 24 * 3600

    def __init__(self, secret: str, password: str, tries: Limiter | None) -> None:
        self._secret, self._password, self._tries = secret, password, tries

    def open(self, request: Request, password: str) -> str:
        """A new pass for the right password."""
        device = request.cookies.get(self.DEVICE, "")
        client = f"device {device}" if self._knows(device) else f"address {address_of(request)}"
        if self._tries is not None and not self._tries.allows(client):
            raise Refused(429, "too many attempts; wait a moment")
        if not same_text(password, self._password):
            raise Refused(403, "that is not the password")
        until = str(int(time.time()) + self._SECONDS)
        return f"{until}.{signed(self._secret, 'conductor', self._password, until)}"

    def keep(self, request: Request, answer: Response, opened: str) -> None:
        """Hand the pass and a device cookie to the conductor's browser."""
        device = request.cookies.get(self.DEVICE, "")
        if not self._knows(device):
            name = secrets.token_hex(8)
            device = f"{name}.{signed(self._secret, 'device', name)}"
        path = request.scope["root_path"] + "/conduct"
        keep_cookie(request, answer, self.COOKIE, opened, self._SECONDS, path, "strict")
        keep_cookie(request, answer, self.DEVICE, device, self._DEVICE_SECONDS, path, "strict")

    def holds(self, request: Request) -> bool:
        """Whether a request comes with a valid pass."""
        until, _, signature = request.cookies.get(self.COOKIE, "").partition(".")
        if len(until) > 20 or not until.isdecimal() or int(until) < time.time():
            return False
        return signed_by(self._secret, signature, "conductor", self._password, until)

    def check(self, request: Request, form: str | None = None) -> None:
        """Refuse a request without a pass; changes also need the token of the form."""
        if not self.holds(request):
            raise Refused(403, "log in first")
        if form is not None and not same_text(form, self.form(request)):
            raise Refused(403, "this form is out of date; load the page again")

    def form(self, request: Request) -> str:
        """The token that the forms of this pass carry."""
        return signed(self._secret, "form", request.cookies.get(self.COOKIE, ""))

    def _knows(self, device: str) -> bool:
        name, _, signature = device[:200].partition(".")
        return bool(name) and signed_by(self._secret, signature, "device", name)


def _bounded(receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Read a body up to the limit, whatever its stated length."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > _LARGEST_BODY:
            raise HTTPException(413)
        return message

    return bounded


def _with_headers(
    send: Send, *, without_body: bool = False
) -> Callable[[MutableMapping[str, Any]], Awaitable[None]]:
    added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            known = {name for name, _ in message["headers"]}
            more = [(b"cache-control", b"no-store")] if b"cache-control" not in known else []
            message["headers"] = [*message["headers"], *added, *more]
        elif without_body:
            message["body"] = b""
        await send(message)

    return sending

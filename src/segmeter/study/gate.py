"""The conductor's gate: a password that opens their pages for half a day."""

from __future__ import annotations

import time

from fastapi import Request
from fastapi.responses import Response

from segmeter.study.guards import Limiter, same_text, signed, signed_by
from segmeter.study.refusals import Refused

__all__ = ["Gate"]

_COOKIE = "segmeter_conductor"
_HALF_A_DAY = 12 * 3600


class Gate:
    """Lets in whoever knows the password; `door` limits how often it may be tried."""

    def __init__(self, secret: str, password: str, door: Limiter | None) -> None:
        self._secret = secret
        self._password = password
        self._door = door

    def open(self, request: Request, password: str) -> str:
        """A new pass for the right password."""
        host = request.client.host if request.client else ""
        if self._door is not None and not self._door.allows(f"conductor {host}"):
            raise Refused(429, "too many attempts; wait a little")
        if not same_text(password, self._password):
            raise Refused(403, "that is not the password")
        until = str(int(time.time()) + _HALF_A_DAY)
        return f"{until}.{signed(self._secret, 'conductor', self._password, until)}"

    def keep(self, request: Request, answer: Response, opened: str) -> None:
        """Hand the pass to the conductor's browser."""
        answer.set_cookie(
            _COOKIE,
            opened,
            max_age=_HALF_A_DAY,
            path=request.scope["root_path"] + "/conduct",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    def holds(self, request: Request) -> bool:
        """Whether a request comes with a pass that is still good."""
        until, _, signature = request.cookies.get(_COOKIE, "").partition(".")
        if len(until) > 20 or not until.isdecimal() or int(until) < time.time():
            return False
        return signed_by(self._secret, signature, "conductor", self._password, until)

    def check(self, request: Request, form: str | None = None) -> None:
        """Refuse whoever has no pass; changes also need the form's token."""
        if not self.holds(request):
            raise Refused(403, "log in first")
        if form is not None and not same_text(form, self.form(request)):
            raise Refused(403, "this form is out of date; load the page again")

    def form(self, request: Request) -> str:
        """The token that the forms of this pass carry."""
        return signed(self._secret, "form", request.cookies.get(_COOKIE, ""))

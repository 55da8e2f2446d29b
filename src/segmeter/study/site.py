"""The site of a study: what its routes share, and who is asking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import Depends, Request
from fastapi.responses import RedirectResponse, Response

from segmeter.study.gate import Gate
from segmeter.study.guards import Limiter, signed, signed_by
from segmeter.study.lookups import Row
from segmeter.study.refusals import Refused
from segmeter.study.rendering import Pages
from segmeter.study.running import RunningStudy
from segmeter.study.segmenting import Segmenting

__all__ = ["COOKIE", "Here", "Site", "image"]

COOKIE = "segmeter_session"
_THIRTY_DAYS = 30 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Site:
    """A study on the web: people are known by their session, pages by a token of it."""

    study: RunningStudy
    pages: Pages
    gate: Gate
    door: Limiter | None
    segmenting: Segmenting | None
    secret: str

    def show(
        self,
        name: str,
        request: Request,
        who: Row | None = None,
        status: int = 200,
        **more: Any,
    ) -> Response:
        """A page, in the language of the person if there is one."""
        chosen = None if who is None else str(who["language"])
        language = self.pages.language(request, chosen)
        return self.pages.show(name, request, language, status, **more)

    def message(
        self, request: Request, name: str, who: Row | None = None, status: int = 200
    ) -> Response:
        """A page that says one thing: the word `name`, and below it `name_text`."""
        more = {"title": name, "note": f"{name}_text"}
        return self.show("message.html", request, who, status, **more)

    def redirect(self, request: Request, path: str) -> RedirectResponse:
        return RedirectResponse(request.scope["root_path"] + path, 303)

    def known(self, request: Request) -> Row | None:
        """Who is asking, if they have joined."""
        session = request.cookies.get(COOKIE, "")
        return self.study.person(session) if session else None

    def person(self, request: Request) -> Row:
        found = self.known(request)
        if found is None:
            raise Refused(401, "open your link first")
        return found

    def trusted(self, request: Request) -> Row:
        """A person whose page holds the token of their session."""
        found = self.person(request)
        given = request.headers.get("x-segmeter-token", "")
        if not signed_by(self.secret, given, "page", request.cookies.get(COOKIE, "")):
            raise Refused(403, "this page is out of date; load it again")
        return found

    def page_token(self, request: Request) -> str:
        return signed(self.secret, "page", request.cookies.get(COOKIE, ""))

    def knock(self, request: Request) -> None:
        """Doors open slowly: nobody tries codes by the thousand."""
        host = request.client.host if request.client else ""
        if self.door is not None and not self.door.allows(host):
            raise Refused(429, "too many attempts; wait a little")

    def keep_session(self, request: Request, answer: Response, session: str) -> None:
        answer.set_cookie(
            COOKIE,
            session,
            max_age=_THIRTY_DAYS,
            path=_cookie_path(request),
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )

    def forget_session(self, request: Request, answer: Response) -> None:
        answer.delete_cookie(COOKIE, path=_cookie_path(request))


def _cookie_path(request: Request) -> str:
    return request.scope["root_path"] or "/"


def image(raw: bytes, **headers: str) -> Response:
    """A PNG or JPEG file as a response."""
    kind = "image/jpeg" if raw[:2] == b"\xff\xd8" else "image/png"
    return Response(raw, media_type=kind, headers=headers)


async def _site(request: Request) -> Site:
    return cast(Site, request.app.state.site)


Here = Annotated[Site, Depends(_site)]
"""The site that a route belongs to."""

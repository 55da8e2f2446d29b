"""The site of a study: pages in the participant's language, and who sends a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup, escape

from segmeter.study.guards import Gate, Limiter, Limits, address_of, keep_cookie, signed, signed_by
from segmeter.study.records import Refused, Row
from segmeter.study.running import RunningStudy
from segmeter.study.segmenting import Segmenting
from segmeter.study.wording import Words, templates

COOKIE = "segmeter_session"
_THIRTY_DAYS = 30 * 24 * 3600
_LINK = re.compile(r"\[([^\]]{1,200})\]\((https?://[^\s()]{1,500}|mailto:[^\s()]{1,200})\)")


def prose(text: str) -> Markup:
    """Paragraphs, `- ` lists and `[links](https://...)` as HTML; everything else is escaped.

    >>> print(prose("- one\\n- [two](https://x.org)"))
    <ul><li>one</li><li><a href="https://x.org" rel="noopener">two</a></li></ul>
    """
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in block.splitlines()]
        if all(line.startswith("- ") for line in lines):
            items = "".join(f"<li>{_linked(line[2:])}</li>" for line in lines)
            blocks.append(f"<ul>{items}</ul>")
        else:
            blocks.append(f"<p>{_linked(' '.join(lines))}</p>")
    return Markup("\n".join(blocks))


def _linked(text: str) -> str:
    # Escaping leaves brackets alone and an escaped address is still that address.
    return _LINK.sub(r'<a href="\2" rel="noopener">\1</a>', str(escape(text)))


templates(html=True).filters["prose"] = prose


def pick(versions: Mapping[str, str], language: str) -> str:
    """A text in this language, or for all languages, or in another one."""
    return versions.get(language) or versions.get("") or next(iter(versions.values()), "")


@dataclass(frozen=True, slots=True)
class Site:
    """A study on the web; participants are identified by their session, pages by a token of it."""

    study: RunningStudy
    words: Mapping[str, Words]
    gate: Gate
    limits: Limits | None
    segmenting: Segmenting | None
    secret: str
    behind: bool
    new_links: dict[str, list[str]] = field(default_factory=dict)

    def language(self, request: Request, chosen: str = "") -> str:
        """The language asked for now, or chosen before, or the browser's, or the plan's first."""
        accepted = request.headers.get("accept-language", "")[:200].split(",")
        asked = [request.query_params.get("language", ""), chosen]
        for name in (*asked, *(part.split(";")[0].strip() for part in accepted)):
            for known in (name, name.split("-")[0]):
                if known in self.words:
                    return known
        return self.study.plan.languages[0]

    def show(
        self,
        name: str,
        request: Request,
        who: Row | None = None,
        status: int = 200,
        **more: Any,
    ) -> Response:
        """A page, in the participant's language if they are known."""
        language = self.language(request, "" if who is None else who["language"])
        texts: Mapping[str, Mapping[str, str]] = self.study.plan.texts  # type: ignore[assignment]  # any word
        filled = (
            templates(html=True)
            .get_template(name)
            .render(
                plan=self.study.plan,
                language=language,
                languages={code: words["language"] for code, words in self.words.items()},
                w=self.words[language],
                base=request.scope["root_path"],
                text=lambda key: pick(texts.get(key, {}), language),
                pick=lambda versions: pick(versions, language),
                **more,
            )
        )
        return HTMLResponse(filled, status)

    def message(
        self,
        request: Request,
        name: str,
        who: Row | None = None,
        status: int = 200,
        *,
        back: tuple[str, str] = ("", ""),
    ) -> Response:
        """A page with one message: the word `name`, below it `name_text`, and a code to return."""
        more = {"title": name, "note": f"{name}_text", "code": back[0], "address": back[1]}
        return self.show("message.html", request, who, status, **more)

    def redirect(self, request: Request, path: str) -> RedirectResponse:
        return RedirectResponse(request.scope["root_path"] + path, 303)

    def known(self, request: Request) -> Row | None:
        """The participant who sends a request, if they have joined."""
        session = request.cookies.get(COOKIE, "")
        return self.study.person(session) if session else None

    def person(self, request: Request) -> Row:
        found = self.known(request)
        if found is None:
            raise Refused(401, "open your link first")
        return found

    def trusted(self, request: Request) -> Row:
        """A participant whose page holds the token of their session."""
        found = self.person(request)
        self.check_token(request, "page", request.headers.get("x-segmeter-token", ""))
        return found

    def token(self, request: Request, use: str) -> str:
        """The token that pages or forms of this session carry."""
        return signed(self.secret, use, request.cookies.get(COOKIE, ""))

    def check_token(self, request: Request, use: str, given: str) -> None:
        if not signed_by(self.secret, given, use, request.cookies.get(COOKIE, "")):
            raise Refused(403, "this page is out of date; load it again")

    def limit(self, request: Request, what: str) -> None:
        """Slow down an address: `joins`, or `tries` to guess codes, links or passwords."""
        limiter: Limiter | None = getattr(self.limits, what, None)
        if limiter is not None and not limiter.allows(address_of(request)):
            raise Refused(429, "too many attempts from here; wait a moment")

    def keep_session(self, request: Request, answer: Response, session: str) -> None:
        """Hand the session to the browser; an empty one makes it forget."""
        path, seconds = request.scope["root_path"] or "/", _THIRTY_DAYS if session else 0
        keep_cookie(request, answer, COOKIE, session, seconds, path, "lax")


def image_response(raw: bytes, **headers: str) -> Response:
    """A PNG, JPEG or WebP file as a response."""
    kind = {b"\xff\xd8": "jpeg", b"RI": "webp"}.get(raw[:2], "png")
    return Response(raw, media_type=f"image/{kind}", headers=headers)


async def _site(request: Request) -> Site:
    return cast(Site, request.app.state.site)


Here = Annotated[Site, Depends(_site)]
"""The site that a route belongs to."""

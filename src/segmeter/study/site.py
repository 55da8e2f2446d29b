"""The site of a study: pages in the participant's language, and who sends a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup, escape

from segmeter.study.guards import Gate, Limiter, Limits, address_of, keep_cookie, same_text, signed
from segmeter.study.plan import Plan, in_language
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


@dataclass(frozen=True, slots=True)
class Site:
    """A study on the web."""

    study: RunningStudy
    words: Mapping[str, Words]
    gate: Gate
    limits: Limits | None
    segmenting: Segmenting | None
    secret: str
    behind: bool
    new_links: dict[str, list[str]] = field(default_factory=dict)


class Visit:
    """A request to the site: who sends it, and the pages that answer it.

    Participants are identified by their session, pages by a token of it.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.site: Site = request.app.state.site
        self.study: RunningStudy = self.site.study
        self.plan: Plan = self.study.plan
        self.base: str = request.scope["root_path"]
        self._session = request.cookies.get(COOKIE, "")

    @cached_property
    def known(self) -> Row | None:
        """The participant who sends the request, if they have joined."""
        return self.study.person(self._session) if self._session else None

    @property
    def person(self) -> Row:
        if self.known is None:
            raise Refused(401, "open your link first")
        return self.known

    @property
    def trusted(self) -> Row:
        """A participant whose page holds the token of their session."""
        found = self.person
        self.check_token("page", self.request.headers.get("x-segmeter-token", ""))
        return found

    def token(self, use: str) -> str:
        """The token that pages or forms of this session carry."""
        return signed(self.site.secret, use, self._session)

    def check_token(self, use: str, given: str) -> None:
        if not same_text(given, self.token(use)):
            raise Refused(403, "this page is out of date; load it again")

    def language(self, chosen: str = "") -> str:
        """The requested language, or the one chosen before, the browser's, or the plan's first."""
        accepted = self.request.headers.get("accept-language", "")[:200].split(",")
        before = chosen or (self.known["language"] if self.known else "")
        asked = [self.request.query_params.get("language", ""), before]
        for name in (*asked, *(part.split(";")[0].strip() for part in accepted)):
            for each in (name, name.split("-")[0]):
                if each in self.site.words:
                    return each
        return self.plan.languages[0]

    def show(self, name: str, status: int = 200, **more: Any) -> Response:
        """A page, in the participant's language if they are known."""
        language, words = self.language(), self.site.words
        texts: Mapping[str, Mapping[str, str]] = self.plan.texts  # type: ignore[assignment]  # any word
        page = templates(html=True).get_template(name)
        filled = page.render(
            plan=self.plan,
            language=language,
            languages={code: each["language"] for code, each in words.items()},
            w=words[language],
            base=self.base,
            text=lambda key: in_language(texts.get(key, {}), language),
            pick=lambda versions: in_language(versions, language),
            **more,
        )
        return HTMLResponse(filled, status)

    def message(self, name: str, status: int = 200, back: tuple[str, str] = ("", "")) -> Response:
        """A page with one message: the word `name`, below it `name_text`, and a code to return."""
        more = {"title": name, "note": f"{name}_text", "code": back[0], "address": back[1]}
        return self.show("message.html", status, **more)

    def redirect(self, path: str) -> RedirectResponse:
        return RedirectResponse(self.base + path, 303)

    def limit(self, what: str) -> None:
        """Slow down an address: `joins`, or `tries` to guess codes, links or passwords."""
        limiter: Limiter | None = getattr(self.site.limits, what, None)
        if limiter is not None and not limiter.allows(address_of(self.request)):
            raise Refused(429, "too many attempts from here; wait a moment")

    def keep_session(self, answer: Response, session: str) -> None:
        """Send the session cookie to the browser; an empty session deletes it."""
        seconds = _THIRTY_DAYS if session else 0
        keep_cookie(self.request, answer, COOKIE, session, seconds, self.base or "/", "lax")


def image_response(raw: bytes, **headers: str) -> Response:
    """A PNG, JPEG or WebP file as a response."""
    kind = {b"\xff\xd8": "jpeg", b"RI": "webp"}.get(raw[:2], "png")
    return Response(raw, media_type=f"image/{kind}", headers=headers)


Here = Annotated[Visit, Depends()]
"""The request that a route answers."""

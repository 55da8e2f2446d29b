"""The site of a study: pages in the participant's language, and who sends a request."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup, escape

from segmeter.study.guards import Gate, Limits, address_of, signed, signed_by
from segmeter.study.modes import Mode, Screen
from segmeter.study.plan import Plan
from segmeter.study.records import Refused, Row
from segmeter.study.running import RunningStudy
from segmeter.study.segmenting import Segmenting
from segmeter.study.wording import read_words, templates

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
    found, last = [], 0
    for match in _LINK.finditer(text):
        found.append(str(escape(text[last : match.start()])))
        found.append(f'<a href="{escape(match[2])}" rel="noopener">{escape(match[1])}</a>')
        last = match.end()
    return "".join([*found, str(escape(text[last:]))])


class Pages:
    """The pages of a plan, in the language that a participant reads."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.words = read_words(plan)
        self._templates = templates(html=True)
        self._templates.filters["prose"] = prose

    def language(self, request: Request, chosen: str | None = None) -> str:
        """The language asked for now, or chosen before, or the browser's, or the plan's first."""
        asked = [request.query_params.get("language", ""), chosen or ""]
        accepted = request.headers.get("accept-language", "")[:200].split(",")
        asked += [part.split(";")[0].strip() for part in accepted]
        for name in asked:
            for known in (name, name.split("-")[0]):
                if known in self.words:
                    return known
        return self.plan.languages[0]

    def show(
        self, name: str, request: Request, language: str, status: int = 200, **more: Any
    ) -> HTMLResponse:
        """A page as a response."""
        words = self.words[language]
        filled = self._templates.get_template(name).render(
            plan=self.plan,
            language=language,
            languages={code: texts["language"] for code, texts in self.words.items()},
            w=words,
            base=request.scope["root_path"],
            text=lambda key: self.text(key, language),
            pick=lambda versions: _pick(versions, language),
            **more,
        )
        return HTMLResponse(filled, status)

    def text(self, name: str, language: str) -> str:
        """A text of the plan; in another language if this one has none."""
        return _pick(self.plan.texts.get(name, {}), language)  # type: ignore[call-overload]  # any word

    def steps(self, modes: Sequence[Mode], language: str, touch: bool) -> list[str]:
        """The course of a trial, screen by screen; in short if modes are mixed."""
        words = self.words[language]
        ask = words["step_ask_touch" if touch else "step_ask"]
        if len(modes) > 1:
            return [words["step_mixed"], ask]
        steps = [
            words[self._step(screen)].format(seconds=_seconds(screen.seconds or 0, words))
            for screen in modes[0].screens[:-1]
        ]
        return [*steps, ask]

    def _step(self, screen: Screen) -> str:
        """The word for a screen; a second round shows errors instead of objects."""
        errors = self.plan.kind == "clicks-round2"
        shows_mask = screen.show not in ("image", "text")
        return "step_error" if errors and shows_mask else f"step_{screen.show}"

    def minutes(self, modes: Sequence[Mode]) -> int:
        """About how long a batch takes, with two seconds for each click."""
        longest = max(2.0 + mode.seconds for mode in modes)
        return max(1, math.ceil(longest * self.plan.design.batch / 60))


def _pick(versions: Mapping[str, str], language: str) -> str:
    return versions.get(language) or versions.get("") or next(iter(versions.values()), "")


def _seconds(value: float, words: Mapping[str, str]) -> str:
    return f"{value:g}".replace(".", words["decimal_mark"])


@dataclass(frozen=True, slots=True)
class Site:
    """A study on the web; participants are identified by their session, pages by a token of it."""

    study: RunningStudy
    pages: Pages
    gate: Gate
    limits: Limits | None
    segmenting: Segmenting | None
    secret: str
    behind: bool
    new_links: dict[str, list[str]]

    def show(
        self,
        name: str,
        request: Request,
        who: Row | None = None,
        status: int = 200,
        **more: Any,
    ) -> Response:
        """A page, in the participant's language if they are known."""
        chosen = None if who is None else str(who["language"])
        language = self.pages.language(request, chosen)
        return self.pages.show(name, request, language, status, **more)

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
        given = request.headers.get("x-segmeter-token", "")
        if not signed_by(self.secret, given, "page", request.cookies.get(COOKIE, "")):
            raise Refused(403, "this page is out of date; load it again")
        return found

    def page_token(self, request: Request) -> str:
        return signed(self.secret, "page", request.cookies.get(COOKIE, ""))

    def limit_tries(self, request: Request) -> None:
        """Slow down clients that guess codes, links or passwords."""
        if self.limits is not None and not self.limits.tries.allows(address_of(request)):
            raise Refused(429, "too many attempts; wait a moment")

    def limit_joins(self, request: Request) -> None:
        if self.limits is not None and not self.limits.joins.allows(address_of(request)):
            raise Refused(429, "too many people are joining from here; wait a moment")

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


def image_response(raw: bytes, **headers: str) -> Response:
    """A PNG, JPEG or WebP file as a response."""
    kind = {b"\xff\xd8": "jpeg", b"RI": "webp"}.get(raw[:2], "png")
    return Response(raw, media_type=f"image/{kind}", headers=headers)


async def _site(request: Request) -> Site:
    return cast(Site, request.app.state.site)


Here = Annotated[Site, Depends(_site)]
"""The site that a route belongs to."""

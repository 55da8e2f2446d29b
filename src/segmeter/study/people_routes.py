"""Routes for people: joining, consenting, answering, withdrawing."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Form, Path, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from segmeter.study.drawing import VIEWS
from segmeter.study.guards import Limiter, signed, signed_by
from segmeter.study.messages import (
    ClickAnswer,
    ContentAnswer,
    DeviceChoice,
    RatingAnswer,
    StepAsk,
)
from segmeter.study.pages_for import Pages
from segmeter.study.refusals import Refused
from segmeter.study.running import Row, RunningStudy
from segmeter.study.segmenting import Segmenting

__all__ = ["people_routes"]

COOKIE = "segmeter_session"
_THIRTY_DAYS = 30 * 24 * 3600
Token = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
_PAGES = {"clicks": "clicks.html", "clicks-round2": "clicks.html", "rate": "rate.html"}


class Sessions:
    """Who is asking: people are known by their session, pages by a token of it."""

    def __init__(self, study: RunningStudy) -> None:
        self._study = study
        self.secret = study.ledger.secret()

    def session(self, request: Request) -> str:
        return request.cookies.get(COOKIE, "")

    def person(self, request: Request) -> Row:
        session = self.session(request)
        found = self._study.person(session) if session else None
        if found is None:
            raise Refused(401, "open your link first")
        return found

    def page_token(self, request: Request) -> str:
        return signed(self.secret, "page", self.session(request))

    def trusted(self, request: Request) -> Row:
        """A person whose page holds the token of their session."""
        found = self.person(request)
        given = request.headers.get("x-segmeter-token", "")
        if not signed_by(self.secret, given, "page", self.session(request)):
            raise Refused(403, "this page is out of date; load it again")
        return found


def people_routes(
    study: RunningStudy, pages: Pages, segmenting: Segmenting | None, door: Limiter | None
) -> APIRouter:
    """All that people reach."""
    router, sessions = APIRouter(), Sessions(study)
    _add_doors(router, study, pages, sessions.secret, door)
    _add_way_out(router, study, pages, sessions.secret, door)
    _add_pages(router, study, pages, sessions)
    _add_answers(router, study, segmenting, sessions)
    return router


def _add_pages(router: APIRouter, study: RunningStudy, pages: Pages, sessions: Sessions) -> None:
    """What people look at."""

    @router.get("/work")
    def work(request: Request) -> Response:
        who = sessions.person(request)
        language = pages.language(request, who["language"])
        token = sessions.page_token(request)
        if study.state() != "open":
            return pages.show("message.html", request, language, title="paused", note="paused_text")
        if who["device"] is None or "device" in request.query_params:
            return pages.show("device.html", request, language, page_token=token)
        return _work_page(study, pages, request, who, token)

    @router.get("/guidelines")
    def guidelines(request: Request) -> Response:
        language = pages.language(request, sessions.person(request)["language"])
        return pages.show("guidelines.html", request, language)

    @router.get("/pictures/{trial}/{name}")
    def picture(request: Request, trial: Token, name: Token) -> Response:
        raw = _picture(study, study.trial(sessions.person(request), trial), name)
        kind = "image/jpeg" if raw[:2] == b"\xff\xd8" else "image/png"
        return Response(raw, media_type=kind, headers={"cache-control": "private, max-age=3600"})


def _add_answers(
    router: APIRouter, study: RunningStudy, segmenting: Segmenting | None, sessions: Sessions
) -> None:
    """What people's pages send."""

    @router.post("/api/device")
    def device(request: Request, choice: DeviceChoice) -> Response:
        study.choose_device(sessions.trusted(request), choice.device)
        return JSONResponse({})

    @router.post("/api/batch")
    def batch(request: Request) -> Response:
        given = study.batch(sessions.trusted(request))
        if segmenting is not None and given is not None:
            segmenting.prepare(given["batch"])
        return JSONResponse(given)

    @router.post("/api/batches/{batch}/finish")
    def finish(request: Request, batch: Token) -> Response:
        return JSONResponse(study.finish(sessions.trusted(request), batch))

    @router.post("/api/trials/{trial}")
    def answer(
        request: Request, trial: Token, given: Annotated[dict[str, Any], Body()]
    ) -> Response:
        who = sessions.trusted(request)
        return JSONResponse(study.answer(who, trial, _message(study, given)))

    @router.post("/api/trials/{trial}/steps")
    def step(request: Request, trial: Token, ask: StepAsk) -> Response:
        who = sessions.trusted(request)
        if segmenting is None:
            raise Refused(404, "this study has no model in the loop")
        return JSONResponse(segmenting.step(who, trial, ask))


def _add_doors(
    router: APIRouter,
    study: RunningStudy,
    pages: Pages,
    secret: str,
    door: Limiter | None,
) -> None:
    """The way in: a link, and consent."""

    @router.get("/")
    def front(request: Request) -> Response:
        base = request.scope["root_path"]
        if study.plan.open_to_all:
            return RedirectResponse(f"{base}/join/open?language={pages.language(request)}", 303)
        title, note = "no_link", "no_link_text"
        language = pages.language(request)
        return pages.show("message.html", request, language, title=title, note=note)

    @router.get("/join/{token}")
    def consent(request: Request, token: Token) -> Response:
        language = pages.language(request)
        known = study.person(request.cookies.get(COOKIE, ""))
        if known is not None and (token == "open" or not study.may_join(token)):
            return RedirectResponse(request.scope["root_path"] + "/work", 303)
        if not study.may_join(token):
            title, note = "used_link", "used_link_text"
            return pages.show("message.html", request, language, 403, title=title, note=note)
        form = signed(secret, "join", token)
        return pages.show("consent.html", request, language, token=token, form=form)

    @router.post("/join/{token}")
    def join(
        request: Request,
        token: Token,
        form: Annotated[str, Form(max_length=100)] = "",
        agreed: Annotated[str, Form(max_length=10)] = "",
        language: Annotated[str, Form(max_length=12)] = "",
    ) -> Response:
        if not study.may_join(token):
            _knock(request, door)  # only wrong links: a class opens its own at once
        if not signed_by(secret, form, "join", token):
            raise Refused(403, "this form is out of date; open your link again")
        if agreed != "yes":
            raise Refused(422, "taking part needs your consent")
        session = study.join(token, pages.language(request, language))
        answer = RedirectResponse(request.scope["root_path"] + "/work", 303)
        _set_cookie(request, answer, session)
        return answer


def _add_way_out(
    router: APIRouter, study: RunningStudy, pages: Pages, secret: str, door: Limiter | None
) -> None:
    """Withdrawing, by the code that only the person has."""

    @router.get("/withdraw")
    def ask_code(request: Request) -> Response:
        form = signed(secret, "withdraw")
        language = pages.language(request)
        return pages.show("withdraw.html", request, language, form=form, unknown=False, code="")

    @router.post("/withdraw")
    def withdraw(
        request: Request,
        form: Annotated[str, Form(max_length=100)] = "",
        code: Annotated[str, Form(max_length=64)] = "",
    ) -> Response:
        _knock(request, door)
        if not signed_by(secret, form, "withdraw"):
            raise Refused(403, "this form is out of date; load it again")
        language = pages.language(request)
        if not study.withdraw(code.strip()):
            more = {"form": form, "unknown": True, "code": code}
            return pages.show("withdraw.html", request, language, 404, **more)
        title, note = "withdraw_done", "withdraw_done_text"
        answer = pages.show("message.html", request, language, title=title, note=note)
        answer.delete_cookie(COOKIE)
        return answer


def _knock(request: Request, door: Limiter | None) -> None:
    """Doors open slowly: nobody tries codes by the thousand."""
    host = request.client.host if request.client else ""
    if door is not None and not door.allows(host):
        raise Refused(429, "too many attempts; wait a little")


def _work_page(
    study: RunningStudy, pages: Pages, request: Request, who: Row, page_token: str
) -> Response:
    plan = study.plan
    language = pages.language(request, who["language"])
    mode = plan.mode(who["condition"] or plan.conditions[0])
    return pages.show(
        _PAGES.get(plan.kind, "interact.html"),
        request,
        language,
        page_token=page_token,
        person=who["id"],
        steps=pages.steps(mode, language),
        minutes=pages.minutes([mode]),
        part="first" if plan.kind != "clicks-round2" else "fn",
    )


def _set_cookie(request: Request, answer: Response, session: str) -> None:
    answer.set_cookie(
        COOKIE,
        session,
        max_age=_THIRTY_DAYS,
        path=request.scope["root_path"] or "/",
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )


def _message(
    study: RunningStudy, given: dict[str, Any]
) -> ClickAnswer | RatingAnswer | ContentAnswer:
    """The answer that this kind of study takes; anything else is refused by its fields."""
    from fastapi.exceptions import RequestValidationError
    from pydantic import ValidationError

    kinds: dict[str, type[RatingAnswer] | type[ContentAnswer]] = {
        "rate": RatingAnswer,
        "interact": ContentAnswer,
    }
    try:
        return kinds.get(study.plan.kind, ClickAnswer).model_validate(given)
    except ValidationError as error:
        faults = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(faults) from None


def _picture(study: RunningStudy, trial: Row, name: str) -> bytes:
    """A screen of a trial by its number, the plain picture, or a view for rating."""
    plan = study.plan
    show = name
    if plan.kind == "rate":
        allowed = name in VIEWS
    elif name.isdecimal() and len(name) < 3:
        screens = plan.mode(trial["condition"]).screens
        allowed = int(name) < len(screens) and screens[int(name)].show != "text"
        show = screens[int(name)].show if allowed else ""
    else:
        allowed = name == "picture"
    if not allowed:
        raise Refused(404, "there is no such picture")
    parts = (trial["scene"], trial["target"], trial["part"], trial["source"])
    return study.stimuli.picture(*parts, show)

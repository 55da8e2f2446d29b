"""Routes for participants at work: their pages and images, and the answers they send."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError

from segmeter.study.drawing import VIEWS
from segmeter.study.guards import address_of, signed, signed_by
from segmeter.study.joining_routes import return_link
from segmeter.study.messages import Answer, ClickAnswer, DeviceChoice, FinalAnswer, RatingAnswer
from segmeter.study.messages import Step as StepMessage
from segmeter.study.records import Refused, Row
from segmeter.study.running import RunningStudy
from segmeter.study.site import COOKIE, Here, Site, image_response
from segmeter.study.wording import read_answers

router = APIRouter()
Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
_PAGES = {"rate": "rate.html", "interact": "interact.html"}
_ANSWERS: dict[str, type[RatingAnswer] | type[FinalAnswer]] = {
    "rate": RatingAnswer,
    "interact": FinalAnswer,
}


async def _form(request: Request) -> dict[str, list[str]]:
    """All fields of a form; a name may come several times."""
    found: dict[str, list[str]] = {}
    for name, value in (await request.form(max_fields=200)).multi_items():
        if isinstance(value, str):
            found.setdefault(name, []).append(value)
    return found


Fields = Annotated[dict[str, list[str]], Depends(_form)]


@router.get("/work")
def work(request: Request, site: Here) -> Response:
    """The page for what a participant does next."""
    who = site.person(request)
    language = request.query_params.get("language", "")
    if language in site.pages.words:
        site.study.choose_language(who, language)
        return site.redirect(request, "/work")
    if who["state"]:
        back = return_link(site.study.plan.recruiting, who["state"], who["platform"])
        return site.message(request, who["state"], who, back=back)
    if who["finished"] is not None:
        return site.redirect(request, "/end")
    state = site.study.state()
    if state != "open":
        return site.message(request, "paused" if state == "paused" else "closed", who)
    if site.study.open_questions(who, "before"):
        return _questions(site, request, who, "before")
    if who["device"] is None or "device" in request.query_params:
        return site.show("device.html", request, who, page_token=site.page_token(request))
    return _work_page(site, request, who)


@router.post("/questions/{when}")
def respond(request: Request, when: Name, site: Here, fields: Fields) -> Response:
    who = site.person(request)
    token = next(iter(fields.get("form", [])), "")
    if not signed_by(site.secret, token, "questions", request.cookies.get(COOKIE, "")):
        raise Refused(403, "this form is out of date; load it again")
    wanted = site.study.open_questions(who, when)
    values, wrong = read_answers(wanted, fields)
    if wrong:
        return _questions(site, request, who, when, fields, wrong)
    site.study.respond(who, values)
    return site.redirect(request, "/work" if when == "before" else "/end")


@router.get("/end")
def end(request: Request, site: Here) -> Response:
    """The last page: questions, then thanks, the completion code and the debriefing."""
    who = site.person(request)
    if who["finished"] is None:
        return site.redirect(request, "/work")
    if site.study.open_questions(who, "after"):
        return _questions(site, request, who, "after")
    code, address = return_link(site.study.plan.recruiting, "completed", who["platform"])
    return site.show("end.html", request, who, person=who["id"], code=code, address=address)


@router.get("/guidelines")
def guidelines(request: Request, site: Here) -> Response:
    return site.show("guidelines.html", request, site.person(request))


@router.get("/static/slices.js")
def viewer() -> Response:
    """The viewer of slices, which studies share with reports."""
    script = (files("segmeter.report") / "assets" / "slices.js").read_bytes()
    return Response(script, media_type="text/javascript")


@router.get("/images/{trial}/{name}")
def image(request: Request, trial: Name, name: Name, site: Here) -> Response:
    raw = _image(site.study, site.study.trial(site.person(request), trial), name)
    site.study.note_fetched(trial, name)
    return image_response(raw, **{"cache-control": "private, max-age=3600"})


@router.post("/api/device")
def device(request: Request, choice: DeviceChoice, site: Here) -> Response:
    site.study.choose_device(site.trusted(request), choice.device)
    return JSONResponse({})


@router.post("/api/offer")
def offer(request: Request, site: Here) -> Response:
    """The next work; nothing is reserved."""
    return JSONResponse(site.study.offer(site.trusted(request), address_of(request)))


@router.post("/api/batch")
def batch(request: Request, site: Here) -> Response:
    """Reserve a batch, or give the open one again."""
    given = site.study.batch(site.trusted(request), address_of(request))
    if site.segmenting is not None and given is not None:
        site.segmenting.prepare(given["batch"])
    return JSONResponse(given)


@router.post("/api/batches/{batch}/finish")
def finish(request: Request, batch: Name, site: Here) -> Response:
    return JSONResponse(site.study.finish(site.trusted(request), batch))


@router.post("/api/batches/{batch}/leave")
def leave(request: Request, batch: Name, site: Here) -> Response:
    site.study.leave(site.trusted(request), batch)
    return JSONResponse({})


@router.post("/api/end")
def end_study(request: Request, site: Here) -> Response:
    site.study.end(site.trusted(request))
    return JSONResponse({})


@router.post("/api/trials/{trial}")
def answer(
    request: Request, trial: Name, given: Annotated[dict[str, Any], Body()], site: Here
) -> Response:
    who = site.trusted(request)
    return JSONResponse(site.study.answer(who, trial, _message(site.study, given)))


@router.post("/api/trials/{trial}/steps")
def step(request: Request, trial: Name, ask: StepMessage, site: Here) -> Response:
    who = site.trusted(request)
    if site.segmenting is None:
        raise Refused(404, "this study has no model in the loop")
    return JSONResponse(site.segmenting.step(who, trial, ask))


def _work_page(site: Site, request: Request, who: Row) -> Response:
    plan, pages = site.study.plan, site.pages
    language = pages.language(request, who["language"])
    modes = [plan.mode_of(who["condition"])] if who["condition"] else plan.modes
    touch = who["device"] == "mobile"
    return site.show(
        _PAGES.get(plan.kind, "clicks.html"),
        request,
        who,
        page_token=site.page_token(request),
        person=who["id"],
        steps=pages.steps(modes, language, touch),
        minutes=pages.minutes(modes),
        touch=touch,
        volumes=site.study.stimuli.volumes,
    )


def _questions(
    site: Site,
    request: Request,
    who: Row,
    when: str,
    given: dict[str, list[str]] | None = None,
    wrong: list[str] | None = None,
) -> Response:
    token = signed(site.secret, "questions", request.cookies.get(COOKIE, ""))
    more = {"when": when, "form": token, "given": given or {}, "wrong": wrong or []}
    questions = site.study.open_questions(who, when)
    status = 422 if wrong else 200
    return site.show("questions.html", request, who, status, questions=questions, **more)


def _message(study: RunningStudy, given: dict[str, Any]) -> Answer:
    """The kind of answer that this study takes."""
    try:
        return _ANSWERS.get(study.plan.kind, ClickAnswer).model_validate(given)
    except ValidationError as error:
        faults = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(faults) from None


def _image(study: RunningStudy, trial: Row, name: str) -> bytes:
    """A screen of a trial by its number, the plain image, or a view for rating."""
    show = _shown(study, trial, name)
    if show is None:
        raise Refused(404, "there is no such image")
    parts = (trial["scene"], trial["target"], trial["part"], trial["source"])
    return study.stimuli.image(*parts, show)


def _shown(study: RunningStudy, trial: Row, name: str) -> str | None:
    """The image of a name in this trial; None if there is none."""
    if study.plan.kind == "rate":
        return name if name in VIEWS else None
    if name not in study.image_names(trial):
        return None
    screens = study.plan.mode_of(trial["condition"]).screens
    return screens[int(name)].show if name.isdecimal() else name

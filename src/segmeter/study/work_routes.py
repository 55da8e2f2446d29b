"""Routes for people at work: their pages and images, and the answers they send."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError

from segmeter.study.drawing import VIEWS
from segmeter.study.lookups import Row
from segmeter.study.messages import (
    ClickAnswer,
    ContentAnswer,
    DeviceChoice,
    RatingAnswer,
    StepAsk,
)
from segmeter.study.refusals import Refused
from segmeter.study.running import RunningStudy
from segmeter.study.site import Here, Site, image

__all__ = ["router"]

router = APIRouter()
Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
_PAGES = {"rate": "rate.html", "interact": "interact.html"}
_ANSWERS: dict[str, type[RatingAnswer] | type[ContentAnswer]] = {
    "rate": RatingAnswer,
    "interact": ContentAnswer,
}


@router.get("/work")
def work(request: Request, site: Here) -> Response:
    """The page for what a person does next."""
    who = site.person(request)
    language = request.query_params.get("language", "")
    if language in site.pages.words:
        site.study.choose_language(who, language)
        return site.redirect(request, "/work")
    if site.study.state() != "open":
        return site.message(request, "paused", who)
    if who["device"] is None or "device" in request.query_params:
        return site.show("device.html", request, who, page_token=site.page_token(request))
    return _work_page(site, request, who)


@router.get("/guidelines")
def guidelines(request: Request, site: Here) -> Response:
    return site.show("guidelines.html", request, site.person(request))


@router.get("/images/{trial}/{name}")
def show_image(request: Request, trial: Name, name: Name, site: Here) -> Response:
    raw = _image(site.study, site.study.trial(site.person(request), trial), name)
    return image(raw, **{"cache-control": "private, max-age=3600"})


@router.post("/api/device")
def device(request: Request, choice: DeviceChoice, site: Here) -> Response:
    site.study.choose_device(site.trusted(request), choice.device)
    return JSONResponse({})


@router.post("/api/batch")
def batch(request: Request, site: Here) -> Response:
    given = site.study.batch(site.trusted(request))
    if site.segmenting is not None and given is not None:
        site.segmenting.prepare(given["batch"])
    return JSONResponse(given)


@router.post("/api/batches/{batch}/finish")
def finish(request: Request, batch: Name, site: Here) -> Response:
    return JSONResponse(site.study.finish(site.trusted(request), batch))


@router.post("/api/trials/{trial}")
def answer(
    request: Request, trial: Name, given: Annotated[dict[str, Any], Body()], site: Here
) -> Response:
    who = site.trusted(request)
    return JSONResponse(site.study.answer(who, trial, _message(site.study, given)))


@router.post("/api/trials/{trial}/steps")
def step(request: Request, trial: Name, ask: StepAsk, site: Here) -> Response:
    who = site.trusted(request)
    if site.segmenting is None:
        raise Refused(404, "this study has no model in the loop")
    return JSONResponse(site.segmenting.step(who, trial, ask))


def _work_page(site: Site, request: Request, who: Row) -> Response:
    plan, pages = site.study.plan, site.pages
    language = pages.language(request, who["language"])
    modes = [plan.mode(who["condition"])] if who["condition"] else plan.modes
    return site.show(
        _PAGES.get(plan.kind, "clicks.html"),
        request,
        who,
        page_token=site.page_token(request),
        person=who["id"],
        steps=pages.steps(modes, language),
        minutes=pages.minutes(modes),
    )


def _message(
    study: RunningStudy, given: dict[str, Any]
) -> ClickAnswer | RatingAnswer | ContentAnswer:
    """The answer that this kind of study takes; anything else is refused by its fields."""
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
    """What a name shows in this trial; None where nothing has that name."""
    plan = study.plan
    if plan.kind == "rate":
        return name if name in VIEWS else None
    if not name.isdecimal():
        return name if name == "image" else None
    screens = plan.mode(trial["condition"]).screens
    number = int(name)
    if number >= len(screens) or screens[number].show == "text":
        return None
    return screens[number].show
